"""Lines, CSV records, Parquet rows and messages above the limit are rejected with their beginning; the rest is read."""

from __future__ import annotations

import csv
import gzip
import io
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.connectors.reading.csv_text import bounded_lines, csv_records_of
from belvedere.connectors.reading.long_lines import SHOWN, TooLong, whole_lines
from belvedere.connectors.reading.text_records import FAULT, LINE, TEXT, csv_records, json_records
from belvedere.schema import Column
from tests.run.test_source_files import APART, LARGE, SMALL, read

COLUMNS = (Column("id", pa.int64()), Column("name", pa.string()))
LIMIT = 100


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_lines_are_cut_wherever_chunks_end(size: int) -> None:
    r = random.Random(size)
    for _ in range(200):
        lines = ["x" * r.choice([0, 1, 50, LIMIT, LIMIT + 1, 5 * LIMIT]) for _ in range(r.randint(0, 6))]
        data = "\n".join(lines).encode()
        found: list[str | None] = []
        for block in whole_lines((data[n : n + size] for n in range(0, len(data), size)), LIMIT):
            found += [None] if isinstance(block, TooLong) else [s.decode() for s in block.split(b"\n")]
        # a chunk that is longer than the limit may hold such lines: `json_records` measures the lines of a block
        assert [None if s is None or len(s) > LIMIT else s for s in found] == [
            None if len(s) > LIMIT else s for s in lines or [""]
        ]


def test_csv_lines_above_the_limit_are_records_without_fields() -> None:
    r = random.Random(5)
    for _ in range(300):
        rows = [[r.choice(["", "a", "b,c", "x\ny", "z" * 300]) for _ in range(3)] for _ in range(5)]
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=r.choice(["\n", "\r\n"])).writerows(rows)
        text.seek(0)
        found = list(csv_records_of(bounded_lines(text, 200), ","))
        good = [row for row in rows if not any(len(v) == 300 for v in row)]
        assert [x for x in (f.fields for f in found) if x in good] == good
        assert all(len(f.text) <= SHOWN for f in found)
        assert any(f.fault for f in found) == (len(good) < len(rows))


def test_the_numbers_of_lines_behind_a_long_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name\n1,"x\ny"\n2,' + "a" * 500 + "\n3,c\n")
    (batch,) = csv_records(str(tmp_path / "a.csv"), "a", ",", skip=True, limit=LIMIT)
    assert batch.column(LINE).to_pylist() == [2, 4, 5]
    assert [f is not None for f in batch.column(FAULT).to_pylist()] == [False, True, False]


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_memory_does_not_grow_with_the_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"id": 1}\n' if kind == "json" else b"id,name\n1,a\n")
        file.write(b'{"name": "' if kind == "json" else b'2,"')
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n{"id": 3}\n' if kind == "json" else b'"\n3,c\n')
    tracemalloc.start()
    limit = 1 << 20
    batches = (
        json_records(str(path), "a", limit=limit) if kind == "json" else csv_records(str(path), "a", ",", True, limit)
    )
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    assert [r[LINE] for r in rows] == ([1, 2, 3] if kind == "json" else [2, 3, 4])
    assert [r[FAULT] and "is longer than" in r[FAULT] for r in rows] == [None, True, None]
    assert len(rows[1][TEXT]) == SHOWN


@pytest.mark.spark
@pytest.mark.parametrize("small", [SMALL, LARGE, APART])
def test_long_lines_are_rejected_and_the_others_read(spark: Any, tmp_path: Path, small: int) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2, "name": "' + "x" * 5000 + '"}\n{"id": 3}\n')
    (tmp_path / "b.csv").write_text('id,name\n4,"a\nb"\n5,' + "x" * 5000 + "\n6,c\n")
    pq.write_table(pa.table({"id": [7, 8, 9], "name": ["a", "y" * 5000, None]}), tmp_path / "c.parquet")
    files = [tmp_path / n for n in ("a.jsonl", "b.csv", "c.parquet")]
    taken = read(spark, files, small, COLUMNS, max_line_mb=4000 / (1 << 20))
    assert sorted(taken.rows["id"].to_pylist()) == [1, 3, 4, 6, 7, 9]
    assert taken.refused == 3
    reported = {Path(r.file).name: r for r in taken.rejected}
    assert [reported[n].line for n in ("a.jsonl", "b.csv", "c.parquet")] == [2, 4, 2]
    for rejected in reported.values():
        assert "is longer than" in rejected.reason
    assert reported["a.jsonl"].text == ('{"id": 2, "name": "' + "x" * 5000)[:SHOWN]
