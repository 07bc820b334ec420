"""The intake: pushed rows, bounds, opens and closes, checked at once and held for the next epoch.

In: Arrow rows and times. Out: per epoch the waiting arrivals by input id (late ones under `LATE(T)`) and the clocks
after them. Entries that an epoch did not take are applied again to the clocks that it committed. Nothing is written
here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, LatePolicy
from belvedere.errors import BelvedereError, Diagnostic, fail
from belvedere.time import event_time
from belvedere.time.arrival_columns import with_arrival, with_place
from belvedere.time.event_time import Admission, Clocks, Counts, LateRow, log_points, time_text
from belvedere.time.intake_entries import AcceptedRows, Act, Entry, Malformed, ProducerAct

LOG = logging.getLogger("belvedere.late")
REPORTED_AT_ONCE = 10
"""Maximum number of late rows of one call that its error names."""


@dataclass(frozen=True)
class Waiting:
    """Entries that wait for an epoch, in order of acceptance, and the clocks after them."""

    clocks: Clocks
    entries: tuple[Entry, ...] = ()
    sequence: int = 0
    """Number of the last entry, if `belvedere.intake` numbers the entries."""

    def arrivals(self, catalog: Catalog) -> dict[str, pa.Table]:
        """Return the rows by input id, each with its arrival time (`_ingest_time`) and its number among all rows
        (`PLACE`)."""
        found: dict[str, list[pa.Table]] = {}
        place = 0
        for entry in self.entries:
            if isinstance(entry, AcceptedRows):
                late = catalog.late_of(entry.table) if entry.late is not None else None
                for id_, rows in ((entry.table, entry.rows), (late.id if late is not None else None, entry.late)):
                    if id_ is not None and rows is not None and rows.num_rows:
                        found.setdefault(id_, []).append(with_place(rows, entry.now, place))
                        place += rows.num_rows
        return {i: pa.concat_tables(t, promote_options="default") for i, t in found.items()}

    @property
    def latest(self) -> int | None:
        """Return the time of the last arrival in microseconds; None if nothing waits."""
        return max((e.now for e in self.entries), default=None)

    @property
    def malformed(self) -> dict[str, list[Malformed]]:
        """Return the malformed rows by input id."""
        found: dict[str, list[Malformed]] = {}
        for entry in self.entries:
            if isinstance(entry, AcceptedRows) and entry.malformed:
                found.setdefault(entry.table, []).extend(entry.malformed)
        return found


@dataclass
class Intake:
    """Rows that clients have pushed since the last epoch, and the clocks that include them."""

    catalog: Catalog
    clocks: Clocks = field(default_factory=Clocks)
    entries: list[Entry] = field(default_factory=list)
    ahead: int | None = None
    """Maximum microseconds by which a time may be after its arrival and still advance a bound; None: no limit."""

    def resume(self, clocks: Clocks) -> None:
        """Continue from committed clocks: the entries that still wait are applied to them again."""
        self.clocks = clocks
        for entry in self.entries:
            self.clocks = entry.advanced(self.clocks, self.catalog)

    def hold(self, entry: Entry) -> None:
        """Add an accepted entry."""
        self.clocks = entry.advanced(self.clocks, self.catalog)
        self.entries.append(entry)

    def judge(
        self, table: Input, rows: pa.Table, now: int, producer: str | None = None, malformed: Sequence[Malformed] = ()
    ) -> tuple[AcceptedRows, Admission]:
        """Find the late rows by the present clocks. Nothing is added yet."""
        if producer is not None:
            self.event_time_column(table, None)
        rows = with_arrival(table, rows, now)
        admission = event_time.admit(self.clocks, table, rows, now, producer, self.ahead)
        late_table = self.catalog.late_of(table.id)
        late = None
        if admission.late and late_table is not None:
            log_late_rows(table, self.clocks, admission)
            late = event_time.late_rows(table, late_table, rows, admission.late)
        return AcceptedRows(table.id, now, producer, admission.taken, late, tuple(malformed), self.ahead), admission

    def insert(self, table: Input, rows: pa.Table, now: int, producer: str | None = None) -> None:
        """Insert rows. Late rows go to `LATE(T)`. If the stream rejects late rows, B5024 is raised and names them."""
        taken, admission = self.judge(table, rows, now, producer)
        self.hold(taken)
        if admission.late and table.late is LatePolicy.REJECT:
            raise BelvedereError([refused(table, r) for r in admission.late[:REPORTED_AT_ONCE]])

    def delete(self, table: Input, rows: pa.Table) -> None:
        """Delete rows. Their times do not advance the clocks."""
        self.hold(AcceptedRows(table.id, 0, None, rows))

    def bound(
        self, table: Input, time: int, now: int, *, column: str | None, producer: str | None, strict: bool
    ) -> None:
        """Apply a bound of a producer to an event-time column (None: the first)."""
        self.hold(self.decide(ProducerAct(Act.BOUND, table.id, now, producer, time, column, strict)))

    def open(self, table: Input, producer: str | None, bound: int | None, now: int) -> None:
        """Attach a producer."""
        self.hold(self.decide(ProducerAct(Act.OPEN, table.id, now, producer, bound)))

    def close(self, table: Input, producer: str | None, now: int) -> None:
        """Detach a producer; raises B5022 if it is not attached."""
        self.hold(self.decide(ProducerAct(Act.CLOSE, table.id, now, producer)))

    def decide(self, act: ProducerAct) -> ProducerAct:
        """Return the act with its event-time column filled in; raises B5021 or B5022 if it is not valid."""
        table = self.catalog.inputs[act.table]
        name = self.event_time_column(table, act.column)
        known = self.clocks.clock(table.id, name).producers
        if act.act is Act.CLOSE and act.producer not in known:
            names = ", ".join(repr(p) for p in known if p is not None) or "none"
            raise fail("B5022", f'"{table.name}" has no producer {act.producer!r}', hint=f"attached producers: {names}")
        return replace(act, column=name)

    def waiting(self, now: int | None = None) -> Waiting:
        """Return the entries for the next epoch.

        `now` is its clock. Later rows are checked against the bounds that the epoch will have, also if these exclude
        idle producers.
        """
        if now is not None:
            self.clocks = event_time.pass_time(self.clocks, self.catalog, now)
        return Waiting(self.clocks, tuple(self.entries))

    def committed(self, waiting: Waiting, clocks: Clocks) -> None:
        """Remove the entries that an epoch has committed, and apply later entries to its `clocks`."""
        del self.entries[: len(waiting.entries)]
        self.resume(clocks)

    @staticmethod
    def event_time_column(table: Input, column: str | None) -> str:
        """Return the event-time column of that name, or the first; raises B5021 if there is none."""
        names = [w.column for w in table.watermarks]
        if not names:
            hint = f"declare one: WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS among the columns of {table.name}"
            raise fail(
                "B5021", f'"{table.name}" has no event-time column, so it accepts no bounds and producers', hint=hint
            )
        if column is None:
            return names[0]
        found = next((n for n in names if n.casefold() == column.casefold()), None)
        if found is None:
            raise fail(
                "B5021", f'"{column}" is not an event-time column of "{table.name}"', hint=f"it has {', '.join(names)}"
            )
        return found


def log_late_rows(table: Input, before: Clocks, admission: Admission) -> None:
    """Log the first, the tenth, the hundredth ... late row of an input."""
    counted = before.counts.get(table.id, Counts()).late
    for number in log_points(counted, counted + len(admission.late)):
        log_late_row(table, number, admission.late[number - counted - 1])


def log_late_row(table: Input, number: int, row: LateRow) -> None:
    """Log one late row of an input with its number."""
    LOG.warning(
        'late row %d of "%s": %s %s is below %s', number, table.name, row.column, _time(row.time), _time(row.bound)
    )


def refused(table: Input, row: LateRow) -> Diagnostic:
    """Return the error for the sender of a late row if its stream rejects such rows."""
    return Diagnostic(
        "B5024",
        (
            f'row {row.index + 1} of "{table.name}" is late: '
            f"{row.column} {_time(row.time)} is below the bound {_time(row.bound)}"
        ),
        hint=f"see LATE({table.name}); to accept it declare a delay with WATERMARK FOR, or LATE DROP or LATE KEEP",
    )


def _time(micros: int) -> str:
    return time_text(micros).replace("T", " ").removesuffix("Z")
