"""The run loop: check the sources, run an epoch over the new data, wait.

In: an engine over an open store, the sources. Out: epochs in the store, and an `EpochProgress` per epoch for observers.
The loop decides when an epoch runs, the engine its work, the sources its input. The loop starts no API and prints
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.outage_backoff import is_away, is_waiting
from belvedere.connectors.run_records import (
    FILES,
    REJECTED,
    RETRIED,
    RejectedRow,
    record_files,
    record_rejected,
    record_retried,
    renamed_files,
)
from belvedere.engine.by_tasks.file_tasks import FileTasks
from belvedere.engine.deliveries import Deliveries
from belvedere.engine.epoch_row.last_epoch import LastEpoch
from belvedere.engine.epoch_row.source_spans import SourceSpan
from belvedere.engine.errors.quarantine import failure_text, healing_text
from belvedere.engine.rows.epoch_rows import as_rows
from belvedere.errors import BelvedereError
from belvedere.process.tracing import TRACES
from belvedere.schema import WEIGHT
from belvedere.spark.run.epoch_sources import EpochInput, EpochSources, New
from belvedere.spark.run.row_rejection import OFTEN, Places, ends_of, excluded_of, sift, sifted, with_excluded
from belvedere.spark.run.stop_flag import StopFlag
from belvedere.store.protocol import EpochRow, Store
from belvedere.time.arrival_columns import ArrivalTimes
from belvedere.time.event_time import Clocks
from belvedere.time.machine_clock import NAME as CLOCK
from belvedere.time.machine_clock import MachineClock
from belvedere.time.stream_status import StreamStatus, stream_statuses
from belvedere.values.instants import instant

PATIENCE_SECONDS = 120.0
"""Maximum seconds that a run with `once` waits for a source that waits for others."""
POLL_SECONDS = 0.1
"""Seconds between two checks of the stop flag while the loop waits."""
MIN_WAIT_SECONDS = 0.01
EARLIEST = datetime.min.replace(tzinfo=UTC)
MAX_REJECTED = 10_000
"""Maximum number of rejected rows of an epoch in the store. All are counted."""


class EpochRunner(Protocol):
    """The loop's interface to `belvedere.engine.epoch.Engine`."""

    @property
    def last(self) -> LastEpoch:
        """Return the last epoch."""

    @property
    def exports(self) -> Deliveries:
        """Return the deliveries to sinks."""

    @property
    def compute(self) -> FileTasks:
        """Return what runs tasks in executors."""

    def counts(self) -> Mapping[str, int]:
        """Return the number of rows of each stored relation."""

    def rows(self, relation: str) -> pa.Table:
        """Return all rows of a stored relation."""

    def is_due(self, now: datetime) -> bool:
        """Return whether an epoch without rows has work to do."""

    def is_to_heal(self, now: datetime) -> bool:
        """Return whether views in quarantine are due for a retry."""

    def try_again(self) -> None:
        """Make the next epoch retry all views in quarantine."""

    def try_epoch(self, arrivals: Mapping[str, pa.Table], clock: datetime, bounds: Mapping[str, Any]) -> None: ...

    def run_epoch(
        self,
        arrivals: Mapping[str, pa.Table | DataFrame],
        clock: datetime,
        *,
        offsets: Mapping[str, Any],
        bounds: Mapping[str, Any],
        records: Mapping[str, pa.Table],
        spans: Iterable[SourceSpan],
        times: Mapping[str, ArrivalTimes],
    ) -> Any: ...


@dataclass(frozen=True)
class EpochProgress:
    """A committed epoch, for people: rows per input, changes per view, rejected rows, seconds."""

    epoch: int
    clock: datetime
    rows_in: Mapping[str, int]
    changes: Mapping[str, int]
    rejected: Mapping[str, int]
    examples: tuple[RejectedRow, ...]
    seconds: float
    views: Mapping[str, float] = field(default_factory=dict)
    streams: tuple[StreamStatus, ...] = ()
    """The status of the streams after it."""
    notices: tuple[str, ...] = ()
    """Notices on the input, and on views that failed or recovered."""
    quarantined: Mapping[str, int | None] = field(default_factory=dict)
    """The views in quarantine, each with its last good epoch (None: there is none)."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run: the pause between two checks of the sources in seconds; `once` ends the run when nothing is
    left to read."""

    interval: float = 0.5
    once: bool = False
    reads_clock: bool = False
    clock_interval: float = 1.0
    """If views read the clock: minimum seconds between epochs caused only by time."""


