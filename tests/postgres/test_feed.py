"""Tables of another database by their change feed: after every epoch the views are those of the tables."""

from __future__ import annotations

import base64
import os
import random
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from belvedere.cli import app
from belvedere.compiler import compile_script
from belvedere.connectors.abandoned_slots import left_slots
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings, Source
from belvedere.store import open_reader
from tests.postgres.conftest import Shop
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SCRIPT = """
IMPORT crm.customers AS Customers;
IMPORT crm.orders AS Orders;
Revenue := SELECT c.city, sum(o.amount) AS amount, count(*) AS n FROM Orders o JOIN Customers c ON c.id = o.customer
    GROUP BY c.city;
"""
REVENUE = "SELECT c.city, sum(o.amount), count(*) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.city"


def project(shop: Shop, more: str = "") -> str:
    return f'[sources.crm]\nconnector = "postgres"\nurl = "{shop.url}"\nslot = "{shop.slot}"\n{more}\n'


def revenue(loop: Loop) -> list[Any]:
    return sorted(((r["city"], r["amount"], r["n"]) for r in loop.rows("Revenue")), key=str)


def agree(loop: Loop, shop: Shop) -> None:
    loop.once()
    assert revenue(loop) == sorted(shop.ask(REVENUE), key=str)


def code_of(loop: Loop) -> str:
    with pytest.raises(BelvedereError) as caught:
        loop.once()
    return caught.value.diagnostics[0].code


@pytest.mark.smoke("connector postgres")
def test_a_first_read_and_then_what_changes(shop: Shop, spark: Any, tmp_path: Path) -> None:
    shop.run(
        "INSERT INTO customers VALUES (1, 'Köln', 1.5), (2, NULL, NULL)",
        "INSERT INTO orders VALUES (1, 1, 10), (2, 1, 5)",
    )
    loop = Loop(spark, tmp_path, SCRIPT, project(shop))
    agree(loop, shop)
    assert loop.progress[0].rows_in == {"Customers": 2, "Orders": 2}
    loop.once()
    assert len(loop.progress) == 1, "nothing is new"
    shop.run(
        "BEGIN; INSERT INTO orders VALUES (1, 2, 7); UPDATE customers SET city = 'Bonn' WHERE id = 2; COMMIT",
        "DELETE FROM orders WHERE customer = 1 AND number = 1",
        "UPDATE customers SET id = 3 WHERE id = 1",
        "INSERT INTO orders VALUES (3, 1, 100)",
        "BEGIN; INSERT INTO orders VALUES (3, 9, 9); ROLLBACK",
    )
    agree(loop, shop)
    assert len(loop.progress) == 2, "all of it in one epoch"
    shop.run(
        "TRUNCATE customers, orders",
        "INSERT INTO customers VALUES (9, 'Ulm', 0)",
        "INSERT INTO orders VALUES (9, 1, 1)",
    )
    agree(loop, shop)
    shop.run("TRUNCATE orders")
    agree(loop, shop)
    assert revenue(loop) == []
    ((confirmed,),) = shop.ask(
        f"SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE slot_name = '{shop.slot}'"
    )
    reader = open_reader(loop.url)
    last = reader.last_epoch()
    reader.close()
    assert last is not None
    assert last.offsets["Orders"]["lsn"] == last.offsets["Customers"]["lsn"] == confirmed


def test_a_first_read_among_writers(shop: Shop, spark: Any, tmp_path: Path) -> None:
    shop.run("INSERT INTO customers SELECT n, 'c' || n % 5, n FROM generate_series(1, 50) n")
    stopped = threading.Event()

    def write(seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(shop.url) as connection:
            number = 0
            while not stopped.is_set():
                number += 1
                connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, %s)", (chance.randint(1, 50), seed * 1_000_000 + number, number)
                )
                if number % 3 == 0:
                    connection.execute(
                        "UPDATE customers SET city = %s WHERE id = %s", (f"c{chance.randint(1, 9)}", seed)
                    )
                if number % 5 == 0:
                    connection.execute("DELETE FROM orders WHERE number = %s", (seed * 1_000_000 + number - 2,))
                (connection.rollback if number % 7 == 0 else connection.commit)()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2, 3)]
    for writer in writers:
        writer.start()
    loop = Loop(spark, tmp_path, SCRIPT, project(shop))
    try:
        for _ in range(3):
            loop.once()
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    agree(loop, shop)
    assert sum(n for _, _, n in revenue(loop)) > 20


