"""Columns that a row gets on arrival: `rowtime`, and the columns METADATA FROM 'timestamp' and 'uuid'.

In: rows of an input as sent, the clock at their arrival. Out: the rows with these columns. From here on they are part
of the row: in the journal, in every epoch and in every replay. So an identity is created once. `ArrivalTimes` holds the
clocks at which the rows of a source arrived.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog.inputs import Input, MetadataKind
from belvedere.schema import INGEST_TIME, PLACE, ROWTIME, TIMESTAMP
from belvedere.values.instants import microseconds

Ints = npt.NDArray[np.int64]
FIRST = 86_400_000_000
"""Maximum time in microseconds between an arrival and the store's first epoch.

Earlier arrivals get this limit instead.
"""


@dataclass(frozen=True)
class ArrivalTimes:
    """Arrival times of rows in order: row counts, and the clock of each in microseconds.

    If empty, the epoch's clock applies.
    """

    counts: Ints
    clocks: Ints

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]] = ()) -> ArrivalTimes:
        """Return the arrival times of pairs (row count, clock in microseconds)."""
        pairs = np.array([*runs], np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __bool__(self) -> bool:
        return bool(len(self.counts))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.counts.tolist(), self.clocks.tolist(), strict=True)

    def within(self, since: int, clock: int) -> ArrivalTimes:
        """Return the same times, limited to `since` .. `clock` and never decreasing from one row to the next."""
        return self._with(np.maximum.accumulate(np.clip(self.clocks, since, max(since, clock))))

    def _with(self, clocks: Ints) -> ArrivalTimes:
        """Return these row counts with other clocks. Adjacent entries with equal clocks are combined."""
        counts, clocks = self.counts[self.counts > 0], clocks[self.counts > 0]
        if not len(counts):
            return ArrivalTimes(counts, clocks)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(clocks)) + 1])
        return ArrivalTimes(np.add.reduceat(counts, starts), clocks[starts])

    def without(self, places: Collection[int]) -> ArrivalTimes:
        """Return the times without the rows at `places`."""
        if not self or not places:
            return self
        gone = np.searchsorted(np.cumsum(self.counts), np.array([*places], np.int64), side="right")
        return ArrivalTimes(self.counts - np.bincount(gone, minlength=len(self.counts)), self.clocks)._with(self.clocks)

    def of_rows(self, start: int, count: int) -> pa.Array:
        """Return `_ingest_time` of `count` rows from a position on."""
        run = np.searchsorted(np.cumsum(self.counts), np.arange(start, start + count), side="right")
        return pa.array(self.clocks[run], pa.int64()).cast(TIMESTAMP)


NO_TIMES = ArrivalTimes.of()


def at_once(now: int, count: int) -> pa.Array:
    """Return one clock, in microseconds, as the time of `count` rows."""
    return pa.array(np.full(count, now), pa.int64()).cast(TIMESTAMP)


def earliest(table: Input, since: datetime | None, clock: datetime) -> int:
    """Return the earliest arrival time, in microseconds, of rows that an epoch may read: the clock of the epoch before
    (`since`).

    An earlier time would contradict what earlier epochs computed from the clock. The first epoch of an input with KEEP
    starts at its own clock, so its rows are served for the whole KEEP interval.
    """
    if since is not None:
        return microseconds(since)
    return microseconds(clock) - (FIRST if table.keep is None else 0)


def with_arrival(table: Input, rows: pa.Table, now: int) -> pa.Table:
    """Fill in missing arrival columns: `now` in microseconds (`rowtime`, METADATA 'timestamp') and a UUID per row
    ('uuid')."""
    rows = with_times(table, rows, now)
    for name in _identity_columns(table):
        rows = _filled(rows, name, pa.array(identities(rows.num_rows), pa.string()))
    return rows


def with_times(table: Input, rows: pa.Table, now: int) -> pa.Table:
    """Fill in missing arrival times: `now` in microseconds."""
    for name in arrival_times(table):
        rows = _filled(rows, name, at_once(now, rows.num_rows))
    return rows


def is_filled_on_arrival(table: Input) -> bool:
    """Return whether rows get columns on arrival."""
    return bool(arrival_times(table) or _identity_columns(table))


def _identity_columns(table: Input) -> list[str]:
    return [n for n, found in table.metadata.items() if found.kind is MetadataKind.UUID]


def with_place(rows: pa.Table, now: int, first: int) -> pa.Table:
    """Append the arrival time in microseconds (`_ingest_time`) and the row numbers from `first` on (`PLACE`)."""
    places = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
    return rows.append_column(INGEST_TIME, at_once(now, rows.num_rows)).append_column(PLACE, places)


def arrival_times(table: Input) -> list[str]:
    """Return the columns that default to the time of arrival."""
    known = table.schema.find(ROWTIME)
    implied = [ROWTIME] if known is not None and known.hidden else []
    return [*implied, *(n for n, found in table.metadata.items() if found.kind is MetadataKind.TIMESTAMP)]


def identities(count: int) -> list[str]:
    """Return random UUIDs (RFC 9562, version 4)."""
    numbers = np.frombuffer(os.urandom(16 * count), np.uint8).reshape(count, 16).copy()
    numbers[:, 6] = numbers[:, 6] & 0x0F | 0x40
    numbers[:, 8] = numbers[:, 8] & 0x3F | 0x80
    digits = numbers.tobytes().hex()
    texts = (digits[n : n + 32] for n in range(0, 32 * count, 32))
    return [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]


def _filled(rows: pa.Table, name: str, made: pa.Array) -> pa.Table:
    if name not in rows.schema.names:
        return rows.append_column(name, made)
    filled = pc.coalesce(rows[name].cast(made.type), made)
    return rows.set_column(rows.schema.names.index(name), name, filled)
