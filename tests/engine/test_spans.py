"""Which inputs can be read again: those of which each part that epochs took is known, from the beginning to the last offset."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.ingest import StampedRows
from belvedere.engine.rows import Rows
from belvedere.engine.spans import SPANS, Span, past_spans, record_spans
from belvedere.time.event_time import Clocks

NOW = datetime(2024, 1, 1, tzinfo=UTC)
AT = [{"files": n} for n in range(5)]
Step = tuple[Mapping[str, Any], Mapping[str, Any] | None, int]


def known(steps: list[Step], offset: Mapping[str, Any]) -> list[int] | None:
    """The epochs that would be read again; each step is from an offset to another (None: rejected rows tried again), with rows used."""
    tables = []
    for epoch, (begin, end, used) in enumerate(steps, 1):
        spans = [Span("Täble", begin, end, used, 0, Clocks()), Span("Other", {}, AT[1], 0, 0, Clocks())]
        tables.append(record_spans(spans, {}, epoch, NOW, 10 * epoch)[0])

    class Noted:
        def rows(self, table: Any) -> pa.Table:
            assert table is SPANS
            return pa.concat_tables([*tables[::-1], SPANS.arrow.empty_table()])

    found: Any = past_spans(Noted(), ["Täble", "Third"], {"Täble": offset})  # type: ignore[arg-type]
    assert found["Third"] == (), "nobody has read it"
    return [p.epoch for p in found["Täble"]] if "Täble" in found else None


@pytest.mark.parametrize(
    ("steps", "offset", "expected"),
    [
        ([], {}, []),
        ([({}, AT[1], 5), (AT[1], AT[3], 0)], AT[3], [1, 2]),
        ([({}, AT[1], 5)], AT[2], None),  # the last epoch was one of an earlier version
        ([(AT[1], AT[2], 5)], AT[2], None),  # so was the first
        ([({}, AT[1], 5), (AT[2], AT[3], 5)], AT[3], None),
        ([({}, AT[3], 5), ({}, AT[1], 5), (AT[1], AT[2], 5)], AT[2], [2, 3]),  # it was read anew from its beginning
        ([({}, AT[1], 5), (AT[1], None, 2), (AT[1], AT[2], 5)], AT[2], None),
        ([({}, AT[1], 5), (AT[1], None, 0)], AT[1], [1]),
    ],
)
def test_each_part_has_to_be_known(steps: list[Step], offset: Mapping[str, Any], expected: list[int] | None) -> None:
    assert known(steps, offset) == expected


def test_rows_that_no_view_reads_have_numbers_too() -> None:
    taken = {"A": StampedRows(Rows(pa.table({})), 3, 10)}
    spans = [Span(name, {}, AT[1], used, 0, Clocks()) for name, used in (("A", 3), ("B", 2), ("C", 4))]
    noted, free = record_spans(spans, taken, 1, NOW, 10)
    assert noted["first_uid"].to_pylist() == [7, 10, 12]
    assert free == 16