def test_types_and_values_without_a_place(shop: Shop, spark: Any, tmp_path: Path) -> None:
    shop.run(
        """CREATE TABLE things (id int PRIMARY KEY, b bool, s smallint, f real, d float8, n numeric(10, 3), w numeric,
    t text, j jsonb,
           u uuid, y bytea, day date, at timestamptz, local timestamp, tags text[], e interval)""",
        "ALTER PUBLICATION belvedere ADD TABLE things",
        """INSERT INTO things VALUES (1, true, -1, 1.5, 'NaN', 1.25, 12.5, 'a\tü\\n', '{"a": 1}',
    '00000000-0000-0000-0000-000000000001',
           '\\x00ff', '2024-02-29', '2024-01-01 12:00:00.123456+02', '2024-01-01 12:00:00', '{a,b}', '1 day')""",
        "INSERT INTO things (id, at) VALUES (2, 'infinity')",
    )
    script = "IMPORT crm.things AS Things;\nSeen := SELECT * FROM Things;"
    loop = Loop(spark, tmp_path, script, project(shop))
    loop.once()
    shop.run(
        "INSERT INTO things SELECT 3, b, s, f, d, n, w, t, j, u, y, day, at, local, tags, e FROM things WHERE id = 1"
    )
    shop.run("INSERT INTO things (id, n) VALUES (4, 'NaN')", "INSERT INTO things (id, d) VALUES (5, '-Infinity')")
    loop.once()
    rows = {r["id"]: r for r in loop.rows("Seen")}
    assert rows.keys() == {1, 3, 5}
    first = {k: v for k, v in rows[1].items() if k not in ("id", "_key", "_uid", "_ingest_time")}
    assert repr({k: v for k, v in rows[3].items() if k in first}) == repr(first), "the first read and the log agree"
    assert (first["b"], first["s"], first["n"], first["w"]) == (True, -1, Decimal("1.250"), Decimal("12.5"))
    assert (first["t"], first["j"], first["y"], first["tags"]) == ("a\tü\\n", '{"a": 1}', b"\x00\xff", "{a,b}")
    assert first["at"] == datetime(2024, 1, 1, 10, 0, 0, 123456, UTC)
    assert str(first["d"]) == "nan"
    reasons = [(r["file"], r["reason"]) for r in loop.rows("_belvedere_rejected")]
    assert reasons == [
        ("public.things", 'column "at": infinity is not of type TIMESTAMP'),
        ("public.things", 'column "n": NaN is not of type DECIMAL(10, 3)'),
    ]


def test_a_table_that_is_added_later(shop: Shop, spark: Any, tmp_path: Path) -> None:
    shop.run("INSERT INTO customers VALUES (1, 'Köln', 1)", "INSERT INTO orders VALUES (1, 1, 10)")
    loop = Loop(
        spark,
        tmp_path,
        "IMPORT crm.customers AS Customers;\nCities := SELECT DISTINCT city FROM Customers;",
        project(shop),
    )
    loop.once()
    shop.run("INSERT INTO customers VALUES (2, 'Ulm', 1)", "INSERT INTO orders VALUES (2, 1, 20)")
    loop.script = SCRIPT
    agree(loop, shop)
    shop.run("INSERT INTO orders VALUES (2, 2, 3)")
    agree(loop, shop)


def large(size: int = 12_000) -> str:
    """A text that Postgres cannot pack into the row: it lies beside it."""
    return base64.b64encode(os.urandom(size)).decode()


DOCUMENTS = """
CREATE TABLE documents (id bigint, part text COLLATE "C", title text, body text, raw bytea, n int DEFAULT 0,
    PRIMARY KEY (part, id));
ALTER TABLE documents ALTER raw SET STORAGE EXTERNAL
"""
SEEN = """
IMPORT crm.documents AS Documents;
Seen := SELECT * FROM Documents;
Titles := SELECT title, count(*) AS n, max(md5(body)) AS body FROM Documents GROUP BY title;
"""


