"""Event time at the intake: which rows are late, and how rows and bounds advance the clocks of the inputs.

In: rows of an input as they arrive, bounds, producers. Out: immutable `Clocks` (a JSON document of the epoch row) and,
per call, an `Admission`: the accepted rows, and the late rows with the bound that they are below. Each row is compared
with the bounds that result from the rows before it. So the split of arrivals into calls and epochs has no effect. The
caller decides what happens to late rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind, LatePolicy, Watermark
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID, WEIGHT
from belvedere.time import producers
from belvedere.time.producers import STRICT, StreamClock
from belvedere.values.instants import instant

Times = npt.NDArray[np.int64]
LOWEST = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class LateRow:
    """A row below the bound of its stream: its index in the call, the event-time column, its time and the bound."""

    index: int
    column: str
    time: int
    bound: int


@dataclass(frozen=True)
class Counts:
    """Row counts of an input: received rows, late rows that were not used, and malformed rows. All others were used."""

    given: int = 0
    late: int = 0
    malformed: int = 0

    @property
    def used(self) -> int:
        """Return the number of used rows: rows received = rows used + rows late + rows malformed."""
        return self.given - self.late - self.malformed

    def plus(self, given: int, late: int = 0, malformed: int = 0) -> Counts:
        """Return the counts with more rows added."""
        return Counts(self.given + given, self.late + late, self.malformed + malformed)


@dataclass(frozen=True)
class Clocks:
    """The clocks of all inputs (input id -> event-time column -> clock) and their row counts."""

    streams: Mapping[str, Mapping[str, StreamClock]] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)

    def bound(self, table: str, column: str) -> int | None:
        """Return the bound of an event-time column; None if it has no bound yet."""
        return self.clock(table, column).bound

    def clock(self, table: str, column: str) -> StreamClock:
        """Return the clock of an event-time column."""
        return self.streams.get(table, {}).get(column) or StreamClock()

    def with_clock(self, table: str, column: str, clock: StreamClock) -> Clocks:
        """Return a copy with one clock replaced."""
        return replace(self, streams={**self.streams, table: {**self.streams.get(table, {}), column: clock}})

    def advanced(self, table: str, column: str, move: Callable[..., StreamClock], *how: Any) -> Clocks:
        """Return a copy with one clock advanced by a function of `belvedere.time.producers`."""
        return self.with_clock(table, column, move(self.clock(table, column), *how))

    def counted(self, table: str, given: int, late: int = 0, malformed: int = 0) -> Clocks:
        """Return a copy with more rows counted."""
        counts = self.counts.get(table, Counts()).plus(given, late, malformed)
        return replace(self, counts={**self.counts, table: counts})

    def as_document(self) -> dict[str, Any]:
        """Return the clocks as JSON data for the epoch row."""
        streams = {t: {c: clock.as_document() for c, clock in columns.items()} for t, columns in self.streams.items()}
        counts = {t: [c.given, c.late, c.malformed] for t, c in self.counts.items()}
        return {"streams": streams, "counts": counts}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Clocks:
        """Read the clocks from the result of `as_document`. An empty document has no clocks."""
        streams = {
            t: {c: StreamClock.of_document(d) for c, d in columns.items()}
            for t, columns in document.get("streams", {}).items()
        }
        return cls(streams, {t: Counts(*c) for t, c in document.get("counts", {}).items()})


@dataclass(frozen=True)
class Admission:
    """The result of a call: the clocks after it, the accepted rows (with late rows under KEEP) and the late rows."""

    clocks: Clocks
    taken: pa.Table
    late: tuple[LateRow, ...] = ()


def admit(
    clocks: Clocks, table: Input, rows: pa.Table, now: int, producer: str | None = None, ahead: int | None = None
) -> Admission:
    """Find the late rows of one call and advance the clocks.

    `rows` has the input's event-time columns. A row with `_weight` < 0 is never late. A time more than `ahead`
    microseconds after `now` does not advance a bound; None sets no limit.
    """
    if not rows.num_rows:
        return Admission(clocks, rows)
    late: tuple[LateRow, ...] = ()
    if table.watermarks and table.late is not LatePolicy.KEEP:
        late = _late_rows(clocks, table, rows, producer, FOREVER if ahead is None else now + ahead)
    taken = rows
    if late:
        used = np.ones(rows.num_rows, dtype=bool)
        used[[r.index for r in late]] = False
        taken = rows.filter(pa.array(used))
    moved = move_on(clocks, table, taken, now, producer, ahead)
    return Admission(moved.counted(table.id, rows.num_rows, len(late)), taken, late)


@dataclass(frozen=True)
class EventTimes:
    """Event times of accepted rows of one producer: whether any row arrived, and the greatest times."""

    arrived: bool = False
    greatest: Mapping[str, int] = field(default_factory=dict)
    """By event-time column with a delay, if any row has a time there."""

    def plus(self, other: EventTimes) -> EventTimes:
        """Return the event times of these rows and of others of the same producer."""
        greatest = dict(self.greatest)
        for name, time in other.greatest.items():
            greatest[name] = max(time, greatest.get(name, time))
        return EventTimes(self.arrived or other.arrived, greatest)


def taken_times(table: Input, taken: pa.Table, last: int = FOREVER) -> EventTimes:
    """Return the event times of accepted rows. Times after `last` do not count."""
    arriving = _arriving(taken)
    greatest = {}
    for mark in table.watermarks:
        if mark.delay is not None:
            times, known = _times(taken, mark.column, arriving)
            known &= times <= last
            if known.any():
                greatest[mark.column] = int(times[known].max())
    return EventTimes(bool(arriving.any()), greatest)


@dataclass(frozen=True)
class TimeSpan:
    """Least and greatest time of rows that may be late, in all event-time columns; whether rows arrived without one."""

    least: int | None = None
    greatest: int | None = None
    untimed: bool = False

    def plus(self, other: TimeSpan) -> TimeSpan:
        """Return the span of these rows and of others."""
        least = min((t for t in (self.least, other.least) if t is not None), default=None)
        return TimeSpan(least, producers.highest(self.greatest, other.greatest), self.untimed or other.untimed)


def time_span(table: Input, rows: pa.Table) -> TimeSpan:
    """Return the span of the times of rows."""
    arriving = _arriving(rows)
    found, untimed = TimeSpan(), arriving
    for mark in table.watermarks:
        times, known = _times(rows, mark.column, arriving)
        untimed = untimed & ~known
        if known.any():
            found = found.plus(TimeSpan(int(times[known].min()), int(times[known].max())))
    return replace(found, untimed=bool(untimed.any()))


def moved_by(clocks: Clocks, table: Input, taken: EventTimes, now: int, producer: str | None = None) -> Clocks:
    """The clocks after rows that were taken."""
    if not taken.arrived:
        return clocks
    for mark in table.watermarks:
        greatest = taken.greatest.get(mark.column)
        implied = None if mark.delay is None or greatest is None else greatest - mark.delay
        clocks = clocks.advanced(table.id, mark.column, producers.rows_seen, producer, implied, now)
    return clocks


def move_on(
    clocks: Clocks, table: Input, taken: pa.Table, now: int, producer: str | None = None, ahead: int | None = None
) -> Clocks:
    """Return the clocks after accepted rows have advanced the bounds. The rows are neither checked nor counted."""
    return moved_by(clocks, table, taken_times(table, taken, FOREVER if ahead is None else now + ahead), now, producer)


def send_bound(
    clocks: Clocks, table: Input, column: str, bound: int, now: int, producer: str | None, strict: bool
) -> Clocks:
    """Apply an explicit bound of a producer to one event-time column."""
    return clocks.advanced(table.id, column, producers.bounded, producer, bound + (STRICT if strict else 0), now)


def open_producer(clocks: Clocks, table: Input, producer: str | None, bound: int | None, now: int) -> Clocks:
    """Attach a producer. Its bound applies to the first event-time column."""
    for n, mark in enumerate(table.watermarks):
        clocks = clocks.advanced(table.id, mark.column, producers.opened, producer, bound if n == 0 else None, now)
    return clocks


def close_producer(clocks: Clocks, table: Input, producer: str | None, now: int) -> Clocks:
    """Detach a producer."""
    for mark in table.watermarks:
        clocks = clocks.advanced(table.id, mark.column, producers.closed, producer, now)
    return clocks


def bounds_by_input(catalog: Catalog, clocks: Clocks) -> dict[str, Mapping[str, int] | None]:
    """Return for each input the bounds of its event-time columns; None for tables without such columns, which delay
    nothing."""
    found: dict[str, Mapping[str, int] | None] = {}
    for table in catalog.inputs.values():
        waits_for_nothing = not table.watermarks and (table.kind is InputKind.TABLE or bool(table.primary_key))
        bounds = {w.column: clocks.bound(table.id, w.column) for w in table.watermarks}
        found[table.id] = None if waits_for_nothing else {c: NEVER if b is None else b for c, b in bounds.items()}
    return found


def pass_time(clocks: Clocks, catalog: Catalog, now: int) -> Clocks:
    """Advance the processing time: producers that were idle for too long no longer hold back their streams."""
    for table in catalog.inputs.values():
        for mark in table.watermarks:
            if mark.idle_after is not None and mark.column in clocks.streams.get(table.id, {}):
                clocks = clocks.advanced(table.id, mark.column, producers.advanced, mark.idle_after, now)
    return clocks


def late_rows(table: Input, late_table: Input, rows: pa.Table, late: tuple[LateRow, ...]) -> pa.Table:
    """Return the late rows of a call as rows of `LATE(T)`."""
    found = rows.take(pa.array([r.index for r in late], pa.int64()))
    reason, bound = [c.name for c in late_table.schema if c.name not in (UID, INGEST_TIME)][-2:]
    word = "rejected" if table.late is LatePolicy.REJECT else "dropped"
    texts = [f"{word}: {r.column} is below the bound" for r in late]
    made = {reason: pa.array(texts, pa.string()), bound: pa.array([r.bound for r in late], pa.int64()).cast(TIMESTAMP)}
    names = [c.name for c in late_table.schema if c.name in made or c.name in found.schema.names]
    return pa.table({n: made.get(n, found[n] if n in found.schema.names else None) for n in names})


def time_text(micros: int) -> str:
    """Return microseconds since 1970 as RFC 3339.

    A year outside 1 to 9999 has a sign and more digits (ISO 8601 expanded).
    """
    try:
        return instant(micros).isoformat().replace("+00:00", "Z")
    except OverflowError:
        text = str(np.datetime64(micros, "us")).removesuffix(".000000")
        return f"{text if text.startswith('-') else f'+{text}'}Z"


def log_points(before: int, after: int) -> tuple[int, ...]:
    """Return the powers of ten in `before` + 1 to `after`: the counts at which late rows are logged."""
    powers = (10**n for n in range(len(str(after)) + 1))
    return tuple(p for p in powers if before < p <= after)


_Given = tuple[Watermark, StreamClock, Times, npt.NDArray[np.bool_]]


def _arriving(rows: pa.Table) -> npt.NDArray[np.bool_]:
    if WEIGHT not in rows.schema.names:
        return np.ones(rows.num_rows, dtype=bool)
    return np.asarray(pc.greater(rows[WEIGHT], 0).to_numpy(), dtype=bool)


def _times(rows: pa.Table, name: str, arriving: npt.NDArray[np.bool_]) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Return the times in microseconds, and a mask of the rows that have one.

    A NULL is never late and implies no bound.
    """
    column = rows[name].cast(TIMESTAMP).cast(pa.int64())
    known = np.asarray(pc.is_valid(column).to_numpy(), dtype=bool) & arriving
    return np.asarray(pc.fill_null(column, LOWEST).to_numpy(), dtype=np.int64), known


