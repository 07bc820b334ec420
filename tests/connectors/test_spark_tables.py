"""Tables that Spark reads: by a column that grows, and by versions; over JDBC and over Spark's own formats."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from tests.commands.asked_sources import as_json, part
from tests.connectors.conftest import driver
from tests.run.loops import Loop

GROWING = """[sources.lake]
connector = "spark"
format = "parquet"

[sources.lake.tables.Orders]
path = "orders"
columns = {{ id = "BIGINT", city = "STRING", at = "TIMESTAMP", price = "DECIMAL(8, 2)" }}
increasing = "{0}"
"""
VERSIONED = """[sources.lake]
connector = "spark"
format = "csv"
options = {{ header = true, inferSchema = true }}

[sources.lake.tables.Towns]
path = "towns.csv"
columns = {{ id = "INT", name = "STRING" }}
primary_key = ["id"]
version = "{0}"
"""
SEEN = "IMPORT lake.Orders;\nSeen := SELECT id, city, at, price FROM Orders;"
TOWNS = """IMPORT lake.Towns;
Seen := SELECT id, name FROM Towns;
Counts := SELECT count(*) AS n FROM Towns;
CREATE SUBSCRIPTION Added ON ADD AS SELECT id, name FROM Towns;
CREATE SUBSCRIPTION Gone ON DELETE AS SELECT id, name FROM Towns;
"""


def add(spark: Any, folder: Path, *rows: str, mode: str = "append") -> None:
    values = ", ".join(f"({r})" for r in rows)
    kinds = {"id": "BIGINT", "city": "STRING", "at": "TIMESTAMP", "price": "DECIMAL(8, 2)"}
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds.items())
    text = f"SELECT {casts}, 1 AS more FROM VALUES {values} AS t(id, city, at, price)"
    spark.sql(text).write.mode(mode).parquet(str(folder / "orders"))


def codes(error: BelvedereError) -> list[str]:
    return [d.code for d in error.diagnostics]


@pytest.mark.smoke("connector spark")
@pytest.mark.spark
def test_rows_above_the_last_value(spark: Any, tmp_path: Path) -> None:
    time = "TIMESTAMP '2024-01-01 12:00:00.123456+02:00'"
    add(spark, tmp_path, f"1L, 'Köln', {time}, 1.5", "NULL, 'no id', NULL, 1", "2L, NULL, NULL, NULL")
    loop = Loop(spark, tmp_path, SEEN, GROWING.format("id"))
    loop.once()

    def ids() -> list[int]:
        return sorted(r["id"] for r in loop.rows("Seen"))

    assert [str(v) for v in sorted(loop.rows("Seen"), key=lambda r: int(r["id"]))[0].values()][:4] == [
        *("1", "Köln", "2024-01-01 10:00:00.123456+00:00", "1.50")
    ]
    assert ids() == [1, 2]
    loop.once()
    assert ids() == [1, 2], "nothing comes twice"
    add(spark, tmp_path, "9L, 'é', NULL, 3", "3L, 'b', NULL, 4", "0L, 'too low', NULL, 5")
    loop.once()
    assert ids() == [1, 2, 3, 9]


@pytest.mark.spark
def test_times_and_texts_grow_too(spark: Any, tmp_path: Path) -> None:
    for column in ("at", "city"):
        folder = tmp_path / column
        folder.mkdir()
        add(
            spark,
            folder,
            "1L, 'a', TIMESTAMP '2024-01-01 00:00:00.000001Z', 1",
            "2L, 'a''b', TIMESTAMP '2024-01-01 00:00:00.000002Z', 1",
        )
        loop = Loop(spark, folder, SEEN, GROWING.format(column))
        loop.once()
        add(spark, folder, "3L, 'c', TIMESTAMP '2024-01-01 00:00:00.000003Z', 1")
        loop.once()
        assert sorted(r["id"] for r in loop.rows("Seen")) == [1, 2, 3]


@pytest.mark.spark
def test_versions_give_differences(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("id,name,changed\n1,Köln,1\n2,Bonn,1\n3,Trier,1\n,none,1\n")
    loop = Loop(spark, tmp_path, TOWNS, VERSIONED.format("max(changed)"))
    loop.once()

    def rows(view: str) -> list[tuple[Any, Any]]:
        return sorted((r["id"], r["name"]) for r in loop.rows(view))

    assert rows("Seen") == [(1, "Köln"), (2, "Bonn"), (3, "Trier")]
    (rejected,) = loop.rows("_belvedere_rejected")
    assert (rejected["text"], rejected["reason"]) == ('{"name":"none"}', 'column "id" is NULL')
    file.write_text("id,name,changed\n1,Köln,1\n2,Bonn am Rhein,2\n4,Aachen,2\n")
    loop.once()
    assert rows("Seen") == [(1, "Köln"), (2, "Bonn am Rhein"), (4, "Aachen")]
    assert rows("Added") == [(1, "Köln"), (2, "Bonn"), (3, "Trier"), (4, "Aachen")], "what stayed is no event"
    assert rows("Gone") == [(3, "Trier")]
    file.write_text("id,name,changed\n1,other,2\n")
    loop.once()
    assert len(rows("Seen")) == 3, "the version is the same"
    file.write_text("id,name,changed\n")
    loop.once()
    assert rows("Seen") == []
    assert [r["n"] for r in loop.rows("Counts")] == [0]


@pytest.mark.spark
def test_what_cannot_be_read(spark: Any, tmp_path: Path) -> None:
    add(spark, tmp_path, "1L, 'a', NULL, 1")
    wrong = {
        "none": ("B6250", 'has no column "none"'),
        "ok": ("B6250", 'column "ok" of table "Orders" is BOOLEAN, which cannot increase'),
    }
    spark.read.parquet(str(tmp_path / "orders")).selectExpr("*", "true AS ok").write.parquet(str(tmp_path / "other"))
    for column, (code, words) in wrong.items():
        with pytest.raises(BelvedereError) as caught:
            Loop(spark, tmp_path, SEEN, GROWING.format(column).replace('"orders"', '"other"')).once()
        assert codes(caught.value) == [code]
        assert words in caught.value.diagnostics[0].message
    for old, new, code in (
        ('path = "orders"', 'path = "nowhere"', "B6251"),
        ('"parquet"', '"no.such.format"', "B6251"),
        ('increasing = "id"', "", "B6250"),
        ('increasing = "id"', 'version = "max(id)"', "B6250"),
        ('format = "parquet"', "", "B6250"),
    ):
        with pytest.raises(BelvedereError) as caught:
            Loop(spark, tmp_path, SEEN, GROWING.format("id").replace(old, new)).once()
        assert codes(caught.value) == [code], new


def test_check_needs_no_spark(tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text(GROWING.format("id"))
    assert compile_script(SEEN, path=tmp_path / "s.sqrl", project=load_project(tmp_path)).ok
    undeclared = GROWING.format("id").replace("columns = ", "options = ")
    (tmp_path / "belvedere.toml").write_text(undeclared)
    (found,) = compile_script(SEEN, path=tmp_path / "s.sqrl", project=load_project(tmp_path)).diagnostics[:1]
    assert (found.code, found.span is not None) == ("B6250", True)


@pytest.mark.spark
def test_sources_say_how_a_table_is_read(spark: Any, tmp_path: Path) -> None:
    add(spark, tmp_path, "1L, 'Köln', NULL, 1", "7L, 'Ulm', NULL, 1")
    (tmp_path / "s.sqrl").write_text(SEEN)
    more = (
        '[sources.lake.tables.Other]\npath = "o"\ncolumns = { id = "INT" }\nprimary_key = ["id"]\nversion = "max(v)"\n'
    )
    loop = Loop(spark, tmp_path, SEEN, GROWING.format("id") + more)
    facts = {"format": "parquet", "increasing": "id"}
    before = as_json(str(tmp_path / "s.sqrl"))
    assert part(before, "lake", "Orders") == {"table": "Orders", "imported": "Orders", "facts": facts}
    loop.once()
    found = as_json(str(tmp_path / "s.sqrl"), "--store", loop.url)
    assert part(found, "lake", "Orders") == {"table": "Orders", "imported": "Orders", "facts": facts, "taken": "7"}
    assert part(found, "lake", "Other") == {"table": "Other", "facts": {"format": "parquet", "version": "max(v)"}}


@pytest.mark.spark
def test_tables_over_jdbc(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"ADD JAR '{driver('org.xerial', 'sqlite-jdbc', '3.50.3.0')}'")
    database = sqlite3.connect(tmp_path / "shop.sqlite")
    database.executescript(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, city TEXT); CREATE TABLE towns (id INTEGER, name TEXT, changed "
        "INTEGER);"
        "CREATE TABLE names (id INTEGER, name TEXT COLLATE NOCASE); INSERT INTO names VALUES (1, 'B');"
        "INSERT INTO orders VALUES (1, 'Köln'), (2, NULL); INSERT INTO towns VALUES (1, 'a', 1);"
    )
    project = f"""[sources.shop]