class RunLoop:
    """Runs epochs until it is stopped, until `once` is done, or until an error occurs."""

    def __init__(
        self,
        spark: SparkSession,
        engine: EpochRunner,
        store: Store,
        sources: EpochSources,
        settings: RunSettings,
        watch: Callable[[EpochProgress], None] = lambda progress: None,
        stopped: StopFlag | None = None,
        clock: MachineClock | None = None,
        notify: Callable[[str], None] = lambda text: None,
        beside: Callable[[], bool] | None = None,
        heals: Callable[[], int] = int,
        is_gone: Callable[[], bool] = lambda: False,
        renew: Callable[[], None] = lambda: None,
    ):
        """`watch` receives each epoch, `notify` reports of sources that cannot be checked.

        When the number of `heals` changes, views in quarantine are retried at once.

        `is_gone` returns whether Spark's process has ended; `renew` keeps the lease on the store, or raises B7007.
        `beside` does a part of other work between two epochs, and returns whether the loop must end since all of it is
        done.
        """
        self.spark, self.engine, self.store, self.sources = spark, engine, store, sources
        self.settings, self.watch, self.notify = settings, watch, notify
        self.last: EpochRow | None = store.last_epoch()
        self.clock = clock or MachineClock()
        self._stopped = stopped or StopFlag()
        self._beside = beside
        self._heals, self._healed = heals, heals()
        self._is_gone, self._is_first = is_gone, True
        self._renew = renew
        self.leaving: Mapping[str, pa.Table] = {}
        """Records, with weights, that are deleted by the epoch in which rejected rows arrive."""

    def stop(self) -> None:
        """Ask the loop to end after the running epoch. It returns at once, and can be called from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Run until the end. Raises BelvedereError for an error, with the store at the last good epoch."""
        try:
            if self.settings.once:
                self._run_once()
            else:
                self._run_on()
        finally:
            self.sources.close()

    def _run_once(self) -> None:
        """Run epochs until there is no new data.

        The first one runs also without rows if there is no epoch yet or it has work to do.
        """
        requested = self.last is None or self.settings.reads_clock or self.engine.is_due(self.clock.now())
        while not self._stopped.is_set() and self._run_epoch(requested):
            requested = False
            self._renew()
        self._catch_up(wait=not self._stopped.is_set())

    def _run_on(self) -> None:
        """Check the sources at every trigger, and when rows are pushed, but not more often than the interval."""
        next_ = 0.0
        while not self._stopped.is_set():
            self._renew()
            started = time.monotonic()
            if self._is_to_heal():
                self.engine.try_again()
                next_ = started
            if started >= next_ and self._has_reason():
                next_ = started + self.settings.interval
                if self._run_epoch(self._is_due()) and self._beside is None:
                    continue
            self._catch_up()
            if self._beside is not None:
                if self._beside():
                    return
                continue
            left = max(MIN_WAIT_SECONDS, next_ - time.monotonic()) if self.sources.feeds else POLL_SECONDS
            self.sources.pushes.wait(min(left, POLL_SECONDS))

    def _catch_up(self, wait: bool = False) -> None:
        for notice in self.engine.exports.catch_up(wait):
            self.notify(notice)

    def _is_to_heal(self) -> bool:
        """Return whether a retry was requested since the last check."""
        before, self._healed = self._healed, self._heals()
        return self._healed != before

    def _has_reason(self) -> bool:
        """Return whether there may be work. Without feeds only pushes and time cause epochs."""
        return bool(self.sources.feeds) or self.sources.pushes.has_waiting or self._is_due()

    def _is_due(self) -> bool:
        """Return whether an epoch without rows is needed: the first one, or one caused by time."""
        if self.last is None:
            return True
        now = self.clock.now()
        elapsed = (now - self.last.clock).total_seconds()
        if self.engine.is_to_heal(now):
            return True
        return (elapsed >= self.settings.clock_interval and self.engine.is_due(now)) or self.sources.idles(now)

    def _run_epoch(self, requested: bool) -> bool:
        """Run an epoch over the new data, or without data only if it is `requested`. Return whether it ran."""
        TRACES.begin()
        self.clock.heed(self.store.other_clock)
        now = max(self.clock.now(), self.last.clock if self.last else EARLIEST)
        idles = self.sources.idles(now)  # before: input is checked against bounds that already ignore silent producers
        with TRACES.step("look"):
            new = self._look(now)
        if new.waiting.latest is not None:
            now = max(now, instant(new.waiting.latest))  # rows may have come since the clock was read
        if not (new or requested or idles):
            return False
        started = time.perf_counter()
        epoch = self.last.epoch + 1 if self.last else 1
        try:
            with TRACES.failing(), TRACES.step("read"):
                since = self.last.clock if self.last else None
                batch = self.sources.take(self.spark, new, now, since, self.engine.compute)
        except BelvedereError as error:
            if self.settings.once or not is_away(error):
                raise
            self.sources.report_outage(error, self.notify)  # nothing was ingested: the next check finds the same data
            return False
        places = self._sift(batch, now) if self._is_first else {}
        batch = sifted(batch, places) if places else batch
        offsets = with_excluded(self.sources.offsets(new, epoch), self.last.offsets if self.last else {}, places, epoch)
        report = self.engine.run_epoch(
            batch.arrivals if not batch.emptied else _without_those_before(batch, self.sources.catalog, self.engine),
            now,
            offsets=offsets | {CLOCK: self.clock.document()},
            bounds=batch.clocks.as_document(),
            spans=batch.spans,
            times={i: times for i, times in batch.times.items() if i not in batch.emptied},
            records=self._records(batch, epoch) | (self._tried_again(new, epoch) if new.is_retry else {}),
        )
        self.sources.committed(new, self.engine.last.clocks)
        self.last, self._is_first = EpochRow(report.epoch, report.clock, offsets), False
        self.watch(
            _progress(report, batch, self.sources.catalog, self.engine.last.clocks, time.perf_counter() - started)
        )
        return True

    def _sift(self, batch: EpochInput, now: datetime) -> Places:
        """Return the positions of rows that have ended the run in each attempt at this epoch."""
        known, bounds = self.last.epoch if self.last else 0, batch.clocks.as_document()
        if ends_of(self.store, known).times < OFTEN:
            return excluded_of(ends_of(self.store, known))
        self.notify("the run ended in this epoch before: its rows are processed in parts to find the row that ends it")
        tables = {i: as_rows(rows).table for i, rows in batch.arrivals.items()}
        return sift(self.store, known, tables, lambda some: self.engine.try_epoch(some, now, bounds), self._is_gone)

    def _look(self, now: datetime) -> New:
        """Return the new data. A run with `once` waits a while for a source that waits for others, and reports it."""
        end, said = time.monotonic() + PATIENCE_SECONDS, ""
        while True:
            try:
                return self.sources.look(now, self.settings.once, self.notify)
            except BelvedereError as error:
                if not is_waiting(error) or self._stopped.is_set() or time.monotonic() > end:
                    raise
                if (text := error.diagnostics[0].message) != said:
                    self.notify(f"{text}; {error.diagnostics[0].hint}")
                said = text
            time.sleep(POLL_SECONDS)
            now += timedelta(microseconds=1)  # another look

    def _records(self, batch: EpochInput, epoch: int) -> dict[str, pa.Table]:
        """Return the epoch's records besides the views."""
        found = _records(batch, epoch)
        if batch.new.renames:
            with closing(self.store.reader()) as reader:
                changes = [renamed_files(reader, i, names) for i, names in batch.new.renames.items()]
            if FILES.name in found:
                added = found[FILES.name]
                changes.append(added.append_column(changes[0].schema.field(WEIGHT), [[1] * added.num_rows]))
            found[FILES.name] = pa.concat_tables(changes)
        return found

    def _tried_again(self, new: New, epoch: int) -> dict[str, pa.Table]:
        """Return the records to delete, and the rows that arrive in their place."""
        taken = [(i, a.rows) for i, a in new.retried.items() if isinstance(a.rows, pa.Table)]
        return {**self.leaving, RETRIED.name: record_retried(taken, epoch, self.leaving.get(REJECTED.name))}


