"""Values as cells of a table, and back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.scenarios.cells import BAR, BadLine, read_cell, read_rows, same_cell, same_rows, write_cell, write_table
from belvedere.schema import TIMESTAMP, Column

VALUES: list[tuple[Any, pa.DataType]] = [
    (None, pa.string()),
    ("null", pa.string()),
    ("12", pa.string()),
    ("NaN", pa.string()),
    ("", pa.string()),
    (" a", pa.string()),
    ("# no comment", pa.string()),
    ("a | b\nc", pa.string()),
    ('say "yes"', pa.string()),
    ("Łódź 🪚", pa.string()),
    (9007199254740993, pa.int64()),
    (True, pa.bool_()),
    (0.1, pa.float64()),
    (math.nan, pa.float64()),
    (-math.inf, pa.float64()),
    (Decimal("12.50"), pa.decimal128(38, 2)),
    (datetime(2024, 5, 1, 10, 0, 0, 5, tzinfo=UTC), TIMESTAMP),
    (date(2024, 5, 1), pa.date32()),
    (b"\x00\xff", pa.binary()),
    ([1, None], pa.list_(pa.int32())),
    ({"a": "x|y", "b": datetime(2024, 5, 1, tzinfo=UTC)}, pa.struct([("a", pa.string()), ("b", TIMESTAMP)])),
]


@pytest.mark.parametrize(("value", "type_"), VALUES)
def test_a_cell_reads_back_as_the_value(value: Any, type_: pa.DataType) -> None:
    cell = write_cell(value)
    assert BAR not in cell
    assert "\n" not in cell
    assert same_cell(read_cell(cell), value, type_)


@given(st.text())
def test_any_text_reads_back(text: str) -> None:
    names, rows = read_rows(write_table(["t"], [[write_cell(text)]]))
    assert (names, rows) == (["t"], [{"t": text}])


def test_a_text_is_not_what_it_looks_like() -> None:
    assert not same_cell(read_cell("null"), "null", pa.string())
    assert not same_cell(read_cell("1"), 2, pa.int32())
    assert not same_cell(read_cell("1.1"), 1.1000001, pa.float64())
    assert same_cell(read_cell("1.1"), 1.1000000000001, pa.float64())


def test_rows_count_each_as_often() -> None:
    columns = [Column("a", pa.int32())]
    once, twice = [{"a": 1}, {"a": 2}, {"a": 2}], [{"a": 1}, {"a": 1}, {"a": 2}]
    assert not same_rows(once, twice, columns, ordered=False)
    assert same_rows(once, once[::-1], columns, ordered=False)
    assert not same_rows(once, once[::-1], columns, ordered=True)


def test_lines_that_are_no_rows() -> None:
    with pytest.raises(BadLine, match="1 cell, but the header has 2"):
        read_rows(["a | b", "# fine", "1"])
    with pytest.raises(BadLine, match="JSON object"):
        read_rows(["{}", "[]"])
    assert read_rows(["a | b"]) == (["a", "b"], [])
    assert read_rows([]) == ([], [])
