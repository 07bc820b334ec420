"""Late rows: checks of an epoch's input against the bounds of its inputs, if the intake has not checked it.

In: arrivals of inputs, the clocks. Out: the arrivals that are used, those of `LATE(T)` with them, and the clocks after
them. Many rows in files are checked by tasks (`by_tasks/judging_tasks`). Of data frames whose late rows are kept only
the greatest times are read. All others are checked batch by batch; many late rows go to a separate file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypeVar, Union

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, LatePolicy
from belvedere.engine.by_tasks.file_tasks import FileTasks
from belvedere.engine.by_tasks.judging_tasks import judge_by_tasks, may_judge
from belvedere.engine.rows.epoch_rows import Rows, SparkFrame, as_rows, is_frame
from belvedere.engine.rows.ordered_rows import stream
from belvedere.engine.rows.scratch_rows import Scratch, scratch_frame, scratch_rows
from belvedere.functions.spark_types import quote
from belvedere.schema import ROWTIME
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes, with_arrival
from belvedere.time.event_time import (
    Clocks,
    admit,
    late_rows,
)
from belvedere.time.intake_entries import BoundMark, ProducerAct
from belvedere.time.pending_arrivals import log_late_rows
from belvedere.values.instants import microseconds

Arrivals = Mapping[str, Union[pa.Table, Rows, "SparkFrame"]]
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class _ProducerRows:
    """Rows of one producer that arrived at one clock, followed by a bound."""

    rows: pa.Table
    act: ProducerAct | None = None
    sender: str | None = None
    clock: int | None = None


class Judged(NamedTuple):
    """Used arrivals by input id, the clocks after them, and the times of arrival, if their source reports them."""

    used: dict[str, pa.Table | Rows | SparkFrame]
    clocks: Clocks
    times: dict[str, ArrivalTimes]


def judge(
    catalog: Catalog,
    clocks: Clocks,
    arrivals: Arrivals,
    clock: datetime,
    marks: Mapping[str, Iterable[BoundMark]] | None = None,
    producers: Mapping[str, Sequence[tuple[int, str]]] | None = None,
    times: Mapping[str, ArrivalTimes] | None = None,
    tasks: FileTasks | None = None,
) -> Judged:
    """Return the arrivals without late rows, with `LATE(T)` for those, and the resulting clocks.

    `marks` are bounds among the rows of inputs: each applies to the rows after it. `producers` are pairs of a number of
    rows and their producer, in order. `times` are those of the rows' arrivals. `tasks` judge many rows in files.
    """
    now = microseconds(clock)
    used: dict[str, pa.Table | Rows | SparkFrame] = {}
    arrived = {i: found for i, found in (times or {}).items() if found}
    for id_, given in arrivals.items():
        table = catalog.inputs[id_]
        among, senders = (marks or {}).get(id_, ()), (producers or {}).get(id_, ())
        if not table.watermarks and not isinstance(given, pa.Table):  # rows in memory get their times of arrival here
            used[id_], clocks = given, clocks.counted(id_, as_rows(given).num_rows)
            continue
        if (
            is_frame(given)
            and table.late is LatePolicy.KEEP
            and not table.schema.find(ROWTIME)
            and not among
            and not senders
        ):
            used[id_], clocks = given, _moved_by_frame(clocks, table, given, now)
            continue
        whole = as_rows(scratch_frame(given) if is_frame(given) else given)
        if tasks is not None and not among and may_judge(tasks, table, whole):
            late_table, known = catalog.late_of(id_), arrived.get(id_, NO_TIMES)
            found = judge_by_tasks(tasks, table, late_table, clocks, whole, now, senders, known)
            used[id_], clocks = found.used, found.clocks
            if id_ in arrived:
                arrived[id_] = found.times
            if late_table is not None and found.late is not None:
                used[late_table.id] = found.late
            if late_table is not None and id_ in arrived:
                arrived[late_table.id] = found.late_times
            continue
        judging = _Judging(catalog, table, clocks, now)
        parts = judging.admitted(_by_clock(_by_sender(_parts(whole, among), senders), arrived.get(id_, NO_TIMES)))
        if not whole.is_collected:
            used[id_] = scratch_rows(stream(with_arrival(table, whole.schema.empty_table(), now).schema, parts))
        else:
            used[id_] = pa.concat_tables(parts)
        clocks = judging.clocks
        if judging.late is not None and judging.late_table is not None:
            used[judging.late_table.id] = judging.late.rows()
        if id_ in arrived:
            arrived[id_] = ArrivalTimes.of(judging.times)
            if judging.late_table is not None:
                arrived[judging.late_table.id] = ArrivalTimes.of(judging.late_times)
    return Judged(used, clocks, arrived)


class _Judging:
    """The rows of one input, part by part, and the clocks that they advance."""

    def __init__(self, catalog: Catalog, table: Input, clocks: Clocks, now: int):
        self.catalog, self.table, self.clocks, self.now = catalog, table, clocks, now
        self.late_table = catalog.late_of(table.id)
        self.late: Scratch | None = None
        self.times: list[tuple[int, int]] = []
        """Number of used rows and their arrival clock, in order of arrival."""
        self.late_times: list[tuple[int, int]] = []

    def admitted(self, parts: Iterable[_ProducerRows]) -> Iterator[pa.Table]:
        """Yield the used rows of each part; a bound may follow each."""
        for given in parts:
            at = self.now if given.clock is None else given.clock
            part = with_arrival(self.table, given.rows, at)
            admission = admit(self.clocks, self.table, part, self.now, given.sender)
            log_late_rows(self.table, self.clocks, admission)
            if admission.late and self.late_table is not None:
                late = late_rows(self.table, self.late_table, part, admission.late)
                self.late = self.late or Scratch(late.schema)
                self.late.add(late)
                self.late_times.append((late.num_rows, at))
            self.times.append((admission.taken.num_rows, at))
            moved = admission.clocks
            self.clocks = moved if given.act is None else replace(given.act, now=self.now).advanced(moved, self.catalog)
            yield admission.taken


def _by_sender(parts: Iterable[_ProducerRows], senders: Sequence[tuple[int, str]]) -> Iterator[_ProducerRows]:
    """Yield the parts, split where the producer changes."""
    return (replace(part, sender=sender) for part, sender in _cut(parts, senders)) if senders else iter(parts)


def _by_clock(parts: Iterable[_ProducerRows], times: ArrivalTimes) -> Iterator[_ProducerRows]:
    """Yield the parts, split where the arrival clock changes."""
    return (replace(part, clock=clock) for part, clock in _cut(parts, times)) if times else iter(parts)


def _cut(
    parts: Iterable[_ProducerRows], runs: Iterable[tuple[int, _Value]]
) -> Iterator[tuple[_ProducerRows, _Value | None]]:
    """Yield the parts, split where the value of the runs changes, with that value."""
    coming = iter(runs)
    left, value = 0, None
    for part in parts:
        rest = part.rows
        while rest.num_rows:
            while not left:
                left, value = next(coming)
            size = min(left, rest.num_rows)
            if size == rest.num_rows:
                break
            yield replace(part, rows=rest.slice(0, size), act=None), value
            rest, left = rest.slice(size), left - size
        left -= rest.num_rows
        yield replace(part, rows=rest), value


def _parts(rows: Rows, marks: Iterable[BoundMark]) -> Iterator[_ProducerRows]:
    """Yield the rows up to each mark with its bound, then the rest, a few at a time."""
    coming = iter(marks)
    mark = next(coming, None)
    place = 0
    for batch in rows.short_batches():
        table = pa.Table.from_batches([batch], rows.schema)
        end = place + table.num_rows
        while mark is not None and mark.position < end:
            size = mark.position - place
            yield _ProducerRows(table.slice(0, size), mark.act)
            table, place, mark = table.slice(size), mark.position, next(coming, None)
        yield _ProducerRows(table)
        place = end
    rest = rows.schema.empty_table()
    while mark is not None:
        yield _ProducerRows(rest, mark.act)
        mark = next(coming, None)
    yield _ProducerRows(rest)


def _moved_by_frame(clocks: Clocks, table: Input, frame: SparkFrame, now: int) -> Clocks:
    """Return the clocks after rows that are all used.

    Their greatest times determine the clocks, so none of the rows comes to the driver.
    """
    greatest = [f"max({quote(w.column)}) AS {quote(w.column)}" for w in table.watermarks]
    found = frame.selectExpr("count(*) AS _rows", *greatest).toArrow()
    rows = int(found["_rows"][0].as_py())
    if not rows:
        return clocks
    admission = admit(clocks, table, found.select([w.column for w in table.watermarks]), now)
    return Clocks(admission.clocks.streams, clocks.counts).counted(table.id, rows)
