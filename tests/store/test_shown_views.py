"""Views for other tools: what they show, who may read them, and when they come and go."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import MONTHS, TIMESTAMP, Column, Schema
from belvedere.store import Store, StoredTable, open_store
from belvedere.store.public_views import ShownView
from tests.store.samples import COUNTS, code, epoch, filled, reader, row

Ask = Callable[..., list[tuple[Any, ...]]]

NESTED = pa.list_(pa.struct([("p", pa.string()), ("q", pa.int32())]))
TYPES = {
    "yes": pa.bool_(),
    "at": TIMESTAMP,
    "day": pa.date32(),
    "price": pa.decimal128(10, 2),
    "total": pa.decimal128(38, 4),
    "whole": pa.decimal128(38, 0),
    "items": NESTED,
    "length": pa.duration("us"),
    "months": MONTHS,
    "n": pa.int64(),
    'Ü "x" \' ?': pa.string(),
}
DOC = "it's\n/* 1?2 */"
MANY = StoredTable(
    "Many Types",
    Schema((*(Column(n, t, doc=DOC if n == "yes" else None) for n, t in TYPES.items()),
            Column("h", pa.int64(), hidden=True))),
    fingerprint="many",
)  # fmt: skip
FULL = {
    "yes": True,
    "at": datetime(2020, 1, 2, 3, 4, 5, 600_000, UTC),
    "day": date(1969, 12, 31),
    "price": Decimal("-0.05"),
    "total": Decimal("12345678901234567890.1234"),
    "whole": Decimal(-(10**18)),
    "items": [{"p": "ä\0", "q": 1}],
    "length": timedelta(days=1, microseconds=-1),
    "months": 14,
    "n": 7,
    'Ü "x" \' ?': "é",
}


@pytest.fixture
def ask(url: str) -> Ask:
    """Answers of another tool: of psycopg, or of Python's SQLite in a process's own connection after the store's."""

    def on_postgres(sql: str, role: str | None = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            if role is not None:
                connection.execute(f'SET ROLE "{role}"')
            cursor = connection.execute(sql.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def on_sqlite(sql: str, role: str | None = None) -> list[tuple[Any, ...]]:
        code = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())"
        path = str(Path(url.removeprefix("sqlite:///")))
        done = subprocess.run(["python3", "-c", code, path, sql], capture_output=True, text=True, check=False)
        if done.returncode:
            raise sqlite3.Error(done.stderr)
        found: list[tuple[Any, ...]] = eval(done.stdout)
        return found

    return on_postgres if url.startswith("postgres") else on_sqlite


def view(store: Store, name: str) -> str:
    """How SQL names a view for other tools."""
    return f'views."{name}"' if store.dialect == "postgres" else f'"views_{name}"'


def show(
    store: Store, views: Sequence[ShownView], number: int, drop: Sequence[str] = (), create: Sequence[StoredTable] = ()
) -> None:
    """A deployment: all of it in the transaction of one epoch."""
    transaction = store.begin()
    store.drop(drop)
    store.create(create)
    store.show(views)
    transaction.commit(epoch(number))


def test_values_are_what_people_read(store: Store, ask: Ask) -> None:
    empty = dict.fromkeys(FULL)
    round_ = {
        **empty,
        "at": datetime(1900, 1, 1, tzinfo=UTC),
        "price": Decimal("99999999.99"),
        "total": Decimal(7),
        "whole": Decimal(5),
    }
    filled(store, [{**r, "h": 1, "_key": str(i)} for i, r in enumerate((FULL, empty, round_))], table=MANY)
    show(store, [ShownView("Many Types", MANY)], 2)
    found = ask(f"SELECT * FROM {view(store, 'Many Types')}")
    assert len(found) == 3
    assert found[1] == (None,) * len(FULL)
    items = [{"p": "ä\0", "q": 1}]
    if store.dialect == "postgres":
        values = {
            **FULL,
            "months": timedelta(days=425),
            "items": items,
        }  # psycopg has a month of 30 days, a year of 365
        assert found[0] == tuple(values.values())
    else:
        texts = ("2020-01-02 03:04:05.600000", "1969-12-31", -0.05, "12345678901234567890.1234", "-1000000000000000000")
        assert found[0] == ("true", *texts, '[{"p":"ä\\u0000","q":1}]', "P0DT23H59M59.999999S", "P1Y2M", 7, "é")
        assert found[2][1:6] == ("1900-01-01 00:00:00", None, 99999999.99, 7.0, 5)


@pytest.mark.postgres
def test_a_reader_may_read_the_views_and_nothing_else(postgres_url: str) -> None:
    store = open_store(postgres_url)
    filled(store, [row("a", word="w", number=1)])
    show(store, [ShownView("Counts", COUNTS, "of words?")], 2)
    ((database,),) = psycopg.connect(postgres_url).execute("SELECT current_database()").fetchall()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'SET ROLE "{database}_views_reader"')
        assert connection.execute('SELECT word, number FROM views."Counts"').fetchall() == [("w", 1)]
        assert connection.execute("SELECT epoch FROM views._epoch").fetchall() == [(2,)]
        for refused in (
            'TABLE "Counts"',
            "TABLE _belvedere_epoch",
            'DELETE FROM views."Counts"',
            "CREATE TABLE views.x (a int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())
    store.close()


def test_comments_are_the_scripts(store: Store, ask: Ask) -> None:
    store.create([MANY])
    show(store, [ShownView("Many Types", MANY, "it's all?")], 1)
    if store.dialect == "postgres":
        sql = (
            "SELECT obj_description(c), col_description(c, 1) FROM (SELECT 'views.\"Many Types\"'::regclass AS c) AS v"
        )
        assert ask(sql) == [("it's all?", "it's\n/* 1?2 */")]
    else:
        ((text,),) = ask("SELECT sql FROM sqlite_master WHERE name = 'views_Many Types'")
        assert text.endswith("\n/* it's all? */\n/* \"yes\": it's\n/* 1?2 * / */")


def test_views_come_and_go_with_the_epoch(store: Store, ask: Ask, url: str) -> None:
    other = replace(COUNTS, name="Other", fingerprint="other")
    filled(store, [row("a", word="w")])
    transaction = store.begin()
    store.create([other])
    store.show([ShownView("Counts", COUNTS), ShownView("Other", other)])
    transaction.rollback()
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        ask(f"SELECT * FROM {view(store, 'Counts')}")
    show(store, [ShownView("Counts", COUNTS), ShownView("Other", other)], 2, create=[other])
    changed = replace(COUNTS, schema=Schema(COUNTS.schema.columns[:2]), fingerprint="changed", ranges=(), indexes=())
    show(store, [ShownView("Counts", changed)], 3, drop=["Counts", "Other"], create=[changed])
    assert ask(f"SELECT count(*) FROM {view(store, 'Counts')}") == [(0,)]
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        ask(f"SELECT number, at FROM {view(store, 'Counts')}")
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        ask(f"SELECT * FROM {view(store, 'Other')}")
    store.close()
    again = open_store(url)
    show(again, [ShownView("Counts", changed)], 4)
    assert ask(f"SELECT epoch FROM {view(again, '_epoch')}") == [(4,)]
    show(again, [], 5)
    with pytest.raises((sqlite3.Error, psycopg.Error)):
        ask(f"SELECT * FROM {view(again, 'Counts')}")
    again.close()


def test_a_new_table_takes_its_name_from_a_view(store: Store, ask: Ask) -> None:
    """On SQLite tables and views share their names."""
    table = replace(COUNTS, name="views_Counts", fingerprint="other")
    filled(store, [row("a")])
    show(store, [ShownView("Counts", COUNTS)], 2)
    show(store, [ShownView("Counts", COUNTS), ShownView("views_Counts", table)], 3, create=[table])
    assert ask('SELECT count(*) FROM "views_Counts"') == [(0,)]
    assert ask(f"SELECT count(*) FROM {view(store, 'views_Counts')}") == [(0,)]


@pytest.mark.postgres
def test_what_others_made_is_left_alone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA views CREATE TABLE "Counts" (mine int)')
        store = open_store(postgres_url)
        filled(store, [row("a", word="w")])
        other = replace(COUNTS, name="Other", fingerprint="other")
        show(store, [ShownView("Counts", COUNTS), ShownView("Other", other)], 2, create=[other])
        assert connection.execute('SELECT mine FROM views."Counts"').fetchall() == []
        connection.execute('CREATE VIEW own AS TABLE views."Other"')
        transaction = store.begin()
        store.drop(["Other"])
        with pytest.raises(BelvedereError) as error:
            transaction.commit(epoch(3))
        assert code(error.value) == "B7026"
        transaction.rollback()
        connection.execute("DROP VIEW own")
        show(store, [ShownView("Counts", COUNTS)], 3, drop=["Other"])
        store.close()


@pytest.mark.postgres
def test_a_user_with_few_rights_runs_without_views(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        try:
            connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO poor")
            store = open_store(postgres_url.replace("postgres:@", "poor:@"))
            filled(store, [row("a")])
            show(store, [ShownView("Counts", COUNTS)], 2)
            assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'views'").fetchall() == []
            connection.execute("CREATE SCHEMA views")
            connection.execute("GRANT CREATE, USAGE ON SCHEMA views TO poor")
            show(store, [ShownView("Counts", COUNTS)], 3)
            assert connection.execute('SELECT count(*) FROM views."Counts"').fetchall() == [(1,)]
            store.close()
        finally:
            connection.execute("DROP OWNED BY poor")
            connection.execute("DROP ROLE poor")


def test_readers_see_one_epoch_within_a_transaction(store: Store, url: str) -> None:
    other = replace(COUNTS, name="Other", fingerprint="other")
    filled(store, [row("a")])
    show(store, [ShownView("Counts", COUNTS), ShownView("Other", other)], 2, create=[other])

    def write() -> None:
        transaction = store.begin()
        for table in (COUNTS, other):
            transaction.append(table.name, reader([row("b")], table))
        transaction.commit(epoch(3))

    counts = [f"SELECT count(*) FROM {view(store, n)}" for n in ("Counts", "Other")]
    if store.dialect == "postgres":
        with psycopg.connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            before = [connection.execute(counts[0].encode()).fetchone()]
            write()
            before.append(connection.execute(counts[1].encode()).fetchone())
    else:
        code = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN')\n"
            "for sql in sys.argv[2:]: print(c.execute(sql).fetchone()[0], flush=True); input()"
        )
        command = ["python3", "-c", code, url.removeprefix("sqlite:///"), *counts]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            before = [(int(child.stdout.readline()),)]
            write()
            child.stdin.write("\n\n")
            child.stdin.flush()
            before.append((int(child.stdout.readline()),))
    assert before == [(1,), (0,)]