connector = "spark"
format = "jdbc"
options = {{ url = "jdbc:sqlite:{tmp_path}/shop.sqlite", driver = "org.sqlite.JDBC" }}

[sources.shop.tables.Orders]
options = {{ dbtable = "orders" }}
columns = {{ id = "BIGINT", city = "STRING" }}
increasing = "id"

[sources.shop.tables.Towns]
options = {{ dbtable = "towns" }}
columns = {{ id = "INT", name = "STRING" }}
primary_key = ["id"]
version = "max(changed)"

[sources.shop.tables.Names]
options = {{ dbtable = "names" }}
columns = {{ id = "INT" }}
increasing = "name"
"""
    script = "IMPORT shop.*;\nSeen := SELECT o.id, o.city, t.name FROM Orders o LEFT JOIN Towns t ON o.id = t.id;\n"
    script += "Named := SELECT id FROM Names;"
    loop = Loop(spark, tmp_path, script, project)
    loop.once()

    def rows() -> list[tuple[Any, ...]]:
        return sorted((r["id"], r["city"], r["name"]) for r in loop.rows("Seen"))

    assert rows() == [(1, "Köln", "a"), (2, None, None)]
    database.executescript("INSERT INTO names VALUES (2, 'a'), (3, 'é''x'); INSERT INTO orders VALUES (3, 'c');")
    database.executescript("UPDATE towns SET id = 3, name = 'ü', changed = 2;")
    loop.once()
    assert rows() == [(1, "Köln", None), (2, None, None), (3, "c", "ü")]
    assert sorted(r["id"] for r in loop.rows("Named")) == [1, 2, 3], (
        "texts are compared by Spark, not in the order of the database"
    )
    database.close()


@pytest.mark.spark
def test_a_version_that_is_null_and_a_value_behind_which_nothing_grows(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("id,name,changed\n")
    loop = Loop(spark, tmp_path, TOWNS, VERSIONED.format("concat(max(changed), ' ', count(*))"))
    loop.once()  # nothing has no version
    file.write_text("id,name,changed\n1,Köln,\n2,Bonn,\n")
    with pytest.raises(BelvedereError) as caught:
        loop.once()
    (reported,) = caught.value.diagnostics
    assert reported.message == 'the version of table "Towns" is NULL, so changes of its rows (2) cannot be detected'
    loop = Loop(spark, tmp_path, TOWNS, VERSIONED.format("concat_ws(' ', max(changed), count(*))"))
    loop.once()
    file.write_text("id,name,changed\n1,Köln,\n2,Bonn,\n3,Trier,\n")
    loop.once()
    assert sorted(r["id"] for r in loop.rows("Seen")) == [1, 2, 3]
    columns = 'columns = { id = "BIGINT" }\nincreasing = "v"\n'
    spark.sql("SELECT 1L AS id, CAST('NaN' AS DOUBLE) AS v").write.parquet(str(tmp_path / "orders"))
    project = (
        '[sources.lake]\nconnector = "spark"\nformat = "parquet"\n[sources.lake.tables.Orders]\npath = '
        f'"orders"\n{columns}'
    )
    with pytest.raises(BelvedereError, match="after which no value can follow"):
        Loop(
            spark,
            tmp_path,
            "IMPORT lake.Orders;\nSeen := SELECT id FROM Orders;",
            project,
            f"sqlite:///{tmp_path}/o.db",
        ).once()
