"""`belvedere check --data` over files, over tables that Spark reads, and where a source cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.cli import run
from belvedere.connectors.reading.file_pieces import Piece, ends
from belvedere.connectors.run_records import REJECTED
from belvedere.store import open_reader
from tests.commands.checked_data import checked, looked_at, project, reported
from tests.run.loops import Loop

ORDERS = """[sources.shop]
path = "data"
[sources.shop.tables.Orders]
columns = { id = "BIGINT", qty = "INT", at = "TIMESTAMP", city = "STRING", customerId = "BIGINT" }
primary_key = ["id"]
"""


def lines(folder: Path, name: str, *rows: Any) -> None:
    path = folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r, ensure_ascii=False)) + "\n" for r in rows))


@pytest.mark.spark
def test_rows_that_do_not_fit(spark: Any, tmp_path: Path) -> None:
    project(tmp_path, ORDERS, "IMPORT shop.Orders;\nV := SELECT city, count(*) AS n FROM Orders GROUP BY city;")
    rows = (
        {"id": 1, "qty": 2, "customerid": 3, "note": None},
        {"id": 2, "qty": "zwölf", "customerid": 3},
        {"id": 3, "qty": 5_000_000_000, "customerid": 3},
        "[bold]not json",
        {"qty": 1},
        {"id": 4, "at": "2024-01-01 00:00:00"},
    )
    lines(tmp_path, "Orders/a.jsonl", *rows)
    (tmp_path / "data/Orders/b.json.gz").write_text("broken")
    before = sorted(tmp_path.rglob("*"))
    orders = looked_at(tmp_path)["Orders"]
    assert (orders["rows"], orders["fit"]) == (7, 2)
    kinds = [
        ('column "qty" is not of type INT', 2),
        ("cannot be read", 1),
        ("is not JSON", 1),
        ('column "id" is NULL', 1),
    ]
    assert reported(orders, "refused") == kinds
    first = next(f for f in orders["findings"] if f["kind"] == "refused")
    assert first["where"] == str(tmp_path / "data/Orders/a.jsonl:2")
    assert json.loads(first["text"]) == rows[1]
    assert "zwölf" in first["reason"]
    assert reported(orders, "unnamed") == [
        ("the data has 2 columns that the table does not declare: customerid, note", None)
    ]
    assert reported(orders, "missing") == [
        ('no row has the column "city"', None),
        ('no row has the column "customerId"', None),
    ]
    assert "case-sensitive" in [f for f in orders["findings"] if f["kind"] == "missing"][1]["hint"]
    shown = checked(tmp_path)
    assert "[bold]not json" in shown
    assert sorted(tmp_path.rglob("*")) == before, "no store is made"


@pytest.mark.spark
def test_it_says_what_an_epoch_says(spark: Any, tmp_path: Path) -> None:
    text = "IMPORT shop.Orders;\nV := SELECT id, city FROM Orders;"
    project(tmp_path, ORDERS, text)
    lines(
        tmp_path,
        "Orders.json",
        {"id": 1, "at": "never"},
        '{"id": 2} {"id": 3}',
        {"id": None},
        {"id": "4"},
        {"id": 5},
        "\x1b[31m",
    )
    loop = Loop(spark, tmp_path, text, ORDERS)
    loop.once()
    orders = looked_at(tmp_path)["Orders"]
    assert orders["fit"] == len(loop.rows("V"))
    reader = open_reader(loop.url)
    rejected = reader.rows(REJECTED)["reason"].to_pylist()
    reader.close()
    assert orders["rows"] - orders["fit"] == sum(n or 0 for _, n in reported(orders, "refused")) == len(rejected) == 5
    assert {f["reason"] for f in orders["findings"] if f["kind"] == "refused"} <= set(rejected)
    assert "\x1b" not in checked(tmp_path)


@pytest.mark.spark
def test_times_that_no_clock_had_and_late_rows(spark: Any, tmp_path: Path) -> None:
    toml = (
        '[sources.shop]\npath = "data"\n[sources.shop.tables.Trips]\ncolumns = { id = "BIGINT", at = "TIMESTAMP", '
        'empty = "STRING" }\n'
    )
    script = "IMPORT shop.Trips WATERMARK FOR at AS at - INTERVAL 1 MINUTE LATE DROP;\nV := SELECT id FROM Trips;"
    project(tmp_path, toml, script)
    milliseconds = 1_704_067_200_000  # read as seconds: the year 55969
    times = (
        "2024-01-01T00:00:00Z",
        "2150-01-01T00:00:00Z",
        "1970-01-20T00:00:00Z",
        "2024-01-01T00:01:00Z",
        None,
        milliseconds,
    )
    lines(tmp_path, "Trips.json", *({"id": n, "at": at, "empty": None} for n, at in enumerate(times)))
    trips = looked_at(tmp_path)["Trips"]
    assert reported(trips, "time") == [('column "at" is in the future', 1), ('column "at" is before 1971', 1)]
    assert [f["text"][:6] for f in trips["findings"] if f["kind"] == "time"] == ["2150-0", "1970-0"]
    assert reported(trips, "refused") == [('column "at": a time outside the years 1 to 9999', 1)]
    assert reported(trips, "empty") == [('column "empty" is NULL in all of them', 5)]
    late = reported(trips, "late")
    assert [n for _, n in late] == [5 - trips["fit"]]


@pytest.mark.spark
def test_the_first_and_last_rows_of_the_first_and_last_files(spark: Any, tmp_path: Path) -> None:
    toml = '[sources.shop]\npath = "data"\n[sources.shop.tables.T]\ncolumns = { a = "INT", b = "STRING" }\n'
    project(tmp_path, toml, "IMPORT shop.T;\nV := SELECT a FROM T;")
    (tmp_path / "data/T").mkdir(parents=True)
    (tmp_path / "data/T/a.csv").write_text("A,b\n" + "1,x\n" * 5_000 + "bad,y\n" + "1,x\n" * 5_000 + "worse,z\n")
    pq.write_table(pa.table({"a": [*range(10_000), 2**40], "C": ["c"] * 10_001}), tmp_path / "data/T/b.parquet")
    looked = looked_at(tmp_path, "--rows", "100")["T"]
    assert (looked["rows"], looked["fit"]) == (100, 98)
    assert reported(looked, "refused") == [('column "a" is not of type INT', 2)]
    assert reported(looked, "unnamed") == [("the data has 1 column that the table does not declare: C", None)]
    assert looked_at(tmp_path, "--rows", "100000")["T"]["rows"] == 20_003


@pytest.mark.spark
def test_maps_whose_keys_files_cannot_have(spark: Any, tmp_path: Path) -> None:
    toml = '[sources.shop]\npath = "data"\n[sources.shop.tables.T]\ncolumns = { m = "MAP<INT, STRING>" }\n'
    project(tmp_path, toml, "IMPORT shop.T;\nV := SELECT m FROM T;")
    lines(tmp_path, "T.json", {"m": {"1": "a"}})
    assert looked_at(tmp_path, code=1)["T"]["failures"][0]["code"] == "B6104"


@pytest.mark.parametrize(
    ("most", "expected"), [(1, [1]), (2, [1, 7]), (5, [1, 2, 3, 6, 7]), (7, [*range(1, 8)]), (9, [*range(1, 8)])]
)
def test_ends_of_a_file(tmp_path: Path, most: int, expected: list[int]) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}\n" * 7)
    batches = list(ends(Piece(str(file), "a", "json", {}), most))
    assert [n for b in batches for n in b.column(1).to_pylist()] == expected
    large = Piece(str(file), "a", "json", {}, size=1 << 30)
    assert [n for b in ends(large, most) for n in b.column(1).to_pylist()] == list(range(1, min(most, 7) + 1))


@pytest.mark.spark
def test_who_cannot_be_asked_does_not_keep_the_others(spark: Any, tmp_path: Path) -> None:
    toml = """[sources.away]