def documents_agree(loop: Loop, shop: Shop) -> None:
    loop.once()
    names = ("id", "part", "title", "body", "raw", "n")
    stored = sorted((tuple(r[n] for n in names) for r in loop.rows("Seen")), key=str)
    assert stored == sorted(shop.ask(f"SELECT {', '.join(names)} FROM documents"), key=str)
    titles = sorted(((r["title"], r["n"], r["body"]) for r in loop.rows("Titles")), key=str)
    assert titles == sorted(shop.ask("SELECT title, count(*), max(md5(body)) FROM documents GROUP BY title"), key=str)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_stay_where_an_update_leaves_them(shop: Shop, spark: Any, tmp_path: Path, identity: str) -> None:
    shop.run(*DOCUMENTS.split(";"), f"ALTER TABLE documents REPLICA IDENTITY {identity}")
    shop.run("ALTER PUBLICATION belvedere ADD TABLE documents")
    insert = "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)"
    for n, part in enumerate(["é|~", "b", "b", "b"]):
        shop.connection.execute(insert, (n, part, f"t{n % 2}", None if n == 3 else large(), os.urandom(9_000)))
    loop = Loop(spark, tmp_path, SEEN, project(shop))
    documents_agree(loop, shop)
    shop.run("UPDATE documents SET n = n + 1")  # of rows of the first read
    documents_agree(loop, shop)
    shop.connection.execute(insert, (5, "c", "t1", large(), os.urandom(9_000)))
    shop.run("UPDATE documents SET n = 7 WHERE id = 5")  # in the epoch in which it came
    shop.run("UPDATE documents SET n = n + 1 WHERE id < 2", "UPDATE documents SET title = 't9', n = n + 1 WHERE id = 0")
    documents_agree(loop, shop)
    shop.run("UPDATE documents SET id = 10, n = 3 WHERE id = 0")  # the old row of the log has its key alone
    documents_agree(loop, shop)
    shop.run("UPDATE documents SET id = 11 WHERE id = 10", "UPDATE documents SET n = 4 WHERE id = 11")
    shop.run("UPDATE documents SET id = 12, part = 'z' WHERE id = 11")
    shop.run(
        "BEGIN; UPDATE documents SET id = 99 WHERE id = 1; UPDATE documents SET id = 1 WHERE id = 2;"
        "UPDATE documents SET id = 2, part = 'b' WHERE id = 99; COMMIT"
    )  # two rows change places
    shop.connection.execute("UPDATE documents SET body = %s WHERE id = 5", (large(),))
    shop.run("UPDATE documents SET title = 'new' WHERE id = 5")
    documents_agree(loop, shop)
    shop.run("DELETE FROM documents WHERE id = 12")
    shop.connection.execute(insert, (12, "z", None, large(), None))
    shop.run("UPDATE documents SET n = 9 WHERE id = 12", "UPDATE documents SET body = NULL WHERE id = 2")
    documents_agree(loop, shop)
    shop.run("TRUNCATE documents")
    shop.connection.execute(insert, (1, "b", "t", large(), b""))
    shop.run("UPDATE documents SET n = 1")
    documents_agree(loop, shop)


def test_a_large_value_without_a_stored_row(shop: Shop, spark: Any, tmp_path: Path) -> None:
    shop.run(
        "ALTER TABLE customers ADD COLUMN at timestamptz", "INSERT INTO customers VALUES (3, 'Bonn', 1, '2024-01-01')"
    )
    script = "IMPORT crm.customers AS Customers;\nSeen := SELECT id, md5(city) AS city, at FROM Customers;"
    loop = Loop(spark, tmp_path, script, project(shop))
    shop.run(f"INSERT INTO customers VALUES (1, '{large()}', 1, 'infinity')")
    loop.once()
    assert [r["id"] for r in loop.rows("Seen")] == [3]
    shop.run("UPDATE customers SET at = '2024-01-01'")
    loop.once()
    assert [r["id"] for r in loop.rows("Seen")] == [3], "what was rejected has left no value"
    reported = loop.rows("_belvedere_rejected")[-1]
    assert reported["reason"].startswith(
        'column "city": an update did not log the unchanged large value, and no stored row has it'
    )
    assert '"city"' not in reported["text"]
    shop.run("""UPDATE "public"."customers" SET "city" = "city" || ''""")
    seen = "SELECT id, md5(city) FROM customers ORDER BY id"
    loop.once()
    assert sorted((r["id"], r["city"]) for r in loop.rows("Seen")) == shop.ask(seen)
    shop.run(f"UPDATE customers SET city = '{large()}', at = 'infinity' WHERE id = 1")
    loop.once()
    assert [r["id"] for r in loop.rows("Seen")] == [3], "a row that is rejected does not stay as it was"
    shop.run("UPDATE customers SET at = '2024-01-02' WHERE id = 1")
    loop.once()
    assert [r["id"] for r in loop.rows("Seen")] == [3], "nor does its former large value come back"


