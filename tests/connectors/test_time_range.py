"""Times out of the range of TIMESTAMP and DATE, and numbers beyond DECIMAL, in all file formats: rejected by line."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.schema import TIMESTAMP, Column
from belvedere.values.decimals import decimals_of
from belvedere.values.time_range import FIRST, LAST, instant_of_milliseconds, rows_beyond
from tests.run.loops import Loop

COLUMNS = 'columns = { id = "INT", at = "TIMESTAMP", day = "DATE", n = "DECIMAL(38, 18)" }'
TIMES = [
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "+294000-01-01T00:00:00Z",
]


@pytest.mark.spark
def test_files_of_each_format(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = [f'{{"id": {n}, "at": "{at}", "day": "2026-01-01"}}' for n, at in enumerate(TIMES)]
    rows += [
        '{"id": 8, "day": "10000-01-01"}',
        '{"id": 9, "n": 345000000000000000000}',
        '{"id": 10, "n": 12345678901234567890.5}',
    ]
    (data / "J.jsonl").write_text("\n".join(rows) + "\n")
    (data / "C.csv").write_text("id,at\n" + "".join(f"{n},{at}\n" for n, at in enumerate(TIMES)))
    instants = pa.array([0, LAST, FIRST, LAST + 1, FIRST - 1], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"id": range(5), "at": instants}), data / "P.parquet")
    names = {
        "J": COLUMNS,
        "C": 'columns = { id = "INT", at = "TIMESTAMP" }',
        "P": 'columns = { id = "INT", at = "TIMESTAMP" }',
    }
    project = f'[sources.data]\nconnector = "files"\npath = "{data}"\n' + "".join(
        f"[sources.data.tables.{n}]\n{c}\n" for n, c in names.items()
    )
    script = "".join(f"IMPORT data.{n};\nSeen{n} := SELECT id FROM {n};\n" for n in names)
    loop = Loop(spark, tmp_path, script, project)
    loop.once()
    seen = {n: sorted(r["id"] for r in loop.rows(f"Seen{n}")) for n in names}
    assert seen == {"J": [0, 1, 2, 10], "C": [0, 1, 2], "P": [0, 1, 2]}
    rejected = [(Path(r["file"]).name, r["line"], r["reason"]) for r in loop.rows("_belvedere_rejected")]
    assert len(rejected) == 4 + 2 + 2
    assert ("P.parquet", 4, 'column "at": a time outside the years 1 to 9999') in rejected


def test_rows_with_such_times_in_nested_values() -> None:
    instants = pa.array([0, LAST, None, LAST + 1, FIRST - 1], pa.int64()).cast(TIMESTAMP)
    offsets = pa.array([0, 1, 2, 3, 5], pa.int32())
    table = pa.table(
        {
            "listed": pa.ListArray.from_arrays(offsets, instants),
            "mapped": pa.MapArray.from_arrays(offsets, pa.array(list("abcde")), instants),
            "within": pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([instants], ["x"])),
        }
    )
    for field in table.schema:
        assert rows_beyond(table, [Column(field.name, field.type)]).keys() == {3}, field
        assert rows_beyond(table.slice(3), [Column(field.name, field.type)]).keys() == {0}, field
        assert rows_beyond(table.slice(0, 0), [Column(field.name, field.type)]) == {}
    assert instant_of_milliseconds(2**63 - 1) is None
    assert instant_of_milliseconds(LAST // 1_000) == LAST // 1_000 * 1_000


NUMBERS = [
    "0",
    "-0",
    "1.5",
    "+7.",
    "99999999999999999999",
    "345000000000000000000",
    "1e30",
    "-1e30",
    "1e-30",
    "9" * 38,
    "9" * 39,
]
NUMBERS += ["1e100", "1.10000", "170141183460469231731687303715884105728", "0." + "9" * 38, "NaN", "", "x"]


@pytest.mark.parametrize("scale", [0, 2, 18, 38])
@pytest.mark.parametrize("text", NUMBERS)
def test_decimals_are_exact_or_refused(text: str, scale: int) -> None:
    type_ = pa.decimal128(38, scale)
    try:
        exact = Decimal(text)
    except ArithmeticError:
        exact = Decimal("NaN")
    whole = Fraction(exact) * 10**scale if exact.is_finite() else Fraction(1, 3)
    fits = whole.denominator == 1 and abs(whole) < 10**38
    if fits:
        assert decimals_of(pa.array([text, None]), type_).to_pylist() == [exact, None]
        return
    with pytest.raises(pa.ArrowInvalid):
        decimals_of(pa.array([text, None]), type_)
