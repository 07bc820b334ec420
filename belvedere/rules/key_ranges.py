"""Parts of keys: the rows of a key between two places in the order of a column.

In: a stored relation, an access path, and a column of whole numbers, dates or times by which its keys are looked up in part; places are
numbers (microseconds, days). Out: places and rows, as long as the driver has room for them.
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
"""With more changed keys one look-up of all their rows is cheaper than one for each."""


class TooMuch(Exception):
    """The rows are more than the driver should hold."""


@dataclass(frozen=True)
class KeyRange:
    """The changes of a key are from the place `low` to the place `high`."""

    key: int
    low: int
    high: int


def changes_of(delta: pa.Table, path: str, column: str) -> list[KeyRange] | None:
    """Where the keys changed; None where all rows of the keys are to be read: a change has no place, or the keys are many."""
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
        """Whether the column's type has a value for the place."""
        try:
            self.value(place)
        except (pa.ArrowInvalid, OverflowError, ValueError):
            return False
        return True

    def rows(self, key: int, begin: int | None, end: int | None) -> pa.Table:
        """Return the rows from one position to another; None = to the edge, where NULLs sort below. Raises TooMuch."""
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
        """The column's value for a place. Raises where the type has none."""
        type_ = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
        return pa.array([place], pa.int64()).cast(type_).cast(self.type)[0].as_py()


def is_mixed(rows: pa.Table, partition: Sequence[str]) -> bool:
    """Whether rows of several partitions have the same hash, so that places may be nearer than they look."""
    by = list(partition)
    return bool(by) and rows.select(by).group_by(by).aggregate([]).num_rows > 1
