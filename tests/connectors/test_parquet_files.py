"""Parquet files with types that Spark lacks, or with values beyond their column: rejected by row or as a file."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.connectors.project_file import load_project
from belvedere.connectors.reading.column_inference import schema_of_files
from belvedere.connectors.reading.parquet import parquet_records, parquet_schema
from belvedere.connectors.reading.text_records import FAULT
from belvedere.connectors.run_records import SourceFile
from belvedere.schema import Column
from belvedere.values.rejections import reason_of

ODD = {
    "view": pa.array(["a", None], pa.string_view()),
    "bytes": pa.array([b"\xff", None], pa.binary_view()),
    "large": pa.array([["x", "ü"], None], pa.large_list(pa.large_string())),
    "raw": pa.array([b"\xff", None], pa.large_binary()),
    "views": pa.array([["x"], None], pa.list_(pa.string_view())),
    "wide": pa.array([Decimal(10) ** 45, Decimal(2)], pa.decimal256(50, 2)),
    "narrow": pa.array([Decimal("1.5"), None], pa.decimal256(20, 2)),
    "nested": pa.array([[("a", 2**32 - 1)], None], pa.map_(pa.string(), pa.uint32())),
    "times": pa.array([[datetime(2020, 1, 1)], None], pa.list_(pa.timestamp("ns"))),
    "clock": pa.array([time(1, 2), None], pa.time64("us")),
    "fixed": pa.array([b"1234", None], pa.binary(4)),
    "day": pa.array([datetime(2020, 1, 2), None], pa.date64()),
    "words": pa.array(["w", None]).dictionary_encode(),
}
PLAIN = {
    "view": "a",
    "bytes": b"\xff",
    "large": ["x", "ü"],
    "raw": b"\xff",
    "views": ["x"],
    "wide": f"1{'0' * 45}.00",
    "narrow": Decimal("1.50"),
    "nested": [("a", 2**32 - 1)],
    "times": [datetime(2020, 1, 1, tzinfo=UTC)],
    "clock": "01:02:00.000000",
    "fixed": b"1234",
    "day": datetime(2020, 1, 2).date(),
    "words": "w",
}


def written(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def records(path: Path, *names: str) -> list[dict[str, Any]]:
    schema = parquet_schema(str(path), set(names))
    return [row for batch in parquet_records(str(path), path.name, schema) for row in batch.to_pylist()]


def test_types_that_spark_has_not(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", **ODD)
    first, second = records(path, *ODD)
    assert {n: first[n] for n in ODD} == PLAIN
    assert (first[FAULT], second["wide"], second["view"]) == (None, "2.00", None)
    inferred = {f.name: str(f.type) for f in schema_of_files("T", [path], {})}
    assert [inferred[n] for n in ("view", "wide", "narrow", "views")] == [
        "string",
        "string",
        "decimal128(20, 2)",
        "list<item: string>",
    ]


def test_times_that_are_no_microseconds(tmp_path: Path) -> None:
    late = pa.array([2**60, 5, None], pa.timestamp("ms"))
    path = written(
        tmp_path / "a.parquet", ns=pa.array([1, 2000, None], pa.timestamp("ns")), late=late, n=pa.array([1, 2, 3])
    )
    first, second, third = records(path, "ns", "late", "n")
    assert (
        reason_of(first[FAULT]) == 'column "ns": 1970-01-01 00:00:00.000000001 has more digits than a TIMESTAMP keeps'
    )
    assert (second[FAULT], second["ns"].microsecond, second["late"].microsecond) == (None, 2, 5000)
    assert third[FAULT] is None
    (beyond, *_) = records(path, "late")
    assert reason_of(beyond[FAULT]) == f'column "late": {2**60} is not a TIMESTAMP'


@pytest.mark.spark
def test_rows_and_files_that_are_rejected(spark: Any, tmp_path: Path) -> None:
    from belvedere.connectors.reading.reader import read_files

    columns = [
        Column("x", pa.string()),
        Column("d", pa.decimal128(38, 2)),
        Column("s", pa.struct([("at", pa.timestamp("us", "UTC"))])),
    ]
    at = datetime(2024, 1, 1, 0, 0, 0, 123456)
    more = pa.array([{"at": at, "more": 1}], pa.struct([("at", pa.timestamp("us")), ("more", pa.int8())]))
    wide = pa.array([Decimal(10) ** 45, Decimal("2.50")], pa.decimal256(50, 2))
    paths = [
        written(tmp_path / "1.parquet", x=pa.array([b"abc", b"\xff", None], pa.binary())),
        written(tmp_path / "2.parquet", other=pa.array([1])),
        written(tmp_path / "3.parquet", d=wide, x=pa.array(["v", "w"], pa.string_view())),
        written(tmp_path / "4.parquet", s=more),
    ]
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
    paths.append(written(tmp_path / "5.parquet", x=bad))
    files = [SourceFile(str(p), p.stat().st_size, datetime.now(UTC)) for p in paths]
    found = read_files(spark, "T", files, columns, {})
    rows = [(r["x"], r["d"], r["s"]) for r in found.rows.table.to_pylist()]
    assert rows == [
        ("abc", None, None),
        (None, None, None),
        ("w", Decimal("2.50"), None),
        (None, None, {"at": at.replace(tzinfo=UTC)}),
    ]
    reported = {(Path(str(r.file)).name, r.line): r.reason for r in found.rejected}
    assert reported[("1.parquet", 2)] == 'column "x": /w== is not of type STRING'
    assert reported[("2.parquet", None)] == "has none of its table's columns"
    assert "is not of type DECIMAL(38, 2)" in reported[("3.parquet", 1)]
    assert "UTF8" in reported[("5.parquet", None)] or "UTF-8" in reported[("5.parquet", None)]
    assert len(reported) == found.refused == 4


@pytest.mark.parametrize(
    ("section", "connector", "hint"),
    [
        ("sources", "files", "mount the bucket"),
        ("sinks", "files", "mount the bucket"),
        ("sinks", "delta", "write it as `url`"),
    ],
)
def test_an_address_is_no_path(tmp_path: Path, section: str, connector: str, hint: str) -> None:
    for address in ("s3://bucket/orders", "gs://bucket/orders", "https://host/orders"):
        (tmp_path / "belvedere.toml").write_text(f'[{section}.data]\nconnector = "{connector}"\npath = "{address}"\n')
        (reported,) = load_project(tmp_path).diagnostics
        assert reported.code == "B9104"
        assert address in reported.message
        assert hint in str(reported.hint)