connector = "kafka"
servers = "127.0.0.1:1"
[sources.away.tables.Clicks]
columns = { id = "BIGINT" }
[sources.gone]
connector = "postgres"
url = "postgresql://user@127.0.0.1:1/none"
[sources.made]
connector = "sensors"
[sources.lake]
connector = "spark"
format = "parquet"
[sources.lake.tables.Orders]
path = "nowhere"
columns = { id = "BIGINT" }
increasing = "id"
[sources.shop]
path = "data"
[sources.shop.tables.Few]
columns = { id = "BIGINT" }
[sources.shop.tables.None]
columns = { id = "BIGINT" }
[sources.shop.tables.Bad]
columns = { id = "BIGINT" }
"""
    script = "IMPORT away.Clicks;\nIMPORT gone.people;\nIMPORT made.Sensors;\nIMPORT lake.Orders;\n"
    project(tmp_path, toml, script + "IMPORT shop.Few;\nIMPORT shop.None;\nIMPORT shop.Bad;")
    lines(tmp_path, "Few.json", {"id": 1})
    lines(tmp_path, "Bad.json", {"id": "a"})
    shown = checked(tmp_path, code=1)
    assert "error[B6220]" in shown
    looked = looked_at(tmp_path, code=1)
    assert {n: one["failures"][0]["code"] for n, one in looked.items() if "failures" in one} == {
        "Clicks": "B6201",
        "Orders": "B6251",
    }
    assert looked["Few"]["fit"] == 1
    assert looked["None"]["note"] == "has no rows yet"
    assert "cannot sample" in looked["Sensors"]["note"]
    assert (looked["Bad"]["rows"], looked["Bad"]["fit"]) == (1, 0)
    project(tmp_path, toml, "IMPORT shop.Few;\nIMPORT shop.None;")
    looked_at(tmp_path)
    project(tmp_path, toml, "IMPORT shop.Bad;")
    assert looked_at(tmp_path, code=1)["Bad"]["fit"] == 0
    project(tmp_path, toml, "A := SELECT 1 AS a;")
    assert "imports no tables" in checked(tmp_path)


def test_the_data_of_a_script_that_is_wrong_is_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(tmp_path, "Orders.json", {"id": 1})
    project(tmp_path, ORDERS, "IMPORT shop.Orders KEEP 1 DAY;\nA := SELECT nothing FROM Orders;")
    assert "s.sqrl: correct these errors before the data can be checked" in (shown := checked(tmp_path, code=1))
    assert "error[B2002]" in shown
    assert "shop.Orders" not in shown
    assert json.loads(checked(tmp_path, "--json", code=1))["data"] is None
    fine = tmp_path / "fine.sqrl"
    fine.write_text("IMPORT shop.Orders KEEP 1 DAY;")
    assert run(["check", str(fine), str(tmp_path / "s.sqrl"), "--data"]) == 1
    assert "shop.Orders" in (out := capsys.readouterr().out)
    assert "fine.sqrl: the data" not in out
    project(tmp_path, ORDERS + "[shop]\n", "IMPORT shop.Orders KEEP 1 DAY;")
    assert "can be checked" in checked(tmp_path, code=1)


@pytest.mark.spark
def test_tables_that_spark_reads(spark: Any, tmp_path: Path) -> None:
    text = (
        "SELECT id, CAST(id AS STRING) AS name, IF(id % 10 = 0, NULL, id) AS grows, parse_json('1') AS odd FROM "
        "range(1, 101)"
    )
    spark.sql(text).write.parquet(str(tmp_path / "orders"))
    toml = """[sources.lake]
