"""The intake: rows, bounds, opens and closes as they are pushed, judged at once, kept for the next epoch.

In: Arrow rows and times. Out: per epoch the arrivals by input id (late ones under `LATE(T)`) and the document of the clocks after them.
What was taken since the last epoch is applied again on the clocks of the store after a restart. Nothing is written here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

import pyarrow as pa

from belvedere.catalog import Catalog, Input, LatePolicy
from belvedere.errors import BelvedereError, Diagnostic, fail
from belvedere.incremental import event_time
from belvedere.incremental.event_time import Admission, Clocks, Counts, LateRow, log_points
from belvedere.schema import TIMESTAMP

LOG = logging.getLogger("belvedere.late")
TOLD_AT_ONCE = 10
"""So many late rows of one call are named in its error."""


class Intake:
    """What clients have pushed since the last epoch, and the clocks as they are with it."""

    def __init__(self, catalog: Catalog, clocks: Clocks | None = None):
        self.catalog = catalog
        self.clocks = clocks or Clocks()
        self._rows: dict[str, list[pa.Table]] = {}
        self._moves: list[Callable[[Clocks], Clocks]] = []

    def resume(self, clocks: Clocks) -> None:
        """Go on from committed clocks: what still waits for an epoch moves them again in the same way."""
        self.clocks = clocks
        for move in self._moves:
            self.clocks = move(self.clocks)

    def insert(self, table: Input, rows: pa.Table, now: int, producer: str | None = None) -> None:
        """Take rows in. Late rows go to `LATE(T)`; raises B5024 naming them where the stream rejects them."""
        if producer is not None:
            self._event_time_column(table, None)
        rows = event_time.with_rowtime(table, rows, now)
        before = self.clocks
        admission = event_time.admit(before, table, rows, now, producer)
        self._move(lambda clocks: event_time.admit(clocks, table, rows, now, producer).clocks)
        self._keep(table.id, admission.taken)
        if not admission.late:
            return
        tell_late(table, before, admission)
        late = self.catalog.late_of(table.id)
        if late is not None:
            self._keep(late.id, event_time.late_rows(table, late, rows, admission.late))
        if table.late is LatePolicy.REJECT:
            raise BelvedereError([_refused(table, r) for r in admission.late[:TOLD_AT_ONCE]])

    def delete(self, table: Input, rows: pa.Table) -> None:
        """Take retractions in; their times do not count."""
        self._keep(table.id, rows)

    def bound(self, table: Input, time: int, now: int, *, column: str | None, producer: str | None, strict: bool) -> None:
        """A bound of a producer on an event-time column (None: the first)."""
        name = self._event_time_column(table, column)
        self._move(lambda clocks: event_time.send_bound(clocks, table, name, time, now, producer, strict))

    def open(self, table: Input, producer: str | None, bound: int | None, now: int) -> None:
        """A producer comes."""
        self._event_time_column(table, None)
        self._move(lambda clocks: event_time.open_producer(clocks, table, producer, bound, now))

    def close(self, table: Input, producer: str | None, now: int) -> None:
        """A producer goes."""
        name = self._event_time_column(table, None)
        known = self.clocks.clock(table.id, name).producers
        if producer not in known:
            names = ", ".join(repr(p) for p in known if p is not None) or "none"
            raise fail("B5022", f'"{table.name}" has no producer {producer!r}', hint=f"attached are: {names}")
        self._move(lambda clocks: event_time.close_producer(clocks, table, producer, now))

    def arrivals(self) -> dict[str, pa.Table]:
        """The rows for the next epoch, by input id."""
        return {i: pa.concat_tables(t, promote_options="default") for i, t in self._rows.items()}

    def committed(self, clocks: Clocks) -> None:
        """An epoch has taken all of it in; its clocks are where the next rows start."""
        self._rows.clear()
        self._moves.clear()
        self.clocks = clocks

    def _move(self, move: Callable[[Clocks], Clocks]) -> None:
        self.clocks = move(self.clocks)
        self._moves.append(move)

    def _keep(self, id_: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self._rows.setdefault(id_, []).append(rows)

    @staticmethod
    def _event_time_column(table: Input, column: str | None) -> str:
        names = [w.column for w in table.watermarks]
        if not names:
            hint = f"declare one: WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS among the columns of {table.name}"
            raise fail("B5021", f'"{table.name}" has no event-time column: it takes no bounds and has no producers', hint=hint)
        if column is None:
            return names[0]
        found = next((n for n in names if n.casefold() == column.casefold()), None)
        if found is None:
            raise fail("B5021", f'"{column}" is no event-time column of "{table.name}"', hint=f"it has {', '.join(names)}")
        return found


def tell_late(table: Input, before: Clocks, admission: Admission) -> None:
    """Log late rows: the first, the tenth, the hundredth ... of an input."""
    counted = before.counts.get(table.id, Counts()).late
    for number in log_points(counted, counted + len(admission.late)):
        row = admission.late[number - counted - 1]
        LOG.warning('late row %d of "%s": %s %s is below %s', number, table.name, row.column, _time(row.time), _time(row.bound))


def _refused(table: Input, row: LateRow) -> Diagnostic:
    return Diagnostic(
        "B5024",
        f'row {row.index + 1} of "{table.name}" is late: {row.column} {_time(row.time)} is below the bound {_time(row.bound)}',
        hint=f"it is in LATE({table.name}); declare a delay with WATERMARK FOR, or LATE DROP or LATE KEEP",
    )


def _time(micros: int) -> str:
    time: datetime = pa.scalar(micros, pa.int64()).cast(TIMESTAMP).as_py()
    return time.replace(tzinfo=None).isoformat(" ")
