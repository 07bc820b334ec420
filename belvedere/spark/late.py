"""Judge what an epoch takes in by the bounds of its inputs, where nobody has done so at the intake.

In: arrivals of inputs, the clocks. Out: the arrivals that are used, those of `LATE(T)` beside them, and the clocks after them. Many
rows of an input that keeps late ones stay in Spark: only their greatest times are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, functions

from belvedere.catalog import Catalog, Input, LatePolicy
from belvedere.incremental.event_time import (
    Clocks,
    admit,
    instant,
    late_rows,
    with_rowtime,
)
from belvedere.incremental.intake import tell_late
from belvedere.schema import ROWTIME

Arrivals = Mapping[str, pa.Table | DataFrame]


def judge(
    catalog: Catalog, clocks: Clocks, arrivals: Arrivals, clock: datetime
) -> tuple[dict[str, pa.Table | DataFrame], Clocks]:
    """The arrivals without late rows, with `LATE(T)` for those, and the clocks that follow."""
    now = instant(clock)
    used: dict[str, pa.Table | DataFrame] = {}
    for id_, given in arrivals.items():
        table = catalog.inputs[id_]
        if not table.watermarks and isinstance(given, DataFrame):
            used[id_] = given
            continue
        if isinstance(given, DataFrame) and table.late is LatePolicy.KEEP and not table.schema.find(ROWTIME):
            used[id_], clocks = given, _moved_by_frame(clocks, table, given, now)
            continue
        rows = with_rowtime(table, given.toArrow() if isinstance(given, DataFrame) else given, now)
        admission = admit(clocks, table, rows, now)
        tell_late(table, clocks, admission)
        used[id_], clocks = admission.taken, admission.clocks
        late = catalog.late_of(id_)
        if admission.late and late is not None:
            used[late.id] = late_rows(table, late, rows, admission.late)
    return used, clocks


def _moved_by_frame(clocks: Clocks, table: Input, frame: DataFrame, now: int) -> Clocks:
    """The clocks after rows that are all used: their greatest times say all."""
    greatest = [functions.max(f"`{w.column}`").alias(w.column) for w in table.watermarks]
    found = frame.agg(functions.count("*").alias("_rows"), *greatest).toArrow()
    rows = int(found["_rows"][0].as_py())
    if not rows:
        return clocks
    admission = admit(clocks, table, found.select([w.column for w in table.watermarks]), now)
    return Clocks(admission.clocks.streams, clocks.counts).counted(table.id, rows)
