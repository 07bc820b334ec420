"""What is handed in is taken as it is or refused: nothing is rounded, nothing is cut off."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.intake.program_rows import rows_of_program
from belvedere.intake.request_rows import read_rows

TABLE = compile_script(
    "CREATE TABLE T (id INT, w DECIMAL, d DECIMAL(10, 2), t TIMESTAMP, day DATE, PRIMARY KEY (id));"
).catalog.inputs["T"]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("w", 21.5, "expected a whole number: the column is DECIMAL(10, 0)"),
        ("w", "21.5", "expected a whole number"),
        ("d", 1.239, "expected at most 2 digits after the point: the column is DECIMAL(10, 2)"),
        ("d", Decimal("0.001"), "at most 2 digits"),
        ("t", "2026-01-02T03:04:05.123456789Z", "further digits would be lost"),
        ("day", datetime(2026, 1, 2, 3, tzinfo=UTC), "the time of day would be lost"),
    ],
)
def test_what_would_be_rounded_is_refused(column: str, value: Any, said: str) -> None:
    with pytest.raises(BelvedereError) as error:
        rows_of_program(TABLE, [{"id": 1, column: value}])
    assert error.value.diagnostics[0].code == "B6001"
    assert said in (error.value.diagnostics[0].detail or "")


@pytest.mark.parametrize(
    ("column", "value", "kept"),
    [
        ("w", 21.0, Decimal(21)),
        ("w", "21.00", Decimal(21)),
        ("d", 1.2, Decimal("1.20")),
        ("d", "1e1", Decimal("10.00")),
        ("t", "2026-01-02T03:04:05.123456000Z", datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("day", datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2)),
    ],
)
def test_what_loses_nothing_is_taken(column: str, value: Any, kept: Any) -> None:
    assert rows_of_program(TABLE, [{"id": 1, column: value}])[column].to_pylist() == [kept]


def test_a_point_in_a_whole_number_is_refused_as_in_files() -> None:
    found = read_rows(TABLE, [{"id": 2.0}, {"id": 2}, {"id": 3, "w": 2.0}, {"id": 1.5}])
    assert found.codes == ("B6001", "B6001")
    assert found.rows["id"].to_pylist() == [2, 3]
    assert read_rows(TABLE, [{"id": 4, "w": "\ud800"}]).codes == ("B6001",), "half of a character, as in files"