connector = "spark"
format = "parquet"
[sources.lake.tables.Orders]
path = "orders"
columns = { ID = "INT", name = "STRING" }
increasing = "grows"
[sources.lake.tables.Towns]
path = "orders"
columns = { name = "STRING", grows = "BIGINT" }
primary_key = ["grows"]
version = "max(id)"
"""
    project(tmp_path, toml, "IMPORT lake.Orders;\nIMPORT lake.Towns;")
    looked = looked_at(tmp_path, "--rows", "20")
    assert (looked["Orders"]["rows"], looked["Orders"]["fit"]) == (20, 20)
    assert reported(looked["Orders"], "type") == [('column "ID" is INT, and BIGINT in the source', None)]
    assert reported(looked["Orders"], "unnamed") == [
        ("the data has 2 columns that the table does not declare: grows, odd", None)
    ]
    assert looked_at(tmp_path)["Orders"]["rows"] == 90
    towns = looked_at(tmp_path)["Towns"]
    assert reported(towns, "refused") == [('column "grows" is NULL', 10)]
    project(tmp_path, toml.replace('["grows"]', '["name"]').replace("CAST(id AS STRING)", "'x'"), "IMPORT lake.Towns;")
    assert reported(looked_at(tmp_path)["Towns"], "keys") == []
    spark.sql("SELECT 'x' AS name, id AS grows, id FROM range(3)").write.mode("overwrite").parquet(
        str(tmp_path / "orders")
    )
    assert reported(looked_at(tmp_path)["Towns"], "keys") == [("keys occur in several rows, which have no order", 1)]
