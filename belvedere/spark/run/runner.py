"""The parts of a run except the API: the store and its lease, Spark, the engine, the sources, the loop.

In: a compiled script, its project, a store URL. Out: a `Runner` that opens the store at once, so that a second runner
is refused before anything starts, or waits on standby. It starts Spark when it runs. Closing it returns the lease and
ends Spark's JVM.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.connectors.abandoned_slots import left_slots
from belvedere.connectors.replay import Past, past_of, rereadable_inputs
from belvedere.connectors.run_records import RECORDS, REJECTED, SourceFile, files_of, files_read
from belvedere.engine.change.change_plan import plan_tables
from belvedere.engine.epoch import Engine
from belvedere.engine.epoch_row.measurements import Requests
from belvedere.engine.errors.quarantine import failure_text
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.store_folders import JOURNAL_ENDING, beside, folder_of, others_of, own_identity, state_root
from belvedere.errors import BelvedereError, fail
from belvedere.intake.ingest_service import IngestService, open_ingest_service
from belvedere.intake.wire import IngestServer
from belvedere.optimize.costs import Coefficients
from belvedere.pipeline.advice import choose
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.placement import DOCUMENT as CHOICE
from belvedere.pipeline.placement import PlacedViews, with_choice
from belvedere.pipeline.refill import DOCUMENT as BACKFILL
from belvedere.pipeline.refill import RunningViews, running_views
from belvedere.process.activity import NOW
from belvedere.process.temporary_folders import full_folder
from belvedere.project.setting_rules import seconds_in, seconds_of
from belvedere.project.settings import ProjectSettings
from belvedere.spark.analysis import analyze
from belvedere.spark.cluster import has_ended, is_cluster, join_cluster, master_of
from belvedere.spark.jvm.quiet_session import end_spark, jvm_of, last_words, let_spark_go, quiet_session, silence_py4j
from belvedere.spark.run.backfill import FEW, Backfill, ConcurrentBackfill, fill_before
from belvedere.spark.run.epoch_sources import EpochSources, open_sources
from belvedere.spark.run.lease import LOST, LeaseRenewal, lease_seconds
from belvedere.spark.run.retried_rows import Retried, going, retry_rejected
from belvedere.spark.run.row_rejection import RUNNING, AttemptEnds, note_end, note_start, says_why
from belvedere.spark.run.run_ends import cluster_ended, spark_ended, unexpected_end
from belvedere.spark.run.run_loop import EpochProgress, RunLoop, RunSettings
from belvedere.spark.run.standby import HELD, Standby, prepare
from belvedere.spark.run.stop_flag import StopFlag
from belvedere.spark.script_engine import open_engine
from belvedere.store import open_store
from belvedere.store.dialects.connection_retry import keep_trying
from belvedere.store.dialects.faults import is_transient
from belvedere.store.identity import Identity, identity_of
from belvedere.store.protocol import Store
from belvedere.time.machine_clock import JUMP, MachineClock, duration_text
from belvedere.time.machine_clock import NAME as CLOCK

WAITING_SHARE = 4
"""Inverse of the share of the driver's memory for pushed rows that wait for an epoch."""
FIRST_PAUSE, MAX_PAUSE_SECONDS = 0.5, 10.0
"""Seconds between two attempts to reach an unavailable store."""