def test_what_cannot_be_gone_on_with_is_told(shop: Shop, spark: Any, tmp_path: Path) -> None:
    shop.run("INSERT INTO customers VALUES (1, 'Köln', 1)", "INSERT INTO orders VALUES (1, 1, 10)")
    loop = Loop(spark, tmp_path, SCRIPT, project(shop))
    loop.once()
    shop.run("ALTER TABLE customers ADD COLUMN more int DEFAULT 1", "INSERT INTO customers VALUES (2, 'Ulm', 1, 5)")
    agree(loop, shop)
    shop.run("ALTER PUBLICATION belvedere DROP TABLE orders")
    assert code_of(loop) == "B6224"
    shop.run("ALTER PUBLICATION belvedere ADD TABLE orders", f"SELECT pg_drop_replication_slot('{shop.slot}')")
    assert code_of(loop) == "B6225"
    shop.run(f"SELECT pg_create_logical_replication_slot('{shop.slot}', 'pgoutput')")
    assert code_of(loop) == "B6225"
    loop.project(project(shop).replace(shop.slot, f"{shop.slot}_2"))
    agree(loop, shop)
    shop.run("ALTER TABLE orders DROP COLUMN amount")
    assert code_of(loop) == "B6226"


def test_what_a_table_has_become_reaches_the_views(shop: Shop, spark: Any, tmp_path: Path) -> None:
    """Tables that are read whole replace the rows that the store has; a new column comes by `schema accept`."""
    script = SCRIPT + "Seen := SELECT * FROM Orders;\n"
    shop.run(
        "INSERT INTO customers VALUES (1, 'Köln', 1), (2, 'Ulm', 1)",
        "INSERT INTO orders VALUES (1, 1, 10), (1, 2, 5), (2, 1, 7)",
    )
    loop = Loop(spark, tmp_path, script, project(shop))
    agree(loop, shop)
    shop.run(
        "ALTER TABLE orders ALTER amount TYPE bigint USING amount * 100",
        "DELETE FROM orders WHERE number = 2",
        "ALTER TABLE orders ADD COLUMN note text DEFAULT 'old'",
        "INSERT INTO orders VALUES (2, 2, 3, 'x')",
    )
    agree(loop, shop)
    assert [n.partition(":")[0] for n in loop.progress[-1].notices] == [
        'table "orders" of source "crm" has new columns that the script does not declare',
        'table "orders" of source "crm" is read completely',
    ]
    (tmp_path / "s.sqrl").write_text(script)
    accepted = CliRunner().invoke(app, ["schema", "accept", str(tmp_path / "s.sqrl"), "--store", loop.url])
    assert accepted.exit_code == 0, accepted.output
    assert 'new column "note"' in accepted.output
    shop.run("UPDATE orders SET note = 'new' WHERE customer = 1")
    agree(loop, shop)
    seen = sorted((r["customer"], r["number"], r["amount"], r["note"]) for r in loop.rows("Seen"))
    assert seen == shop.ask("SELECT customer, number, amount, note FROM orders ORDER BY 1, 2")


def test_a_source_that_leaves_the_script(shop: Shop, tmp_path: Path) -> None:
    catalog = compile_script("T(id INT NOT NULL, PRIMARY KEY (id));").catalog
    found = left_slots(catalog, ProjectSettings(tmp_path), {"Orders": {"slot": "a_slot"}, "Files": {"read": 3}})
    assert found == (
        'no import reads the slot "a_slot" any more, but its server still keeps the log for it; drop the slot on the '
        "server:  SELECT pg_drop_replication_slot('a_slot')",
    )


@pytest.mark.parametrize(
    ("statement", "more", "code"),
    [
        ("DROP PUBLICATION belvedere", "", "B6224"),
        ("ALTER PUBLICATION belvedere SET (publish = 'insert')", "", "B6224"),
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "", "B6223"),
        ("DROP TABLE orders", "", "B6101"),
        ("SELECT 1", '[sources.crm.tables.orders]\nprimary_key = ["number"]', "B6223"),
    ],
)
def test_what_is_missing_is_told(shop: Shop, spark: Any, tmp_path: Path, statement: str, more: str, code: str) -> None:
    from belvedere.connectors.project_file import load_project

    shop.run(statement)
    (tmp_path / "belvedere.toml").write_text(project(shop, more))
    compiled = compile_script(SCRIPT, path=tmp_path / "s.sqrl", project=load_project(tmp_path))
    found = (
        compiled.diagnostics[0].code if not compiled.ok else code_of(Loop(spark, tmp_path, SCRIPT, project(shop, more)))
    )
    assert found == code


def test_a_server_that_is_away(shop: Shop, spark: Any, tmp_path: Path) -> None:
    gone = project(shop).replace(shop.url, "postgresql://nobody@127.0.0.1:1/x")
    (tmp_path / "belvedere.toml").write_text(gone)
    from belvedere.connectors.project_file import load_project
    from belvedere.connectors.registry import SourceTables

    source = load_project(tmp_path).sources["crm"]
    with pytest.raises(BelvedereError) as caught:
        SourceTables().tables(source)
    assert caught.value.diagnostics[0].code == "B6220"
    with pytest.raises(BelvedereError, match="B6222"):
        SourceTables().tables(Source("crm", "postgres"))