def _without_those_before(batch: EpochInput, catalog: Catalog, engine: EpochRunner) -> dict[str, Any]:
    """Return the arrivals, preceded by deletions of all rows of tables that were emptied."""
    found: dict[str, Any] = dict(batch.arrivals)
    for id_ in batch.emptied:
        if id_ not in engine.counts():  # no view reads it
            continue
        rows = engine.rows(id_).select(list(catalog.inputs[id_].primary_key))
        gone = rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, -1), pa.int64()))
        came = found.get(id_)
        parts = [gone] if came is None else [gone, as_rows(came).table]
        found[id_] = pa.concat_tables(parts, promote_options="default")
    return found


def _records(batch: EpochInput, epoch: int) -> dict[str, pa.Table]:
    """Return the epoch's records besides the views."""
    records = {}
    if batch.files:
        records[FILES.name] = record_files(batch.files, epoch)
    if batch.rejected:
        records[REJECTED.name] = record_rejected(batch.rejected[:MAX_REJECTED], epoch)
    return records


def _progress(report: Any, batch: EpochInput, catalog: Catalog, clocks: Clocks, seconds: float) -> EpochProgress:
    changes = {n: count for n, count in report.changes.items() if n not in catalog.inputs}
    return EpochProgress(
        report.epoch,
        report.clock,
        report.rows_in,
        changes,
        batch.refused,
        tuple(batch.rejected[:3]),
        seconds,
        report.seconds,
        stream_statuses(catalog, clocks),
        (*batch.notices, *map(failure_text, report.failing), *map(healing_text, report.healed)),
        report.quarantined,
    )
