"""Rows that crash an epoch. They are found by trying parts of the epoch, and rejected, so that the run can continue.

In: the rows of an epoch in which the run has ended twice before, a way to try some of them without a trace. Out: the
positions of rows that end the run. A row may need more memory than there is (`repeat('x', 2000000000)`), and end
Spark's process. The findings are therefore stored in a document of the store, and the next process continues the
search. It is a binary search: one of 1,000,000 rows is found with 20 tries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.connectors.replay import EXCLUDED
from belvedere.connectors.run_records import RejectedRow
from belvedere.engine.errors.quarantine import StageFailure
from belvedere.engine.rows.epoch_rows import as_rows
from belvedere.errors import BelvedereError
from belvedere.schema import KEY
from belvedere.spark.run.epoch_sources import EpochInput
from belvedere.store.protocol import Store
from belvedere.time.arrival_columns import NO_TIMES

DOCUMENT = "_ends"
"""Name of the store's document of ends in its next epoch."""
RUNNING = "_running"
"""Name of the store's document that marks a running run, and remains if the run is killed."""
OFTEN = 2
"""Number of ends of a run in an epoch before its rows are searched."""
MAX_FOUND_ROWS = 20
"""Maximum number of rows of an epoch that are found, by one process after the other."""
CODE = "B7023"
REASON = f"{CODE}: the run ended each time an epoch processed this row, for example because memory ran out"
Trial = Callable[[Mapping[str, pa.Table]], None]
Places = Mapping[str, list[int]]


