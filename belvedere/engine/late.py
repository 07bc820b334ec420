"""Judge what an epoch takes in by the bounds of its inputs, where nobody has done so at the intake.

In: arrivals of inputs, the clocks. Out: the arrivals that are used, those of `LATE(T)` beside them, and the clocks after them. Many
rows of an input that keeps late ones stay in Spark: only their greatest times are asked for. All others are judged batch by batch;
many late ones go to a file of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa

from belvedere.catalog import Catalog, Input, LatePolicy
from belvedere.engine import rows as held
from belvedere.engine.ordered import stream
from belvedere.engine.rows import Rows, is_frame
from belvedere.engine.scratch import Scratch, scratch_frame, scratch_rows
from belvedere.functions.types import quote
from belvedere.instants import microseconds
from belvedere.schema import ROWTIME
from belvedere.time.arrival import with_arrival
from belvedere.time.entries import BoundMark, ProducerAct
from belvedere.time.event_time import (
    Clocks,
    admit,
    late_rows,
)
from belvedere.time.intake import tell_late

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Part = tuple[pa.Table, ProducerAct | None, str | None]
"""Rows of one producer, and a bound behind them."""
Arrivals = Mapping[str, Union[pa.Table, Rows, "DataFrame"]]


def judge(
    catalog: Catalog,
    clocks: Clocks,
    arrivals: Arrivals,
    clock: datetime,
    marks: Mapping[str, Iterable[BoundMark]] | None = None,
    producers: Mapping[str, Sequence[tuple[int, str]]] | None = None,
) -> tuple[dict[str, pa.Table | Rows | DataFrame], Clocks]:
    """The arrivals without late rows, with `LATE(T)` for those, and the clocks that follow.

    `marks` are bounds among the rows of inputs: each counts for the rows behind it. `producers` sent so many rows each, in order.
    """
    now = microseconds(clock)
    used: dict[str, pa.Table | Rows | DataFrame] = {}
    for id_, given in arrivals.items():
        table = catalog.inputs[id_]
        among, senders = (marks or {}).get(id_, ()), (producers or {}).get(id_, ())
        if not table.watermarks and not isinstance(given, pa.Table):
            rows = given.count() if is_frame(given) else _count(given)
            used[id_], clocks = given, clocks.counted(id_, rows)
            continue
        if is_frame(given) and table.late is LatePolicy.KEEP and not table.schema.find(ROWTIME) and not among and not senders:
            used[id_], clocks = given, _moved_by_frame(clocks, table, given, now)
            continue
        judging = _Judging(catalog, table, clocks, now)
        whole = scratch_frame(given) if is_frame(given) else given
        parts = judging.admitted(_by_sender(_parts(whole, among), senders))
        if isinstance(whole, Rows):
            used[id_] = scratch_rows(stream(with_arrival(table, whole.schema.empty_table(), now).schema, parts))
        else:
            used[id_] = pa.concat_tables(parts)
        clocks = judging.clocks
        if judging.late is not None and judging.late_table is not None:
            used[judging.late_table.id] = judging.late.rows()
    return used, clocks


def _count(rows: Any) -> int:
    """How many rows a table has, or rows in files."""
    return int(rows.num_rows)


class _Judging:
    """The rows of one input, part by part, and the clocks that they move."""

    def __init__(self, catalog: Catalog, table: Input, clocks: Clocks, now: int):
        self.catalog, self.table, self.clocks, self.now = catalog, table, clocks, now
        self.late_table = catalog.late_of(table.id)
        self.late: Scratch | None = None

    def admitted(self, parts: Iterable[_Part]) -> Iterator[pa.Table]:
        """What is used of each part; behind each there may be a bound."""
        for given, act, sender in parts:
            part = with_arrival(self.table, given, self.now)
            admission = admit(self.clocks, self.table, part, self.now, sender)
            tell_late(self.table, self.clocks, admission)
            if admission.late and self.late_table is not None:
                late = late_rows(self.table, self.late_table, part, admission.late)
                self.late = self.late or Scratch(late.schema)
                self.late.add(late)
            moved = admission.clocks
            self.clocks = moved if act is None else replace(act, now=self.now).moved(moved, self.catalog)
            yield admission.taken


def _by_sender(parts: Iterable[tuple[pa.Table, ProducerAct | None]], senders: Sequence[tuple[int, str]]) -> Iterator[_Part]:
    """The parts, cut where the producer changes."""
    coming = iter(senders)
    left, sender = 0, None
    for given, act in parts:
        rest = given
        while senders and rest.num_rows:
            while not left:
                left, sender = next(coming)
            size = min(left, rest.num_rows)
            if size == rest.num_rows:
                break
            yield rest.slice(0, size), None, sender
            rest, left = rest.slice(size), left - size
        left -= rest.num_rows
        yield rest, act, sender


def _parts(rows: pa.Table | Rows, marks: Iterable[BoundMark]) -> Iterator[tuple[pa.Table, ProducerAct | None]]:
    """The rows up to each mark with what it says, then the rest; a few at a time."""
    coming = iter(marks)
    mark = next(coming, None)
    place = 0
    for batch in rows.batches() if isinstance(rows, Rows) else rows.to_batches(max_chunksize=held.BATCH_ROWS):
        table = pa.Table.from_batches([batch], rows.schema)
        end = place + table.num_rows
        while mark is not None and mark.position < end:
            size = mark.position - place
            yield table.slice(0, size), mark.act
            table, place, mark = table.slice(size), mark.position, next(coming, None)
        yield table, None
        place = end
    rest = rows.schema.empty_table()
    while mark is not None:
        yield rest, mark.act
        mark = next(coming, None)
    yield rest, None


def _moved_by_frame(clocks: Clocks, table: Input, frame: DataFrame, now: int) -> Clocks:
    """The clocks after rows that are all used: their greatest times say all."""
    greatest = [f"max({quote(w.column)}) AS {quote(w.column)}" for w in table.watermarks]
    found = frame.selectExpr("count(*) AS _rows", *greatest).toArrow()
    rows = int(found["_rows"][0].as_py())
    if not rows:
        return clocks
    admission = admit(clocks, table, found.select([w.column for w in table.watermarks]), now)
    return Clocks(admission.clocks.streams, clocks.counts).counted(table.id, rows)
