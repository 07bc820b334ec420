"""The run loop: one Structured Streaming query over all sources, one epoch per micro-batch.

In: an engine over an open store, the sources, a checkpoint directory. Out: epochs in the store, and a `Progress` per epoch
for whoever watches. A batch whose epoch is in the store already (a crash came between the store's commit and Spark's) is
skipped. The loop decides when an epoch runs, the engine what it does. It starts no API and prints nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from belvedere.catalog import Catalog
from belvedere.errors import BelvedereError, fail
from belvedere.spark.checkpoint import empty_checkpoint, open_checkpoint
from belvedere.spark.records import FILES, REJECTED, RejectedRow, record_files, record_rejected
from belvedere.spark.sources import Batch, Sources
from belvedere.spark.stop_flag import StopFlag
from belvedere.store.protocol import EpochRow, Store
from belvedere.time.event_time import Clocks
from belvedere.time.machine_clock import NAME as CLOCK
from belvedere.time.machine_clock import MachineClock
from belvedere.time.standing import Standing, standings

LEASE_SECONDS = 600.0
"""Longer than any epoch: the lease is renewed between epochs, and a store knows by itself when a runner's process has ended."""
POLL_SECONDS = 0.1
EARLIEST = datetime.min.replace(tzinfo=UTC)
MOST_REJECTED = 10_000
"""So many rejected rows of an epoch are kept in the store; all are counted."""


class EpochRunner(Protocol):
    """What the loop needs of `belvedere.spark.engine.Engine`."""

    @property
    def clocks(self) -> Clocks:
        """The clocks of the inputs after the last epoch."""

    def run_epoch(
        self,
        arrivals: Mapping[str, pa.Table | DataFrame],
        clock: datetime,
        *,
        checkpoint: str,
        batch: int,
        offsets: Mapping[str, Any],
        bounds: Mapping[str, Any],
        records: Mapping[str, pa.Table],
    ) -> Any: ...


@dataclass(frozen=True)
class Progress:
    """An epoch that was committed, for people: rows per input, changes per view, rejected rows, seconds."""

    epoch: int
    clock: datetime
    rows_in: Mapping[str, int]
    changes: Mapping[str, int]
    rejected: Mapping[str, int]
    examples: tuple[RejectedRow, ...]
    seconds: float
    views: Mapping[str, float] = field(default_factory=dict)
    streams: tuple[Standing, ...] = ()
    """Where the streams stand after it."""
    notices: tuple[str, ...] = ()
    """What people should know about what came."""


@dataclass(frozen=True)
class RunSettings:
    """How to run: the pause between two looks at the sources in seconds; `once` ends when nothing is left to read."""

    checkpoint: Path
    owner: str
    interval: float = 0.5
    once: bool = False
    reads_clock: bool = False
    clock_interval: float = 1.0
    """Where views read the clock: the least time between epochs that only time has made, in seconds."""


class _Stopping(Exception):
    """Keeps Spark from marking a batch as done that no epoch has taken."""


