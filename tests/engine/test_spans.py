"""Inputs that can be read again: all of their parts are known, from the beginning to the last offset."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.epoch_row.source_spans import SPANS, SourceSpan, past_spans, record_spans
from belvedere.engine.ingest import StampedRows
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.store import open_store
from belvedere.store.protocol import EpochRow
from belvedere.time.event_time import Clocks
from belvedere.time.producers import Producer, StreamClock

NOW = datetime(2024, 1, 1, tzinfo=UTC)
AT = [{"files": n} for n in range(5)]
Step = tuple[Mapping[str, Any], Mapping[str, Any] | None, int]

CASES: list[tuple[list[Step], Mapping[str, Any], list[int] | None]] = [
    ([], {}, []),
    ([({}, AT[1], 5), (AT[1], AT[3], 0)], AT[3], [1, 2]),
    ([({}, AT[1], 5)], AT[2], None),  # the last epoch was one of an earlier version
    ([(AT[1], AT[2], 5)], AT[2], None),  # so was the first
    ([({}, AT[1], 5), (AT[2], AT[3], 5)], AT[3], None),
    ([({}, AT[3], 5), ({}, AT[1], 5), (AT[1], AT[2], 5)], AT[2], [2, 3]),  # it was read anew from its beginning
    ([({}, AT[1], 5), (AT[1], None, 2), (AT[1], AT[2], 5)], AT[2], [1, 2, 3]),  # two rejected rows were taken between
    ([({}, AT[1], 5), (AT[1], None, 0)], AT[1], [1]),
    ([({}, AT[0], 1)] + [({"files": n}, {"files": n + 1}, 1) for n in range(11)], {"files": 11}, list(range(1, 13))),
    ([({}, {"a": 1, "b": 2}, 1), ({"b": 2.0, "a": 1}, AT[1], 1)], AT[1], [1, 2]),  # the same offset, written otherwise
]
"""Of an input each epoch's step, from an offset to another (None: rejected rows tried again), with rows used; the last
offset; the epochs that would be read again."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own, on each database."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else f"sqlite:///{tmp_path}/s.db"


def test_each_part_has_to_be_known(url: str) -> None:
    names = [f"Täble's \x01 {n}" for n in range(len(CASES))]
    clock = StreamClock(7, {None: Producer(7, 9)}, 8, True)
    store = open_store(url)
    store.create([SPANS])
    for epoch in range(1, 13):
        at = NOW + timedelta(seconds=epoch)
        spans = [
            SourceSpan(name, *steps[epoch - 1], epoch, Clocks({name: {"at": clock}} if epoch % 2 else {}))
            for name, (steps, _, _) in zip(names, CASES, strict=True)
            if epoch <= len(steps)
        ]
        transaction = store.begin()
        transaction.append(SPANS.name, record_spans(spans, {}, epoch, at, 100 * epoch)[0].to_reader())
        transaction.commit(EpochRow(epoch, at))
    reader = store.reader()
    found = past_spans(reader, [*names, "Nobody"], {n: offset for n, (_, offset, _) in zip(names, CASES, strict=True)})
    reader.close()
    store.close()
    assert list(found["Nobody"]) == [], "nobody has read it"
    epochs = [[p.epoch for p in found[n]] if n in found else None for n in names]
    assert epochs == [expected for _, _, expected in CASES]
    many = found[names[8]]
    assert (len(many), many.used) == (12, 12)
    assert list(many.after(0)) == list(many)
    assert list(many.after(10)) == list(many)[10:]
    assert list(many.after(12)) == []
    for past in many:
        begin = {} if past.epoch == 1 else {"files": past.epoch - 2}
        clocks = Clocks({names[8]: {"at": clock}} if past.epoch % 2 else {})
        assert past.span == SourceSpan(names[8], begin, {"files": past.epoch - 1}, 1, past.epoch, clocks)
        assert past.clock == NOW + timedelta(seconds=past.epoch)


def test_rows_that_no_view_reads_have_numbers_too() -> None:
    taken = {"A": StampedRows(Rows(pa.table({})), 3, 10)}
    spans = [SourceSpan(name, {}, AT[1], used, 0, Clocks()) for name, used in (("A", 3), ("B", 2), ("C", 4))]
    noted, free = record_spans(spans, taken, 1, NOW, 10)
    assert noted["first_uid"].to_pylist() == [7, 10, 12]
    assert free == 16