def ahead_rows(table: Input, rows: pa.Table, last: int) -> list[int]:
    """Return the indexes of rows with a time after `last` (microseconds) in a column whose rows advance its bound."""
    arriving, found = _arriving(rows), np.zeros(rows.num_rows, dtype=bool)
    for mark in table.watermarks:
        if mark.delay is not None:
            times, known = _times(rows, mark.column, arriving)
            found |= known & (times > last)
    places: list[int] = np.flatnonzero(found).tolist()
    return places


def _late_rows(clocks: Clocks, table: Input, rows: pa.Table, producer: str | None, last: int) -> tuple[LateRow, ...]:
    """Return the late rows. Times after `last` do not advance a bound."""
    arriving, size = _arriving(rows), rows.num_rows
    given = [(w, clocks.clock(table.id, w.column), *_times(rows, w.column, arriving)) for w in table.watermarks]
    if len(given) > 1:
        return _late_by_any(given, producer, size, last)
    mark, clock, times, known = given[0]
    least = np.full(size, _or_lowest(clock.least_for(producer)), dtype=np.int64)
    if mark.delay is not None:
        implied = np.where(known & (times <= last), times, LOWEST + mark.delay) - mark.delay
        least[1:] = np.maximum(least[1:], np.maximum.accumulate(implied)[:-1])
    found = np.flatnonzero(known & (times < least))
    return tuple(LateRow(int(i), mark.column, int(times[i]), int(least[i])) for i in found)


def _late_by_any(given: list[_Given], producer: str | None, size: int, last: int) -> tuple[LateRow, ...]:
    """Return the late rows for several event-time columns.

    A row that is late in one column does not advance the others.
    """
    least = [_or_lowest(clock.least_for(producer)) for _, clock, _, _ in given]
    found = []
    for index in range(size):
        broken = next((n for n, (_, _, t, known) in enumerate(given) if known[index] and t[index] < least[n]), None)
        if broken is not None:
            mark, _, times, _ = given[broken]
            found.append(LateRow(index, mark.column, int(times[index]), least[broken]))
            continue
        for n, (mark, _, times, known) in enumerate(given):
            if mark.delay is not None and known[index] and times[index] <= last:
                least[n] = max(least[n], int(times[index]) - mark.delay)
    return tuple(found)


def _or_lowest(bound: int | None) -> int:
    return LOWEST if bound is None else bound