@dataclass(frozen=True)
class AttemptEnds:
    """Number of ends of the run in the epoch after `epoch`, and the findings about its rows.

    One of the rows from `least` to `beyond` ends it, counted over the inputs in the order of `counts`. `pending` of
    them are being tried.
    """

    epoch: int
    times: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    least: int = 0
    beyond: int = 0
    pending: int = 0
    excluded: tuple[tuple[str, int], ...] = ()
    is_sure: bool = True
    """Whether one of these rows is known to end it.

    After a row was found this is not known of the others, so all of them are tried first.
    """
    in_vain: bool = False
    """Whether no single row was at fault."""

    @property
    def is_searching(self) -> bool:
        """Return whether another process must continue at once."""
        return (self.times >= OFTEN or bool(self.excluded)) and len(self.excluded) < MAX_FOUND_ROWS and not self.in_vain

    def passed(self) -> AttemptEnds:
        """Return the record after the tried rows were ingested."""
        if self.pending < self.beyond - self.least:
            return replace(self, least=self.least + self.pending, pending=0)
        return replace(self, beyond=0, pending=0, times=0, in_vain=self.is_sure)

    def ended(self) -> AttemptEnds:
        """Return the record after one more end.

        The tried rows are at fault; a row that was tried alone is the cause.
        """
        more = replace(self, times=self.times + 1)
        if not self.pending:
            return more
        if self.beyond - self.least <= 1:
            return replace(more, excluded=(*self.excluded, self._place(self.least)), beyond=0, pending=0, is_sure=False)
        return replace(more, beyond=self.least + self.pending, pending=0, is_sure=True)

    def begun(self, counts: Mapping[str, int]) -> AttemptEnds:
        """Return the record with the next rows to try; it starts again with all of these if it contains
        unknown rows.
        """
        found = self
        changed = any(counts.get(i, 0) < n for i, n in self.counts.items())
        if changed or not self.beyond:
            excluded = () if changed else self.excluded
            found = replace(self, counts=dict(counts), least=0, beyond=sum(counts.values()), excluded=excluded)
            found = replace(found, is_sure=not excluded)
        size = found.beyond - found.least
        return replace(found, pending=max(1, size // 2) if found.is_sure else size)

    def tried(self, arrivals: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Return the rows that are being tried."""
        found, before = {}, 0
        for id_, count in self.counts.items():
            first, last = max(0, self.least - before), min(count, self.least + self.pending - before)
            if first < last:
                places = np.setdiff1d(np.arange(first, last), [n for i, n in self.excluded if i == id_])
                found[id_] = arrivals[id_].take(pa.array(places, pa.int64()))
            before += count
        return found

    def _place(self, number: int) -> tuple[str, int]:
        before = 0
        for id_, count in self.counts.items():
            if number < before + count:
                return id_, number - before
            before += count
        raise AssertionError(f"row {number} of {before}")


def ends_of(store: Store, epoch: int) -> AttemptEnds:
    """Return the store's record for the epoch after this one."""
    text = store.document(DOCUMENT)
    known = json.loads(text) if text else {}
    if known.get("epoch") != epoch:
        return AttemptEnds(epoch)
    return AttemptEnds(**{**known, "excluded": tuple((i, n) for i, n in known["excluded"])})


def note_end(store: Store) -> AttemptEnds:
    """Record that the run has ended in its next epoch without a diagnostic."""
    last = store.last_epoch()
    return _noted(store, ends_of(store, last.epoch if last else 0).ended())


def _noted(store: Store, ends: AttemptEnds) -> AttemptEnds:
    store.set_document(DOCUMENT, json.dumps(asdict(ends)))
    return ends


def note_start(store: Store) -> None:
    """Record the start of a run.

    If the previous one was killed, for example for lack of memory, this counts as an end.
    """
    if store.document(RUNNING):
        note_end(store)
    store.set_document(RUNNING, "yes")


def sift(
    store: Store, epoch: int, arrivals: Mapping[str, pa.Table], trial: Trial, is_gone: Callable[[], bool]
) -> Places:
    """Return the positions of rows, by input, that crash the epoch after `epoch`.

    They are searched if the run has often ended there.

    `trial` ingests rows without a trace. It may end this process, or Spark's; then `is_gone`, and its error is raised.
    """
    ends = ends_of(store, epoch)
    counts = {i: t.num_rows for i, t in arrivals.items()}
    while ends.times >= OFTEN and not ends.in_vain and sum(counts.values()):
        ends = _noted(store, ends.begun(counts))
        try:
            trial(ends.tried(arrivals))
        except Exception as error:
            if is_gone():
                raise
            ends = ends.passed() if says_why(error) else ends.ended()  # the epoch reports it by itself
        else:
            ends = ends.passed()
        _noted(store, ends)
    return excluded_of(ends)


def says_why(error: Exception) -> bool:
    """Return whether an error is a diagnostic that users can act on, as opposed to unexpected errors and failures of
    memory or machines in a stage."""
    return isinstance(error, StageFailure) or (
        isinstance(error, BelvedereError) and error.diagnostics[0].code != "B7040"
    )


def excluded_of(ends: AttemptEnds) -> dict[str, list[int]]:
    """Return the positions of the rows found, by input."""
    found: dict[str, list[int]] = {}
    for id_, place in ends.excluded:
        found.setdefault(id_, []).append(place)
    return found


def sifted(batch: EpochInput, places: Places) -> EpochInput:
    """Return an epoch's input without the rows at these positions, which are rejected."""
    arrivals, clocks, excluded, times = dict(batch.arrivals), batch.clocks, list[RejectedRow](), dict(batch.times)
    for id_, found in places.items():
        rows = as_rows(arrivals[id_]).table
        excluded += rejected_at(id_, rows, found)
        arrivals[id_], clocks = without(rows, found), clocks.counted(id_, 0, malformed=len(found))
        times[id_] = times.get(id_, NO_TIMES).without(found)
    gone = {i: len(found) for i, found in places.items()}
    spans = (
        replace(s, used=s.used - gone.get(s.input, 0), refused=s.refused + gone.get(s.input, 0)) for s in batch.spans
    )
    return replace(batch, arrivals=arrivals, clocks=clocks, spans=tuple(spans), excluded=tuple(excluded), times=times)


def with_excluded(offsets: Mapping[str, Any], before: Mapping[str, Any], places: Places, epoch: int) -> dict[str, Any]:
    """Return the offsets with the positions of excluded rows of this epoch and of earlier ones."""
    known: dict[str, dict[str, list[int]]] = {i: dict(epochs) for i, epochs in before.get(EXCLUDED, {}).items()}
    for id_, found in places.items():
        known.setdefault(id_, {})[str(epoch)] = sorted(found)
    return {**offsets, **({EXCLUDED: known} if known else {})}


def without(rows: pa.Table, places: Collection[int]) -> pa.Table:
    """Return the rows at other positions."""
    return rows.take(pa.array(np.setdiff1d(np.arange(rows.num_rows), list(places)), pa.int64()))


def rejected_at(id_: str, rows: pa.Table, places: Collection[int]) -> list[RejectedRow]:
    """Return the records of the rows at these positions."""
    found: list[dict[str, Any]] = rows.take(pa.array(sorted(places), pa.int64())).to_pylist()
    shown = ({n: v for n, v in row.items() if not n.startswith("_") and n != KEY} for row in found)
    return [RejectedRow(id_, None, None, json.dumps(row, default=str), REASON) for row in shown]
