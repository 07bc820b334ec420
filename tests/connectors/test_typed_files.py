"""Files with matching types are read without Spark; all other rows get the result of Spark's own expressions.

The oracle is the slow way alone: every record through Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.connectors.reading import row_frames
from belvedere.connectors.run_records import SourceFile
from tests.connectors.random_texts import COLUMNS, NESTED, csv_text, damaged, json_text
from tests.depth import at_night

pytestmark = pytest.mark.spark


def file_of(path: Path) -> SourceFile:
    stat = os.stat(path)
    return SourceFile(str(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def read(spark: Any, paths: list[Path], columns: Any = COLUMNS, small: int | None = 1 << 30, **options: Any) -> Any:
    from belvedere.connectors.reading.reader import read_files

    taken = read_files(spark, "T", [file_of(p) for p in paths], columns, options, small_bytes=small, apart=small == -1)
    return replace(taken, rows=taken.rows.table)


def both(
    monkeypatch: pytest.MonkeyPatch, spark: Any, paths: list[Path], columns: Any, apart: bool, **options: Any
) -> Any:
    """The rows and rejected rows, the same by Arrow in the driver and by Spark alone; with `apart` by Arrow in tasks,
    too."""
    with monkeypatch.context() as slowly:
        slowly.setattr(row_frames, "is_typed", lambda piece, form: False)
        expected = read(spark, paths, columns, **options)
    found = read(spark, paths, columns, **options)
    assert [*_shown(found.rows)] == [*_shown(expected.rows)]
    assert found.rejected == expected.rejected
    assert found.refused == expected.refused
    if apart:
        taken = read(spark, paths, columns, small=-1, **options)
        assert [*_shown(taken.rows)] == [*_shown(expected.rows)]
        assert taken.rejected == expected.rejected
    return found


def _shown(rows: pa.Table) -> Iterator[str]:
    """Rows as texts: NaN is NaN."""
    times = {f.name: f.with_type(pa.int64()) for f in rows.schema if pa.types.is_timestamp(f.type)}
    yield from map(repr, rows.cast(pa.schema([times.get(f.name, f) for f in rows.schema])).to_pylist())


SEEDS = [1, *at_night(range(2, 60))]
ROWS = 200


@pytest.mark.parametrize("seed", SEEDS)
def test_csv_has_the_verdicts_of_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    r = Random(seed)
    paths = [tmp_path / f"{n}.csv" for n in "abcd"]
    for path, odd in zip(paths, (0, 0.01, 0.3, 0.02), strict=True):
        path.write_bytes(csv_text(r, ROWS, odd).encode())
    paths[-1].write_bytes(damaged(r, csv_text(r, ROWS, 0.02)))
    found = both(monkeypatch, spark, paths, COLUMNS, seed > 1)
    assert found.rows.num_rows > ROWS
    assert found.refused > ROWS // 2


@pytest.mark.parametrize("seed", SEEDS)
def test_json_has_the_verdicts_of_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    r = Random(seed)
    columns = tuple(c for c in (*COLUMNS, *NESTED) if c.name not in ("raw", "local"))
    paths = [tmp_path / f"{n}.jsonl" for n in "abcd"]
    for path, odd in zip(paths, (0, 0.01, 0.3, 0.02), strict=True):
        path.write_text(json_text(r, ROWS, odd, columns))
    paths[-1].write_bytes(damaged(r, json_text(r, ROWS, 0.02, columns)))
    found = both(monkeypatch, spark, paths, columns, seed > 1)
    assert found.rows.num_rows > ROWS
    assert found.refused > ROWS // 2