class Runner:
    """One run of one script over one store."""

    def __init__(
        self,
        script: Path,
        catalog: Catalog,
        project: ProjectSettings,
        url: str,
        *,
        once: bool = False,
        accept_clock: bool = False,
        costs: Coefficients | None = None,
        standby: bool = False,
    ):
        """`costs` are this machine's, if measured. `standby`: wait if another run has the store."""
        self.script, self.catalog, self.project, self.once, self.costs = script, catalog, project, once, costs
        fresh = seconds_in(project.optimize.get("freshness", ""))
        self.interval = (
            fresh / 2
            if fresh and "trigger" not in project.spark
            else seconds_of(project.spark.get("trigger", "500 ms"))
        )
        self.retry = seconds_of(project.spark.get("retry", "1 minute"))
        self.clock_interval = seconds_of(project.spark.get("clock", "1 s"))
        self.wait = seconds_of(project.spark.get("wait", "2 minutes"))
        self.ahead = timedelta(seconds=seconds_of(project.ahead))
        master_of(project.spark)
        self.owner = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.accept_clock = accept_clock
        self.ingest_service: IngestService | None = None
        self.server = IngestServer(None) if pushed_inputs(catalog) else None
        self.is_standby = False
        """Whether another run has the store and this one waits."""
        try:
            self._begin(keep_trying(lambda: _opened(url, self.owner, project.lease)))
        except BelvedereError as error:
            if not standby or error.diagnostics[0].code != HELD:
                self._end_server()
                raise
            self.is_standby = True
            self.store = keep_trying(lambda: open_store(url))
        self.store_url = self.store.url
        self.spark: SparkSession | None = None
        self._failing_since: float | None = None
        self.watch: Callable[[EpochProgress], None] = lambda progress: None
        self.stopped = StopFlag()
        self.notify: Callable[[str], None] = lambda text: None
        self.phase: Callable[[str], None] = lambda text: None
        """Function that is called with the present activity."""
        self.retries = False
        """Whether rejected rows are retried, once."""
        self.retried: Retried | None = None
        """Result of the retry."""
        self.requests: Callable[[], Requests] = dict
        """Function that returns the API's counts so far."""
        self.heals: Callable[[], int] = int
        """Number of requests so far to retry views in quarantine."""
        self.unchanged: Callable[[], bool] = lambda: True
        """Function that returns whether the script still compiles to the same result over the store as when this run
        began to wait."""
        self.took_over: Callable[[], None] = lambda: None
        """Function that is called at the end of the wait."""
        self.is_outdated = False
        """Whether the script must be compiled again over the store after the wait. No epoch was run."""

    def _begin(self, opened: _Opened) -> None:
        """Take over the store, which is under this run's lease. From now on this run runs epochs."""
        self.store, self.identity, self.lease = opened.store, opened.identity, opened.renewal
        self.store_url = self.store.url
        try:
            last = self.store.last_epoch()
            note_start(self.store)
            self.clock = MachineClock(last.offsets.get(CLOCK) if last is not None else None, accept=self.accept_clock)
            self.ingest_service = self._open_ingest(opened.before)
        except BaseException:
            self.lease.stop()
            self.store.close()
            raise
        if self.server is not None:
            self.server.ingest_service = self.ingest_service

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        watch: Callable[[EpochProgress], None],
        stopped: StopFlag,
        notify: Callable[[str], None] = lambda text: None,
        phase: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Run epochs until `stopped` is set or, with `once`, nothing is left. Raises BelvedereError for an error.

        `notify` is called when the store cannot be reached and is retried; `phase` with the present activity.
        """
        silence_py4j()
        self.watch, self.stopped, self.notify, self.phase = watch, stopped, notify, phase
        while self._run_until_spark_ends():
            assert self.spark is not None
            end_spark(self.spark)
            self.spark = None

    def _run_until_spark_ends(self) -> bool:
        """Run epochs with one process of Spark.

        Return whether another process must continue, since a row that ends the process is being searched.
        """
        try:
            self._run()
            return False
        except Exception as error:
            if self.is_standby:
                raise
            self._raise_lost_lease(error)
            if self._spark_is_gone():
                if (
                    self.stopped.is_set()
                ):  # the signal that ended this process also ended Spark's: only whole epochs were committed
                    return False
                if self._note_end().is_searching:
                    self.notify("Spark's process ended in the same epoch again: it is restarted")
                    return True
                raise spark_ended(last_words()) from error
            if self.spark is not None and has_ended(self.spark):
                raise cluster_ended(error) from error
            if isinstance(error, BelvedereError) and not says_why(error):
                self._note_end()
            if isinstance(error, BelvedereError) or os.environ.get("BELVEDERE_TRACEBACK"):
                raise
            if full := full_folder(error):
                raise full from error
            self._note_end()
            raise unexpected_end(error) from error

    def _raise_lost_lease(self, error: Exception) -> None:
        """Raise B7007 if another run has the store: its files explain any other error."""
        try:
            self.store.verify_lease()
        except BelvedereError as lost:
            if lost.diagnostics[0].code == LOST:
                raise lost from error

    def _note_end(self) -> AttemptEnds:
        """Record an end of the run without a diagnostic, if the store can be reached."""
        try:
            return note_end(self.store)
        except BelvedereError:
            return AttemptEnds(0)

    def _spark_is_gone(self, wait: float = 0.3) -> bool:
        """Return whether Spark's JVM has ended, after up to `wait` seconds."""
        process = jvm_of(self.spark) if self.spark is not None else None
        if process is None:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=wait)
        return process.poll() is not None

    def _run(self) -> None:
        # from here on a signal waits: a JVM interrupted during its start would remain, and an epoch's work would be
        # lost
        self.stopped.interrupts = False
        if self.is_standby and not self._wait_for_lease():
            return
        self.clock.notify = self.notify
        for notice in self.ingest_service.notices if self.ingest_service is not None else ():
            self.notify(notice)
        self._tried(self._report_other_stores)
        self._tried(self._wait_for_clock)
        if self.stopped.is_set():
            return
        spark = self._start_spark()
        if not self._join(spark) or self.stopped.is_set():
            return
        self._tried(self._place)
        pipeline = maintain(self.catalog)
        self.phase("computing the first epoch")
        self._tried(lambda: self._run_epochs(spark, pipeline))

    def _start_spark(self) -> SparkSession:
        if self.spark is None:
            self.phase("starting Spark")
            self.spark = quiet_session(self.project.spark, self.project.driver_memory)
        return self.spark

    def _wait_for_lease(self) -> bool:
        """Prepare without the lease, wait for the end of the other run, take over. Return False to end instead."""
        self.notify(f'on standby: runner "{self.store.holder() or ""}" has the store; this run takes over when it ends')
        spark = self._start_spark()
        prepare(spark, self.catalog, self.store, state_root(self.store_url, self.script, self.project.state))
        self.phase("on standby")
        journal = None if self.server is None else self._journal_of(identity_of(self.store))
        standby = Standby(self.store_url, journal, self.stopped.is_set, self.notify)
        opened = standby.wait(lambda: _opened(self.store_url, self.owner, self.project.lease), self._require_spark)
        if opened is None:
            return False
        self.store.close()
        self.is_standby = False
        self._begin(opened)
        self.is_outdated = not self.unchanged()
        if self.is_outdated:
            self.notify("the columns of sources have changed meanwhile: the script is compiled again")
            return False
        how = f'from runner "{opened.before}"' if opened.before else "after the other run ended"
        self.notify(f"took over {how}")
        self.took_over()
        return True

    def _require_spark(self) -> None:
        """Raise B7022 if Spark's process has ended."""
        if self._spark_is_gone(wait=0.0):
            raise spark_ended(last_words())

    def _progress(self, found: EpochProgress) -> None:
        self._failing_since = None
        self.watch(found)

    def _tried(self, work: Callable[[], None]) -> None:
        """Run work, and repeat it each time the store was unavailable and is back."""
        while not self.stopped.is_set():
            try:
                work()
                return
            except BelvedereError as error:
                if not is_transient(error):
                    raise
                self._come_back(error)

    def _place(self) -> None:
        """Apply a choice of stored relations: the choice in the store, or the best one if the project requests it."""
        expected = self.project.optimize
        advice = choose(self.store, self.catalog, expected, self.costs) if expected.get("at_start") else None
        if advice is not None:
            moved = ", ".join(f"{v.name} {v.best}" for v in advice.views if v.today != v.best)
            saved = (advice.cost_today - advice.cost) * advice.pause
            self.notify(
                f"stored views and indexes change, to save an estimated {saved:.2g} s per epoch: "
                f"{moved or 'indexes of query templates'}"
            )
        self.catalog = with_choice(self.catalog, PlacedViews.of_text(self.store.document(CHOICE)))

    def _join(self, spark: SparkSession) -> bool:
        """Prepare the executors of a cluster. Return False if the run was stopped meanwhile."""
        if not is_cluster(spark):
            return True
        root = self.project.scratch
        scratch = (root or folder_of(self.store_url, self.script, ".scratch")) / self.identity.id
        shutil.rmtree(scratch, ignore_errors=True)  # of a killed run: the lease shows that there is no other
        return join_cluster(spark, scratch, self.wait, self.stopped.is_set)

    def _report_other_stores(self) -> None:
        """Report, with the first epoch, folders of other stores at this store's places: only the user may delete
        them.
        """
        if self.store.last_epoch() is not None:
            return
        root = state_root(self.store_url, self.script, self.project.state)
        states = root if isinstance(root, Path) else beside(self.store_url)
        for place in (states, folder_of(self.store_url, self.script, JOURNAL_ENDING)):
            if others := others_of(place / self.identity.id):
                self.notify(
                    f"{place} has folders of other stores: {', '.join(others)}; delete those whose stores are gone"
                )

    def _wait_for_clock(self) -> None:
        """Wait while the store's last epoch is more than an hour in the future: epochs would not advance until then."""
        last = self.store.last_epoch()
        reported = False
        while (
            last is not None
            and not self.accept_clock
            and not self.stopped.is_set()
            and last.clock - self.clock.now() > JUMP
        ):
            ahead = duration_text((last.clock - self.clock.now()) // timedelta(microseconds=1))
            text = f"the store's last epoch is {ahead} ahead of the clock of this machine"
            hint = (
                "correct the clock, or start with --accept-clock: now() then stays at the store's time until "
                "the clock reaches it"
            )
            if self.once:
                raise fail("B7033", text, hint=hint)
            if not reported:
                self.clock.notify(f"{text}; waiting for it; {hint}")
            reported = True
            _wait(1.0, self.stopped)

    def _run_epochs(self, spark: SparkSession, pipeline: Pipeline) -> None:
        """Continue from the store's last epoch until the end, or until the store cannot be reached."""
        backfill: Backfill | None = None
        while not self.stopped.is_set():
            engine, past = self._opened(spark, pipeline)
            try:
                if backfill is None or not engine.tables.needed <= backfill.ids:
                    self._check(spark, pipeline, engine)
                    backfill = Backfill(spark, self.catalog, self.project, past, engine.tables.needed)
                    at_once = self.once or self.retries or backfill.left <= FEW or engine.tables.plan.continued
                    running = None if at_once else self._running(pipeline, engine)
                else:
                    backfill.go_on(past)
                    running = None
                if running is None:
                    if fill_before(engine, backfill, self.stopped.is_set, self._renew_lease):
                        backfill.close()
                        watch = self._forgetting_backfill()
                        self._loop(spark, self.catalog, pipeline, engine, watch).run()
                    return
            finally:
                engine.discard()
            self._run_beside(spark, running, backfill)

    def _opened(self, spark: SparkSession, pipeline: Pipeline) -> tuple[Engine, Past]:
        """Return an engine over the whole script, and the data that can be re-read for the inputs that it needs.

        Raises B7030.
        """
        engine = self._engine(spark, self.catalog, pipeline, rereadable_inputs(self.catalog))
        past = past_of(self.catalog, self.store, engine.tables.needed)
        if engine.tables.needed <= past.spans.keys():
            return engine, past
        engine.discard()
        return self._engine(spark, self.catalog, pipeline, past.spans.keys()), past

    def _engine(self, spark: SparkSession, catalog: Catalog, pipeline: Pipeline, again: Collection[str]) -> Engine:
        """Return an engine over the present store. The rows of inputs in `again` can be re-read."""
        project = self.project
        state = state_root(self.store_url, self.script, project.state)
        settings = (project.sinks, project.driver_memory, state, seconds_of(project.retain), project.state_copies)
        engine = open_engine(spark, catalog, pipeline, self.store, *settings, again=again)
        engine.meter.requests = self.requests
        return engine

    def _check(self, spark: SparkSession, pipeline: Pipeline, engine: Engine) -> None:
        """Report the queries that Spark rejects, before anything changes."""
        refused = analyze(spark, self.catalog, pipeline, engine.tables.fresh) if engine.tables.fresh else []
        if refused:
            raise BelvedereError(refused)
        self.store.create(RECORDS)

    def _running(self, pipeline: Pipeline, engine: Engine) -> RunningViews | None:
        """Return the views that can run while rows are re-read; None if the engine needs these rows too."""
        found = running_views(self.catalog, pipeline, engine.tables.plan)
        try:
            plan_tables(found.catalog, maintain(found.catalog), self.store, engine.state)
        except BelvedereError:
            return None
        return found

    def _run_beside(self, spark: SparkSession, running: RunningViews, backfill: Backfill) -> None:
        """Run the views that wait for nothing, until the rows so far are re-read for the others."""
        pipeline = maintain(running.catalog)
        engine = self._engine(spark, running.catalog, pipeline, ())
        try:
            beside = ConcurrentBackfill(backfill, running.waiting, self.catalog, self.store, self.phase)
            self._loop(spark, running.catalog, pipeline, engine, self._progress, beside).run()
        finally:
            engine.discard()

    def _loop(
        self,
        spark: SparkSession,
        catalog: Catalog,
        pipeline: Pipeline,
        engine: Engine,
        watch: Callable[[EpochProgress], None],
        beside: Callable[[], bool] | None = None,
    ) -> RunLoop:
        """Return the loop over the sources, from the positions that the store has recorded."""
        reader = self.store.reader()
        try:
            known = files_read(reader)
        finally:
            reader.close()
        last, misfits = self.store.last_epoch(), engine.tables.plan.misfits
        taken = (
            last,
            known,
            engine.tables.fresh,
            self.ingest_service,
            misfits,
            engine.rows_of,
            self.store,
            self._files_of,
        )
        sources = open_sources(catalog, self.project, *taken)
        for notice in left_slots(self.catalog, self.project, last.offsets if last is not None else {}):
            self.notify(notice)
        for failed in engine.quarantine.failed:
            self.notify(failure_text(failed))
        run = RunSettings(self.interval, self.once, pipeline.reads_clock, self.clock_interval)
        heard = (watch, self.stopped, self.clock, self.notify, beside, self.heals, self._spark_is_gone)
        loop = RunLoop(spark, engine, self.store, sources, run, *heard, self._renew_lease)
        if self.retries:
            self._retry(spark, sources, loop)
        return loop

    def _files_of(self, id_: str) -> list[SourceFile]:
        """Return the recorded files of an input."""
        with contextlib.closing(self.store.reader()) as reader:
            return files_of(reader, id_)

    def _renew_lease(self) -> None:
        self.lease.go_on()

    def _forgetting_backfill(self) -> Callable[[EpochProgress], None]:
        """Return a function that removes the record of the backfill once the next epoch is committed."""
        if not self.store.document(BACKFILL):
            return self._progress

        def watched(progress: EpochProgress) -> None:
            if self.store.document(BACKFILL):
                self.store.set_document(BACKFILL, "")
            self._progress(progress)

        return watched

    def _retry(self, spark: SparkSession, sources: EpochSources, loop: RunLoop) -> None:
        """Let the first epoch ingest the rejected rows that are valid now."""
        reader = self.store.reader()
        try:
            found = retry_rejected(spark, self.catalog, self.project, reader, self.ingest_service)
        finally:
            reader.close()
        self.retried = self.retried or found
        sources.retried = found.arrived
        loop.leaving = {REJECTED.name: going(found.gone)} if found.taken else {}

    def _come_back(self, error: BelvedereError) -> None:
        """Open the store again, with growing pauses.

        Raises the last error if it is unavailable for longer than `retry`.

        Whether the running epoch was committed is not known here: the store shows it when it is back.
        """
        self._failing_since = self._failing_since or time.monotonic()
        pause = FIRST_PAUSE
        NOW.begin("waiting for the store", MAX_PAUSE_SECONDS)
        self.lease.stop()
        with contextlib.suppress(BelvedereError):
            self.store.close(gives_back=False)
        while not self.stopped.is_set():
            left = self._failing_since + self.retry - time.monotonic()
            if left <= 0:
                raise error
            self.notify(f"{error.diagnostics[0].message}; trying again for {left:.0f} s")
            _wait(min(pause, left), self.stopped)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            try:
                self.store = open_store(self.store_url)
                seconds = lease_seconds(self.store, self.project.lease)
                self.store.regain(self.owner, seconds)
                last = self.store.last_epoch()
            except BelvedereError as found:
                if not is_transient(found):
                    raise
                error = found
                continue
            self.lease = LeaseRenewal(self.store, seconds)
            if self.ingest_service is not None:
                self.ingest_service.resume(last)
            return

    def _open_ingest(self, before: str | None) -> IngestService | None:
        """Open the service for pushes, if the script has an input for them. `before` is as for `Journal`."""
        if not pushed_inputs(self.catalog):
            return None
        waiting, last = self.project.driver_memory // WAITING_SHARE, self.store.last_epoch()
        place, journal = self._journal_of(self.identity), self.identity.journal
        owners = (self.owner, before)
        return open_ingest_service(self.catalog, place, last, waiting, self.clock.now, journal, self.ahead, *owners)

    def _journal_of(self, identity: Identity) -> Path:
        """Return the folder of the journal of a store."""
        return folder_of(self.store_url, self.script, JOURNAL_ENDING) / identity.id

    def _end_server(self) -> None:
        if self.server is not None:
            self.server.close()

    def close(self) -> None:
        """Accept no more pushes, return the lease, close the store, end Spark."""
        if self.spark is not None:
            let_spark_go(self.spark)
        self._end_server()
        if self.ingest_service is not None:
            self.ingest_service.close()
        if not self.is_standby:
            self.lease.stop()
            with contextlib.suppress(BelvedereError):
                self.store.set_document(RUNNING, "")
                self.store.release(self.owner)
        with contextlib.suppress(BelvedereError):
            self.store.close()
        if self.spark is not None:
            end_spark(self.spark)


@dataclass(frozen=True)
class _Opened:
    """A store under a lease, its identity, and the former owner that did not return the lease."""

    store: Store
    identity: Identity
    renewal: LeaseRenewal
    before: str | None


def _opened(url: str, owner: str, setting: str | None) -> _Opened:
    """Open the store under a lease of this owner. Raises B7006."""
    store = open_store(url)
    try:
        seconds = lease_seconds(store, setting)
        lease = store.acquire(owner, seconds)
        return _Opened(store, own_identity(store), LeaseRenewal(store, seconds), lease.before)
    except BaseException:
        with contextlib.suppress(BelvedereError):
            store.close()
        raise


def _wait(seconds: float, stopped: StopFlag) -> None:
    end = time.monotonic() + seconds
    while not stopped.is_set() and time.monotonic() < end:
        time.sleep(0.05)
