"""A store in a Postgres server that others use, too: other stores, their transactions, an administrator's timeouts and
grants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from belvedere.engine.store_folders import own_identity
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings
from belvedere.schema import Column
from belvedere.schema import Schema as Columns
from belvedere.store import Store, StoredTable, open_reader, open_served_reader, open_store
from belvedere.store.copies import check_free, put_back, snapshot
from belvedere.store.dialects.postgres import postgres_session
from belvedere.store.public_views import ShownView
from tests.store.samples import COUNTS, code, epoch, filled, reader, row

pytestmark = pytest.mark.postgres

Ask = Callable[[str], list[Any]]


@pytest.fixture
def ask(postgres_url: str) -> Iterator[Ask]:
    """Ask the database as somebody else does."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def asked(query: str) -> list[Any]:
            cursor = connection.execute(query)
            return list(cursor.fetchall()) if cursor.description else []

        yield asked


def within(url: str, schema: str) -> str:
    """The URL of a store in a schema."""
    return f"{url}&options=-csearch_path%3D{schema}"


def keys(url: str) -> list[str]:
    """The rows of a store, by each kind of reader."""
    found = [[str(k) for (k,) in r.execute('SELECT _key FROM "Counts" ORDER BY 1')] for r in (open_reader(url),)]
    served = open_served_reader(url, None, 1)
    found.append([str(k) for (k,) in served.execute('SELECT _key FROM "Counts" ORDER BY 1')])
    served.close()
    assert found[0] == found[1]
    return found[0]


def test_stores_in_schemas_of_a_database_are_copied_and_put_back_each_for_itself(
    postgres_url: str, ask: Ask, tmp_path: Path
) -> None:
    for schema in ("one", "Two"):
        ask(f'CREATE SCHEMA "{schema}"')
    urls = {"public": postgres_url, "one": within(postgres_url, "one")}
    with pytest.raises(BelvedereError) as error:
        open_store(within(postgres_url, "nowhere"))
    assert code(error.value) == "B7020"
    for name, url in reversed(urls.items()):
        with closing(open_store(url)) as store:
            filled(store, [row(name)])
            store.show([ShownView("Counts", COUNTS)])
    assert {name: keys(url) for name, url in urls.items()} == {"public": ["public"], "one": ["one"]}
    for name, url in urls.items():
        (tmp_path / name).mkdir()
        with closing(snapshot(url)) as taken:
            assert taken.last_epoch() is not None
            taken.write(tmp_path / name)
    with pytest.raises(BelvedereError, match="B7101"):
        check_free(urls["one"])
    two = within(postgres_url, "%22Two%22")
    check_free(two)
    put_back(two, tmp_path / "one", {})
    assert keys(two) == ["one"]
    assert sorted(s for (s,) in ask("SELECT schemaname::text FROM pg_tables WHERE tablename = 'Counts'")) == [
        "Two",
        "one",
        "public",
    ]
    assert sorted(s for (s,) in ask("SELECT schemaname::text FROM pg_views WHERE viewname = 'Counts'")) == [
        "one_views",
        "views",
    ]


def test_a_schema_of_the_users_name_begins_no_second_store(postgres_url: str, ask: Ask) -> None:
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a")])
    ask("CREATE SCHEMA AUTHORIZATION CURRENT_USER")
    with closing(open_store(postgres_url)) as store:
        last = store.last_epoch()
        assert last is not None
        assert last.epoch == 1
    assert keys(postgres_url) == ["a"]
    ask('DROP TABLE "Counts", _belvedere_epoch CASCADE')
    open_store(postgres_url).close()
    ((schema,),) = ask("SELECT schemaname FROM pg_tables WHERE tablename = '_belvedere_epoch'")
    assert schema == ask("SELECT current_user")[0][0], "a new one goes where Postgres itself would put it"


def test_timeouts_of_an_administrator_end_no_epoch(postgres_url: str, ask: Ask) -> None:
    names = ("idle_in_transaction_session_timeout", "idle_session_timeout", "statement_timeout")
    for name in names:
        ask(f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {name} = 100', current_database()); END $$")
    with closing(open_store(postgres_url)) as store:
        store.create([COUNTS])
        store.acquire("me", 60)
        found = store.reader()
        transaction = store.begin()
        transaction.append("Counts", reader([row("a")]))
        time.sleep(0.4)  # the epoch is computed
        transaction.commit(epoch(1))
        time.sleep(0.4)  # and nothing comes for a while
        assert store.last_epoch() is not None
        store.acquire("me", 60)
        assert found.rows(COUNTS).num_rows == 1
        found.close()


def test_a_connection_that_was_ended_is_not_told_as_a_server_that_cannot_be_reached(
    postgres_url: str, ask: Ask
) -> None:
    store = open_store(postgres_url)
    transaction = store.begin()
    ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = "
        "current_database()"
    )
    with pytest.raises(BelvedereError) as error:
        store.last_epoch()
    assert code(error.value) == "B7005"
    assert "has ended the connection" in error.value.diagnostics[0].message
    transaction.rollback()
    store.close()


