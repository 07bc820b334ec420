"""`belvedere query` over Parquet files uses Spark's own scan if types match, with the same answers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.commands.query import query
from belvedere.connectors.reading.column_inference import infer_file
from belvedere.schema import Column
from belvedere.spark import query_files
from belvedere.spark.query_files import read_table

pytestmark = pytest.mark.spark
START = 1_577_836_800_000_000
QUERIES = (
    "SELECT count(*) AS n, max(price) AS most FROM t",
    "SELECT id, price FROM t WHERE price > 90 ORDER BY price DESC, id LIMIT 7",
    "SELECT item, sum(price) AS total, min(at) AS first FROM t GROUP BY item ORDER BY item NULLS FIRST",
    "SELECT a.id, b.item FROM t AS a JOIN t AS b ON a.id = b.id + 1 WHERE b.item = 'é' ORDER BY a.id",
    "SELECT count(*) AS n FROM t AS a JOIN u AS b ON a.id = b.id",
    "FROM t AS r WINDOW BY w PARTITION BY r.item ORDER BY r.id TYPE TUMBLING START AS s WHEN true END AS e WHEN "
    "e.price > 50 SELECT s.item AS item, s.id AS id, ARRAY_COUNT(w) AS n",
)


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "item": pa.array([("a", "é", None)[n % 3] for n in numbers]).dictionary_encode(),
            "price": pa.array([n * 37 % 101 for n in numbers], pa.int64()),
            "at": pa.array([START + n for n in numbers], pa.timestamp("us", tz="UTC")),
            "other": ["x" * 20] * len(numbers),
        }
    )


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(3):
        pq.write_table(rows(n * 100, n * 100 + 100), folder / f"{n}.parquet")
    (tmp_path / "u.csv").write_text("id,word\n7,x\n8,y\n")
    return {"t": folder, "u": tmp_path / "u.csv"}


def scanned(spark: Any, path: Path) -> Any:
    """Spark's own scan of a file or folder; None where it is read."""
    return read_table(spark, "t", path, [Column(f.name, f.type) for f in infer_file(path)]).rows.frame


@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_those_of_reading_first(
    spark: Any, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    found = query(text, paths)
    with monkeypatch.context() as reading:
        reading.setattr(query_files, "scan_of", lambda *given: None)
        assert query(text, paths).rows == found.rows
    assert found.rows.num_rows
    assert not found.rejected


def test_only_the_columns_of_a_query_are_read(spark: Any, paths: dict[str, Path]) -> None:
    plan = scanned(spark, paths["t"]).where("price > 90").select("id")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<id:int,price:bigint>" in plan
    assert "GreaterThan(price,90)" in plan


def test_files_whose_rows_may_be_rejected_are_read(spark: Any, tmp_path: Path) -> None:
    late = pa.table({"at": pa.array([300_000_000_000_000_000], pa.timestamp("us", tz="UTC"))})
    fine = pa.table({"at": pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))})
    tables = {
        "late": late,
        "nanoseconds": pa.table({"at": pa.array([1], pa.timestamp("ns"))}),
        "nested": pa.table({"n": [{"a": 1}]}),
    }
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        assert scanned(spark, tmp_path / f"{name}.parquet") is None
    pq.write_table(fine, tmp_path / "fine.parquet")
    assert scanned(spark, tmp_path / "fine.parquet") is not None
    pq.write_table(fine, tmp_path / "unknown.parquet", write_statistics=False)
    assert scanned(spark, tmp_path / "unknown.parquet") is None
    found = query("SELECT count(*) AS n FROM t", {"t": tmp_path / "late.parquet"})
    assert found.rows["n"].to_pylist() == [0]
    assert [r.reason for r in found.rejected] == ['column "at": a time outside the years 1 to 9999']


def test_a_damaged_file_is_rejected(spark: Any, paths: dict[str, Path]) -> None:
    path = paths["t"] / "1.parquet"
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(data)
    for text in ("SELECT count(price) AS n, max(id) AS last FROM t", QUERIES[-1]):
        found = query(text, paths)
        assert [Path(r.file or "").name for r in found.rejected] == ["1.parquet"]
    assert query("SELECT count(id) AS n FROM t", paths).rows["n"].to_pylist() == [200]