class RunLoop:
    """Runs epochs until it is stopped, until `once` is done, or until something fails."""

    def __init__(
        self,
        spark: SparkSession,
        engine: EpochRunner,
        store: Store,
        sources: Sources,
        settings: RunSettings,
        watch: Callable[[Progress], None] = lambda progress: None,
        stopped: StopFlag | None = None,
        clock: MachineClock | None = None,
    ):
        self.spark, self.engine, self.store, self.sources, self.settings, self.watch = (
            spark,
            engine,
            store,
            sources,
            settings,
            watch,
        )
        self.last: EpochRow | None = store.last_epoch()
        self.checkpoint = open_checkpoint(settings.checkpoint, self.last, list(sources.tables))
        self.failure: BaseException | None = None
        self.clock = clock or MachineClock()
        self._stopped = stopped or StopFlag()
        self._closing = False
        self._lock = threading.Lock()
        self._renewed = time.monotonic()
        self._ran = 0.0

    def stop(self) -> None:
        """Ask the loop to end after the epoch in flight; returns at once, and may be called from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Run until the end. Raises BelvedereError for what went wrong, with the store at the last good epoch."""
        try:
            self._run_query()
        except (PySparkException, Py4JError, BelvedereError) as error:
            of_query = not isinstance(error, BelvedereError) or error.diagnostics[0].code == "B7023"
            if self.failure is not None or not of_query or not self.checkpoint.resumed:
                raise
            # no epoch failed: it is the checkpoint that Spark cannot read, and an empty one does as well
            self.checkpoint = empty_checkpoint(self.settings.checkpoint, list(self.sources.tables))
            self._closing = False
            self._run_query()

    def _run_query(self) -> None:
        query = self._start()
        try:
            while not self._is_over(query):
                self._renew_lease()
                if self._wants_epoch(query):
                    self._run_alone()
                self.sources.pushes.wait(POLL_SECONDS)
        finally:
            self._end(query)
        if self.settings.once and (self.last is None or query is None or self.sources.pushes.has_waiting):
            self._run_alone()

    def _is_over(self, query: StreamingQuery | None) -> bool:
        if self._stopped.is_set():
            return True
        return self.settings.once if query is None else not query.isActive

    def _wants_epoch(self, query: StreamingQuery | None) -> bool:
        """Whether an epoch is due that the query does not start: of what was pushed, of time alone, or the first one."""
        if self.settings.once:
            return False
        if self.last is None:
            return query is None or _idle(query)
        if time.monotonic() - self._ran < self.settings.interval:
            return False
        now = self.clock.now()
        return self.sources.pushes.has_waiting or self.sources.idles(now) or (query is None and self._is_due(now))

    def _start(self) -> StreamingQuery | None:
        tick = self.settings.reads_clock or self.sources.needs_tick
        stream = self.sources.stream(self.spark, tick)
        if stream is None:
            return None
        writer = stream.writeStream.foreachBatch(self._on_batch).option("checkpointLocation", self.checkpoint.location)
        if self.settings.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(self.settings.interval * 1000)} milliseconds").start()

    def _end(self, query: StreamingQuery | None) -> None:
        """Wait for the epoch in flight, stop the query, and tell what it died of."""
        with self._lock:
            self._closing = True
        if query is None:
            return
        _quietly(query.stop)
        if self.failure is not None and not isinstance(self.failure, _Stopping):
            raise self.failure
        error = query.exception()
        if error is not None and self.failure is None:
            raise fail("B7023", "the streaming query ended", detail=str(error).split("\n")[0]) from error

    def _renew_lease(self) -> None:
        """Between epochs only: an epoch in flight has the store's connection to itself."""
        if time.monotonic() - self._renewed < LEASE_SECONDS / 10 or not self._lock.acquire(blocking=False):
            return
        try:
            self._renewed = time.monotonic()
            self.store.acquire(self.settings.owner, LEASE_SECONDS)
        finally:
            self._lock.release()

    def _on_batch(self, frame: DataFrame, number: int) -> None:
        """Called by Spark for each micro-batch, in a thread of its own."""
        with self._lock:
            try:
                if self._closing:
                    raise _Stopping
                if self.last and self.last.checkpoint == self.checkpoint.id and self.last.batch == number:
                    self.checkpoint.mark(self.last.epoch)
                    return
                self._run_batch(frame.collect(), number)
            except BaseException as error:
                self.failure = self.failure or error
                raise

    def _run_alone(self) -> None:
        """An epoch without a batch of the query: of what was pushed, and of what time brings."""
        with self._lock:
            if not self._stopped.is_set():
                self._run_batch([], -1)

    def _is_due(self, now: datetime) -> bool:
        """Whether an epoch without rows is worth its while."""
        if self.last is None:
            return True
        elapsed = (now - self.last.clock).total_seconds()
        return self.settings.reads_clock and (self.settings.once or elapsed >= self.settings.clock_interval)

    def _run_batch(self, listed: Iterable[Row], number: int) -> None:
        self.clock.heed(self.store.other_clock)
        now = max(self.clock.now(), self.last.clock if self.last else EARLIEST)
        idles = self.sources.idles(now)  # before: what is taken is judged by bounds that have passed over the silent
        batch = self.sources.take(self.spark, listed, now, self.settings.once)
        if not batch and not self._is_due(now) and not idles:
            return
        started = time.perf_counter()
        epoch = self.last.epoch + 1 if self.last else 1
        report = self.engine.run_epoch(
            batch.arrivals,
            now,
            checkpoint=self.checkpoint.id,
            batch=number,
            offsets=self.sources.offsets(batch) | {CLOCK: self.clock.document()},
            bounds=batch.clocks.as_document(),
            records=_records(batch, epoch),
        )
        self._ran = time.monotonic()
        self.sources.committed(batch, self.engine.clocks)
        self.last = EpochRow(report.epoch, report.clock, self.checkpoint.id, number)
        self.checkpoint.mark(report.epoch)
        self.watch(_progress(report, batch, self.sources.catalog, self.engine.clocks, time.perf_counter() - started))


def _records(batch: Batch, epoch: int) -> dict[str, pa.Table]:
    """What the epoch notes down beside the views."""
    records = {}
    if batch.files:
        records[FILES.name] = record_files(batch.files, epoch)
    if batch.rejected:
        records[REJECTED.name] = record_rejected(batch.rejected[:MOST_REJECTED], epoch)
    return records


def _progress(report: Any, batch: Batch, catalog: Catalog, clocks: Clocks, seconds: float) -> Progress:
    changes = {n: count for n, count in report.changes.items() if n not in catalog.inputs}
    return Progress(
        report.epoch,
        report.clock,
        report.rows_in,
        changes,
        batch.refused,
        tuple(batch.rejected[:3]),
        seconds,
        report.seconds,
        standings(catalog, clocks),
        batch.notices,
    )


def _idle(query: StreamingQuery) -> bool:
    """Whether the query has looked at its sources and found nothing."""
    status = query.status
    return not status["isTriggerActive"] and status["message"].startswith("Waiting for")


def _quietly(action: Callable[[], Any]) -> None:
    try:
        action()
    except (PySparkException, Py4JError, OSError):
        return  # the query is on its way out; what it died of is told by `_end`


def silence_py4j() -> None:
    """Errors inside a batch are told once, by `run`: py4j would print them as tracebacks too."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