def test_a_run_that_lost_its_connections_keeps_its_lease(postgres_url: str, ask: Ask) -> None:
    """Nothing comes: it only renews its lease, on a connection of its own."""
    pids = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    with closing(open_store(postgres_url)) as standby:
        there = ask(pids)
        with closing(open_store(postgres_url)) as store:
            store.acquire("active", 600)
            lost = [pid for (pid,) in ask(pids) if (pid,) not in there]
            assert len(lost) == 2
            for pid in lost:
                ask(f"SELECT pg_terminate_backend({pid}, 5000)")
                store.renew()
                assert standby.holder() == "active"
            store.begin().commit(epoch(1))
    ended = "UPDATE _belvedere_lease SET process = json_build_object('backend', 0, 'started', ({})::text)"
    with closing(open_store(postgres_url)) as store, closing(open_store(postgres_url)) as standby:
        store.acquire("active", 600)
        ask(ended.format("pg_postmaster_start_time() - interval '1 second'"))
        assert standby.holder() == "active", "the server was restarted: it has ended all connections"
        ask(ended.format("pg_postmaster_start_time() + interval '1 second'"))
        assert standby.holder() is None


def test_a_start_that_loses_its_connection_begins_again(
    postgres_url: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.compiler import compile_script
    from belvedere.spark.run import runner

    lost: list[bool] = []

    def identity(store: Store) -> Any:
        if not lost:
            lost.append(True)
            ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        return own(store)

    own = own_identity
    monkeypatch.setattr(runner, "own_identity", identity)
    catalog = compile_script("CREATE TABLE T (k INT PRIMARY KEY);").catalog
    with runner.Runner(tmp_path / "s.sqrl", catalog, ProjectSettings(tmp_path), postgres_url) as found:
        assert lost
        assert found.store.last_epoch() is None


def changed(store: Store) -> None:
    """What an epoch does for a view that has another column."""
    more = StoredTable(
        "Counts", Columns((*COUNTS.schema.columns, Column("more", COUNTS.schema["number"].type))), fingerprint="other"
    )
    transaction = store.begin()
    try:
        store.drop(["Counts"])
        store.create([more])
        store.show([ShownView("Counts", more)])
        transaction.commit(epoch(2))
    except BaseException:
        transaction.rollback()
        raise


def test_a_view_that_somebody_reads_is_not_changed_and_others_read_on(
    postgres_url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "PATIENCE_SECONDS", 1.0)
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a")])
        store.show([ShownView("Counts", COUNTS)])
        longest, done = [0.0], threading.Event()

        def read() -> None:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                while not done.is_set():
                    started = time.monotonic()
                    connection.execute('SELECT * FROM views."Counts"').fetchall()
                    longest.append(time.monotonic() - started)
                    time.sleep(0.01)

        reading = threading.Thread(target=read)
        reading.start()
        with psycopg.connect(f"{postgres_url}&application_name=dashboard") as dashboard:
            dashboard.execute('SELECT * FROM views."Counts"').fetchall()
            with pytest.raises(BelvedereError) as error:
                changed(store)
            pid = dashboard.info.backend_pid
            done.set()
            reading.join()
        assert code(error.value) == "B7004"
        (reported,) = error.value.diagnostics
        assert reported.message.startswith(f"session {pid} of ")
        assert "(dashboard)" in reported.message
        assert "Counts" in str(reported.detail)
        assert max(longest) < postgres_session.MOMENT + 0.3, "nobody waits for the whole of it"
        assert [
            n for (n,) in ask("SELECT column_name FROM information_schema.columns WHERE table_schema = 'views'")
        ].count("more") == 0
        changed(store)
        assert len(ask('SELECT more FROM views."Counts"')) == 0


def test_what_was_granted_on_a_view_is_granted_on_the_changed_one(postgres_url: str, ask: Ask) -> None:
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a")])
        store.show([ShownView("Counts", COUNTS)])
        database = ask("SELECT current_database()")[0][0]
        some, other, gone = (f'"{database} {n}"' for n in ("some", "other", "gone"))
        for role in (some, other, gone):
            ask(f"CREATE ROLE {role}")
        ask(f'GRANT SELECT ON views."Counts", views._epoch TO {some} WITH GRANT OPTION')
        ask(f'GRANT SELECT (word, "number") ON views."Counts" TO {other}')
        ask('GRANT REFERENCES ON views."Counts" TO PUBLIC')
        before = ask(RIGHTS)
        changed(store)
        assert ask(RIGHTS) == before
        assert len(before) >= 5
        assert ask(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'views' AND column_name = 'more'"
        ) == [(1,)]
        ask(f"DROP OWNED BY {some}, {other}, {gone}; DROP ROLE {some}, {other}, {gone}")


RIGHTS = """
SELECT c.relname::text, a.attname::text, x.grantee::regrole::text, x.privilege_type, x.is_grantable
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attacl IS NOT NULL
CROSS JOIN LATERAL (SELECT * FROM aclexplode(c.relacl) UNION ALL SELECT * FROM aclexplode(a.attacl)) x
WHERE c.relnamespace = 'views'::regnamespace ORDER BY 1, 2, 3, 4
"""


def test_a_database_of_another_encoding_is_refused(postgres_server: str) -> None:
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = f"of_{encoding.lower()}"
        with psycopg.connect(postgres_server, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
            try:
                url = postgres_server.replace("/postgres?", f"/{name}?")
                for attempt in (open_store, check_free):
                    with pytest.raises(BelvedereError) as error:
                        attempt(url)
                    assert code(error.value) == "B7028"
                    assert encoding in error.value.diagnostics[0].message
                with psycopg.connect(url) as connection:
                    assert connection.execute(
                        "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
                    ).fetchone() == (0,)
            finally:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
