"""Judge what an epoch takes in by the bounds of its inputs, where nobody has done so at the intake.

In: arrivals of inputs, the clocks. Out: the arrivals that are used, those of `LATE(T)` beside them, and the clocks after them. Many
rows of an input that keeps late ones stay in Spark: only their greatest times are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, functions

from belvedere.catalog import Catalog, Input, LatePolicy
from belvedere.incremental.entries import ProducerAct
from belvedere.incremental.event_time import (
    Clocks,
    admit,
    late_rows,
    with_rowtime,
)
from belvedere.incremental.intake import tell_late
from belvedere.instants import microseconds
from belvedere.schema import ROWTIME
from belvedere.spark.arrived import Mark

Arrivals = Mapping[str, pa.Table | DataFrame]


def judge(
    catalog: Catalog, clocks: Clocks, arrivals: Arrivals, clock: datetime, marks: Mapping[str, Sequence[Mark]] | None = None
) -> tuple[dict[str, pa.Table | DataFrame], Clocks]:
    """The arrivals without late rows, with `LATE(T)` for those, and the clocks that follow.

    `marks` are bounds among the rows of inputs: each counts for the rows behind it.
    """
    now = microseconds(clock)
    used: dict[str, pa.Table | DataFrame] = {}
    for id_, given in arrivals.items():
        table = catalog.inputs[id_]
        among = (marks or {}).get(id_, ())
        if not table.watermarks and isinstance(given, DataFrame):
            used[id_] = given
            continue
        if isinstance(given, DataFrame) and table.late is LatePolicy.KEEP and not table.schema.find(ROWTIME) and not among:
            used[id_], clocks = given, _moved_by_frame(clocks, table, given, now)
            continue
        rows = with_rowtime(table, given.toArrow() if isinstance(given, DataFrame) else given, now)
        taken, late = [], []
        late_table = catalog.late_of(id_)
        for part, act in _parts(rows, among):
            admission = admit(clocks, table, part, now)
            tell_late(table, clocks, admission)
            taken.append(admission.taken)
            if admission.late and late_table is not None:
                late.append(late_rows(table, late_table, part, admission.late))
            clocks = admission.clocks if act is None else replace(act, now=now).moved(admission.clocks, catalog)
        used[id_] = pa.concat_tables(taken)
        if late and late_table is not None:
            used[late_table.id] = pa.concat_tables(late)
    return used, clocks


def _parts(rows: pa.Table, marks: Sequence[Mark]) -> Iterator[tuple[pa.Table, ProducerAct | None]]:
    """The rows up to each mark with what it says, then the rest."""
    start = 0
    for mark in marks:
        yield rows.slice(start, mark.position - start), mark.act
        start = mark.position
    yield rows.slice(start), None


def _moved_by_frame(clocks: Clocks, table: Input, frame: DataFrame, now: int) -> Clocks:
    """The clocks after rows that are all used: their greatest times say all."""
    greatest = [functions.max(f"`{w.column}`").alias(w.column) for w in table.watermarks]
    found = frame.agg(functions.count("*").alias("_rows"), *greatest).toArrow()
    rows = int(found["_rows"][0].as_py())
    if not rows:
        return clocks
    admission = admit(clocks, table, found.select([w.column for w in table.watermarks]), now)
    return Clocks(admission.clocks.streams, clocks.counts).counted(table.id, rows)
