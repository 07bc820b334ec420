"""Files with matching types are read without any call to Spark: no job, no plan, no expression, no JVM."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.connectors.reading.reader import read_files
from belvedere.connectors.run_records import SourceFile
from belvedere.schema import TIMESTAMP, Column

COLUMNS = (
    Column("id", pa.int64(), nullable=False),
    Column("name", pa.string()),
    Column("price", pa.decimal128(6, 2)),
    Column("at", TIMESTAMP),
)
AT = datetime(2020, 1, 1, 10, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": 'é, "x"', "price": Decimal("1.25"), "at": AT},
    {"id": -2, "name": None, "price": None, "at": None},
    {"id": 3, "name": "y", "price": Decimal("-7.00"), "at": AT},
]
LINES = [
    '{"id": 1, "name": "é, \\"x\\"", "price": 1.25, "at": "2020-01-01T10:00:00Z", "other": {"a": [1]}}',
    '{"id": -2, "name": null}',
    '{"at": "2020-01-01 10:00:00", "id": 3, "name": "y", "price": "-7"}',
]
CSV = 'other,ID,name,price,at\n,1,"é, ""x""",1.25,2020-01-01T10:00:00Z\n,-2,,,\nx,3,y,-7,2020-01-01 10:00:00\n'


class NoSpark:
    """A session of which nothing is asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for {name}")


def read(
    path: Path, columns: tuple[Column, ...] = COLUMNS, apart: bool = True, chunk: int = 1 << 25, **options: Any
) -> Any:
    stat = os.stat(path)
    file = SourceFile(str(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
    spark: Any = NoSpark()
    return read_files(spark, "T", [file], columns, options, apart=apart, chunk=chunk)


def written(folder: Path, kind: str) -> Path:
    path = folder / f"a.{kind}"
    match kind:
        case "csv":
            path.write_text(CSV)
        case "csv.gz":
            path.write_bytes(gzip.compress(CSV.replace("\n", "\r\n").encode("utf-16")))
        case "jsonl":
            path.write_text("\n".join(LINES))
        case "json":
            path.write_text(f"[{','.join(LINES)}]")
        case "ndjson":
            path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n ".join(LINES).encode())
        case _:
            narrow = pa.schema(
                [
                    ("ID", pa.int16()),
                    ("price", pa.decimal128(6, 2)),
                    ("at", pa.timestamp("ms")),
                    ("name", pa.large_string()),
                ]
            )
            rows = [{"ID": r["id"], **{k: v for k, v in r.items() if k != "id"}} for r in ROWS]
            table = pa.table([[r[n] for r in rows] for n in narrow.names], schema=narrow)
            pq.write_table(table.set_column(3, "name", table["name"].dictionary_encode()), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "json", "ndjson", "parquet"])
@pytest.mark.parametrize("apart", [True, False])
def test_files_whose_types_fit_need_no_spark(tmp_path: Path, kind: str, apart: bool) -> None:
    taken = read(written(tmp_path, kind), apart=apart)
    assert taken.rows.table.to_pylist() == ROWS
    assert taken.refused == 0


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_row_that_does_not_fit_is_for_spark(tmp_path: Path, kind: str) -> None:
    strict = tuple(Column(c.name, c.type, nullable=False) for c in COLUMNS)
    with pytest.raises(AssertionError, match="Spark was asked for"):
        read(written(tmp_path, kind), strict)


def test_nested_columns_of_narrower_types_need_no_spark(tmp_path: Path) -> None:
    part = pa.struct([("a", pa.int64()), ("at", TIMESTAMP)])
    columns = (Column("many", pa.list_(pa.int64())), Column("part", part), Column("parts", pa.list_(part)))
    written_part = pa.struct([pa.field("a", pa.int64(), nullable=False), ("at", pa.timestamp("ms"))])
    many = pa.list_(pa.field("element", pa.int16(), nullable=False))
    schema = pa.schema([("many", many), ("part", written_part), ("parts", pa.list_(pa.field("e", part)))])
    rows = [
        {"many": [1, 2], "part": {"a": 1, "at": AT}, "parts": [{"a": None, "at": AT}, None]},
        {"many": None, "part": None, "parts": []},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", columns).rows.table.to_pylist() == rows


def test_columns_of_two_meanings_are_for_spark(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2]], names=["id", "ID"]), tmp_path / "a.parquet")
    with pytest.raises(AssertionError, match="Spark was asked for"):
        read(tmp_path / "a.parquet")


def test_line_breaks_within_fields_need_no_spark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name\n1,x\n2,"a\nb"\n3,"a ""b"" c"\n4,d "e" f\n')
    names = [r["name"] for r in read(tmp_path / "a.csv").rows.table.to_pylist()]
    assert names == ["x", "a\nb", 'a "b" c', 'd "e" f']


def _large(folder: Path, size: int) -> Iterator[Path]:
    """Files of the same rows, of some blocks and row groups."""
    (folder / "a.csv").write_text("id,name\n" + "".join(f'{n},"{"x" * 90}{n}"\n' for n in range(size)))
    (folder / "a.jsonl").write_text(
        "".join(json.dumps({"id": n, "name": f"{'x' * 90}{n}"}) + "\n" for n in range(size))
    )
    table = pa.table({"id": range(size), "name": [f"{'x' * 90}{n}" for n in range(size)]})
    pq.write_table(table, folder / "a.parquet", row_group_size=size // 4)
    return (folder / f"a.{kind}" for kind in ("csv", "jsonl", "parquet"))


def test_large_files_are_read_in_parts(tmp_path: Path) -> None:
    size = 30_000
    for path in _large(tmp_path, size):
        for chunk in (1 << 25, 1 << 18):
            taken = read(path, chunk=chunk)
            assert taken.rows.is_collected == (chunk == 1 << 25)
            assert taken.rows.table["id"].to_pylist() == list(range(size))


def test_no_row_counts_of_a_large_file_that_is_damaged(tmp_path: Path) -> None:
    text, _, parquet = _large(tmp_path, 30_000)
    data = bytearray(parquet.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3_000] = Random(1).randbytes(3_000)
    parquet.write_bytes(data)
    packed = gzip.compress(text.read_bytes())
    (tmp_path / "a.csv.gz").write_bytes(packed[: len(packed) * 2 // 3])
    for path in (parquet, tmp_path / "a.csv.gz"):
        taken = read(path, chunk=1 << 18)
        assert (taken.rows.num_rows, taken.refused) == (0, 1)


def test_null_texts_are_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;name\n1;NA\n2;"NA"\n3;""\n4;na\n')
    taken = read(tmp_path / "a.csv", delimiter=";", null="NA")
    assert [r["name"] for r in taken.rows.table.to_pylist()] == [None, None, None, "na"]
