"""Ranges of keys: the rows of a key between two positions in the order of a column.

In: a stored relation, an access path, and a column of integers, dates or times by which parts of a key are looked up.
Positions are numbers (microseconds, days). Out: positions and rows, limited by the driver's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from belvedere.engine.relation import Relation
from belvedere.engine.work import Work
from belvedere.rules.window_by.scan_range import numbers

MAX_KEYS = 1_000
"""Maximum number of changed keys with one look-up each. With more keys, one look-up of all their rows is cheaper."""


class TooMuch(Exception):
    """Raised if rows do not fit in the driver's memory budget."""


@dataclass(frozen=True)
class KeyRange:
    """A key whose changes are between the positions `low` and `high`."""

    key: int
    low: int
    high: int


def changes_of(delta: pa.Table, path: str, column: str) -> list[KeyRange] | None:
    """Return the positions of the changes per key.

    Return None if a change has no position or there are many keys; then all rows of the keys are read.
    """
    if delta[column].null_count:
        return None
    places = pa.table({"key": delta[path], "at": numbers(delta[column])})
    found = places.group_by("key").aggregate([("at", "min"), ("at", "max")])
    if found.num_rows > MAX_KEYS:
        return None
    return [KeyRange(r["key"], r["at_min"], r["at_max"]) for r in found.to_pylist()]


class Spans:
    """The rows of one relation by one access path and column, in one epoch."""

    def __init__(self, work: Work, relation: Relation, path: str, column: str):
        self.work, self.relation, self.path, self.column = work, relation.name, path, column
        self.type = relation.schema[column].type
        self.sizes: dict[int, int] = {}

    def place(self, key: int, start: int, count: int, after: bool) -> int | None:
        """Return the position of the row `count` rows before or after a position; None if there are fewer rows."""
        return self.work.storage.place(self.relation, self.path, key, self.column, start, count, after)

    def has(self, place: int) -> bool:
        """Return whether the column's type has a value for the position."""
        try:
            self.value(place)
        except (pa.ArrowInvalid, OverflowError, ValueError):
            return False
        return True

    def rows(self, key: int, begin: int | None, end: int | None) -> pa.Table:
        """Return the rows from one position to another; None = to the edge.

        NULLs sort lowest. Raise TooMuch if the driver has no room.
        """
        reader = self.work.storage.look_up_span(self.relation, self.path, key, self.column, begin, end)
        batches: list[pa.RecordBatch] = []
        self.sizes[key] = 0
        for batch in reader:
            self.sizes[key] += batch.nbytes
            if not self.work.compute.memory.has_room(sum(self.sizes.values())):
                raise TooMuch
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    def value(self, place: int) -> Any:
        """Return the column's value for a position. Raise if the type has none."""
        type_ = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
        return pa.array([place], pa.int64()).cast(type_).cast(self.type)[0].as_py()


def is_mixed(rows: pa.Table, partition: Sequence[str]) -> bool:
    """Return whether rows of several partitions share the same hash. Positions can then be nearer than they seem."""
    by = list(partition)
    return bool(by) and rows.select(by).group_by(by).aggregate([]).num_rows > 1
