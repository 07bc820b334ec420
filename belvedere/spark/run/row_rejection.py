"""Rows that an epoch cannot take: they are found by taking parts of the epoch, and rejected, so that the run goes on.

In: the rows of an epoch at which the run has ended twice before, a way to try some of them without a trace. Out: the places of rows at
which it ends. A row may need more memory than there is (`repeat('x', 2000000000)`), and end Spark's process with it: so what is known lies
in a document of the store, and the search goes on with the next process. It halves: of 1,000,000 rows one is found with 20 tries.
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
"""The store's document of ends in its next epoch."""
RUNNING = "_running"
"""The store's document that a run leaves behind where it was killed."""
OFTEN = 2
"""Number of times that a run ends in an epoch before its rows are searched."""
MAX_FOUND_ROWS = 20
"""Maximum number of rows of an epoch that are found, by one process after the other."""
CODE = "B7023"
REASON = f"{CODE}: the run ended each time an epoch processed this row, for example because memory ran out"
Trial = Callable[[Mapping[str, pa.Table]], None]
Places = Mapping[str, list[int]]


@dataclass(frozen=True)
class AttemptEnds:
    """How often the run has ended in the epoch after `epoch`, and what is known of its rows.

    One of the rows from `least` to `beyond` ends it, counted over the inputs in the order of `counts`; `pending` of them are being tried.
    """

    epoch: int
    times: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    least: int = 0
    beyond: int = 0
    pending: int = 0
    excluded: tuple[tuple[str, int], ...] = ()
    is_sure: bool = True
    """Whether these rows end it; of those that are left, once one was found, that is tried first."""
    in_vain: bool = False
    """Whether no row by itself was at fault."""

    @property
    def is_searching(self) -> bool:
        """Whether another process is to go on at once."""
        return (self.times >= OFTEN or bool(self.excluded)) and len(self.excluded) < MAX_FOUND_ROWS and not self.in_vain

    def passed(self) -> AttemptEnds:
        """The rows that were being tried were taken."""
        if self.pending < self.beyond - self.least:
            return replace(self, least=self.least + self.pending, pending=0)
        return replace(self, beyond=0, pending=0, times=0, in_vain=self.is_sure)

    def ended(self) -> AttemptEnds:
        """The run has ended once more. What was being tried is at fault; a row that was tried alone is the one."""
        more = replace(self, times=self.times + 1)
        if not self.pending:
            return more
        if self.beyond - self.least <= 1:
            return replace(more, excluded=(*self.excluded, self._place(self.least)), beyond=0, pending=0, is_sure=False)
        return replace(more, beyond=self.least + self.pending, pending=0, is_sure=True)

    def begun(self, counts: Mapping[str, int]) -> AttemptEnds:
        """Return the record with the next rows to try; it starts again with all of these if it contains unknown rows."""
        found = self
        changed = any(counts.get(i, 0) < n for i, n in self.counts.items())
        if changed or not self.beyond:
            excluded = () if changed else self.excluded
            found = replace(self, counts=dict(counts), least=0, beyond=sum(counts.values()), excluded=excluded)
            found = replace(found, is_sure=not excluded)
        size = found.beyond - found.least
        return replace(found, pending=max(1, size // 2) if found.is_sure else size)

    def tried(self, arrivals: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The rows that are being tried."""
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
    """Note that the run has ended in its next epoch by what is no diagnostic."""
    last = store.last_epoch()
    return _noted(store, ends_of(store, last.epoch if last else 0).ended())


def _noted(store: Store, ends: AttemptEnds) -> AttemptEnds:
    store.set_document(DOCUMENT, json.dumps(asdict(ends)))
    return ends


def note_start(store: Store) -> None:
    """Note that a run begins. One that was killed before, as by a system without memory, counts as an end."""
    if store.document(RUNNING):
        note_end(store)
    store.set_document(RUNNING, "yes")


def sift(
    store: Store, epoch: int, arrivals: Mapping[str, pa.Table], trial: Trial, is_gone: Callable[[], bool]
) -> Places:
    """The places of rows that the epoch after `epoch` cannot take, by input. Where the run has ended there often they are looked for.

    `trial` takes rows without a trace. It may end this process, or Spark's: then `is_gone`, and its error goes on.
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
            ends = ends.passed() if says_why(error) else ends.ended()  # the epoch says it by itself
        else:
            ends = ends.passed()
        _noted(store, ends)
    return excluded_of(ends)


def says_why(error: Exception) -> bool:
    """Whether an error is a diagnostic that people can act on: none of memory or machines in a stage, and not an unexpected one."""
    return isinstance(error, StageFailure) or (
        isinstance(error, BelvedereError) and error.diagnostics[0].code != "B7040"
    )


def excluded_of(ends: AttemptEnds) -> dict[str, list[int]]:
    """The places of rows that were found, by input."""
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
    """Offsets with the places of rows that an epoch could not take, and those of epochs before."""
    known: dict[str, dict[str, list[int]]] = {i: dict(epochs) for i, epochs in before.get(EXCLUDED, {}).items()}
    for id_, found in places.items():
        known.setdefault(id_, {})[str(epoch)] = sorted(found)
    return {**offsets, **({EXCLUDED: known} if known else {})}


def without(rows: pa.Table, places: Collection[int]) -> pa.Table:
    """The rows that are at other places."""
    return rows.take(pa.array(np.setdiff1d(np.arange(rows.num_rows), list(places)), pa.int64()))


def rejected_at(id_: str, rows: pa.Table, places: Collection[int]) -> list[RejectedRow]:
    """Return the records of the rows at these positions."""
    found: list[dict[str, Any]] = rows.take(pa.array(sorted(places), pa.int64())).to_pylist()
    shown = ({n: v for n, v in row.items() if not n.startswith("_") and n != KEY} for row in found)
    return [RejectedRow(id_, None, None, json.dumps(row, default=str), REASON) for row in shown]
