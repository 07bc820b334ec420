"""Parts of keys are read as long as the driver has room for them, and in the numbers of their column's type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import Memory
from belvedere.rules.key_ranges import KeyRange, Spans, TooMuch, changes_of, is_mixed
from belvedere.schema import TIMESTAMP, Column, Schema

DAY = date(1970, 1, 4)


def spans(rows: pa.Table, memory: int, asked: list[Any]) -> Spans:
    """Over a store that has these rows, and answers every look-up with all of them."""

    def look_up_span(*given: Any) -> pa.RecordBatchReader:
        asked.append(given)
        return rows.to_reader(max_chunksize=100)

    def place(*given: Any) -> Any:
        asked.append(given)
        return 3

    work: Any = SimpleNamespace(
        storage=SimpleNamespace(look_up_span=look_up_span, place=place), compute=SimpleNamespace(memory=Memory(memory))
    )
    relation = Relation("T", Schema((Column("at", rows.schema.field("at").type),), ("at",)), stored=True)
    return Spans(work, relation, "_h0", "at")


def test_no_more_rows_are_read_than_the_driver_has_room_for() -> None:
    table = pa.table({"at": pa.array(range(10_000), pa.int64())})
    assert spans(table, 1 << 30, []).rows(1, None, 5).num_rows == 10_000
    with pytest.raises(TooMuch):
        spans(table, 64_000, []).rows(1, None, 5)
    several = spans(table.slice(0, 1_000), 64_000, [])  # 8,000 bytes each
    assert several.rows(1, 0, 9).num_rows == several.rows(1, 0, 99).num_rows == 1_000  # read again, it counts once
    with pytest.raises(TooMuch):
        several.rows(2, 0, 9), several.rows(3, 0, 9)


def test_places_are_numbers_of_the_columns_type() -> None:
    asked: list[Any] = []
    days = spans(pa.table({"at": pa.array([DAY])}), 1 << 30, asked)
    assert days.place(7, 3, 2, after=True) == 3
    assert asked == [("T", "_h0", 7, "at", 3, 2, True)]
    assert [days.has(n) for n in (0, -(10**6), 10**7, 2**40)] == [True, False, False, False]
    times = spans(pa.table({"at": pa.array([datetime(1970, 1, 1, tzinfo=UTC)], TIMESTAMP)}), 1 << 30, asked)
    assert times.has(10**15)
    assert not times.has(2**62)
    assert not times.has(2**70)


def test_changes_are_told_by_key_unless_one_has_no_place() -> None:
    delta = pa.table({"_h0": pa.array([1, 2, 1], pa.int64()), "at": pa.array([5, 7, 3], pa.int32())})
    assert changes_of(delta, "_h0", "at") == [KeyRange(1, 3, 5), KeyRange(2, 7, 7)]
    assert changes_of(delta.set_column(1, "at", pa.array([5, None, 3], pa.int32())), "_h0", "at") is None
    many = pa.table({"_h0": pa.array(range(2_000), pa.int64()), "at": pa.array(range(2_000), pa.int64())})
    assert changes_of(many, "_h0", "at") is None


def test_partitions_of_the_same_hash_are_told_apart() -> None:
    rows = pa.table({"g": [1, 1], "n": [None, None]})
    assert not is_mixed(rows, ())
    assert not is_mixed(rows, ("g", "n"))
    assert is_mixed(pa.table({"g": [1, None]}), ("g",))
