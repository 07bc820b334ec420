"""Runs epochs: each processes arrivals, and changes all views in one transaction.

In: a catalog, its pipeline, an open store, a `Compute`. Out: per epoch an `EpochReport`. The pipeline decides how a
view is kept, and the caller decides when an epoch runs; the engine decides neither.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.engine.by_tasks.file_tasks import INTAKE_JOBS
from belvedere.engine.cardinalities import Costs
from belvedere.engine.change.change_plan import plan_tables
from belvedere.engine.change.continued_events import DOCUMENT as TELLING
from belvedere.engine.change.script_tables import ScriptTables
from belvedere.engine.change.stored_relations import DEFINITIONS, UNFILLED
from belvedere.engine.compute import Compute
from belvedere.engine.deliveries import Deliveries
from belvedere.engine.epoch_report import EpochReport
from belvedere.engine.epoch_row.last_changes import DOCUMENT as CHANGED
from belvedere.engine.epoch_row.last_changes import with_changes
from belvedere.engine.epoch_row.last_epoch import NEXT_UID, LastEpoch
from belvedere.engine.epoch_row.measurements import DOCUMENT as MEASURED
from belvedere.engine.epoch_row.measurements import Measured, Meter
from belvedere.engine.epoch_row.row_counts import DOCUMENT as ROWS
from belvedere.engine.epoch_row.row_counts import count_rows
from belvedere.engine.epoch_row.served_names import SERVED, served_names
from belvedere.engine.epoch_row.source_spans import SPANS, SourceSpan, record_spans
from belvedere.engine.errors.attempts import Attempt, Quarantine, RowsTouched
from belvedere.engine.errors.failed_stages import failures_document, quarantined
from belvedere.engine.errors.healing import Healing
from belvedere.engine.errors.missed_changes import Missed
from belvedere.engine.errors.quarantine import Cordon, Isolation, StageFailure
from belvedere.engine.expiry import Expiry, final_results_below
from belvedere.engine.ingest import StampedRows, in_order, ingest, receive, whole_input
from belvedere.engine.late_rows import Arrivals, judge
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.query_batching import Task
from belvedere.engine.ready_stages import ReadyStage, prepare
from belvedere.engine.relation import name_in_script
from belvedere.engine.rows.epoch_rows import PASSED, Rows
from belvedere.engine.rows.rows_by_key import rows_of_keys
from belvedere.engine.sql.plan_sql import CLOCK_COLUMN
from belvedere.engine.storage import Storage
from belvedere.engine.work import EpochContext, Work
from belvedere.plan.clock_steps import clock_step, next_step
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.plan.plan_properties import needs_clock
from belvedere.process.activity import NOW
from belvedere.process.tracing import TRACES
from belvedere.schema import TIMESTAMP, WEIGHT
from belvedere.state.state import State
from belvedere.store.protocol import EpochRow, Store, Transaction
from belvedere.store.source_columns import COLUMNS, columns_document
from belvedere.store.stage_memory import MEMORIES, Memories
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes
from belvedere.time.event_time import Clocks, bounds_by_input, pass_time
from belvedere.values.instants import microseconds

SLOW_EPOCH_SECONDS = 10.0
"""Seconds after which a slow epoch is logged. The first epoch has its own limit."""
STATE = "state"
"""Name in the epoch row's `extra`: the place of the state's manifest."""


class Undone(Exception):
    """Raised at the end of a trial of an epoch."""


class Engine:
    """The stages of one script, ready to run epoch after epoch on one store."""

    def __init__(
        self,
        compute: Compute,
        catalog: Catalog,
        pipeline: Pipeline,
        store: Store,
        state: State,
        exports: Deliveries,
        again: Collection[str] = frozenset(),
    ):
        """`again` are the inputs whose rows so far can be re-read from their sources."""
        self.catalog = catalog
        self.pipeline = pipeline
        self.store, self.state = store, state
        self.compute = compute
        self.exports = exports
        self.stages = prepare(pipeline.stages, pipeline.relations, self.compute.view_name)
        row = store.last_epoch()
        self.last = LastEpoch() if row is None else LastEpoch.of_row(row)
        planned = plan_tables(catalog, pipeline, store, state, again)
        self.tables = ScriptTables(planned.tables, catalog, pipeline, state, compute, row)
        missed = Missed(state, compute, pipeline.relations)
        self.quarantine = Quarantine.opened(
            Isolation(catalog, pipeline), missed, planned.failed, self.tables, self.last.clocks
        )
        self.expiry = Expiry(pipeline)
        self.costs = Costs(pipeline.by_cost)
        measured = Measured.of_document(row.extra.get(MEASURED) if row else None)
        self.meter = Meter(measured.only(pipeline.relations, catalog.endpoints))
        self.driver_bytes = self.task_jobs = self.intake_jobs = 0
        """Since the start: bytes of rows that passed through this process; numbers of jobs whose tasks looked up or
        changed state, and of those whose tasks read, judged or stamped new rows."""
        self._before = (PASSED.bytes, INTAKE_JOBS.count)
        """Bytes and jobs of this process up to the last epoch. Rows are read before their epoch begins."""
        self._due: int | None = None
        """Cached time of the next epoch that time alone requires."""
        self.exports.deliver(self.last.number, self.last.memories)

    def run_epoch(
        self,
        arrivals: Arrivals,
        clock: datetime,
        *,
        offsets: Mapping[str, Any] | None = None,
        bounds: Mapping[str, Any] | None = None,
        records: Mapping[str, pa.Table] | None = None,
        spans: Iterable[SourceSpan] = (),
        times: Mapping[str, ArrivalTimes] | None = None,
        keep_deltas: bool = False,
        trial: bool = False,
    ) -> EpochReport:
        """Bring all views up to date with `arrivals` (by input id) at `clock`, in one transaction.

        `records` are rows for stored tables outside the pipeline (rejected rows, files read). They are appended
        unchanged, or applied as changes if they have `_weight`. `spans` are the ranges of their sources from which the
        arrivals come. `times` are their times of arrival if these differ from the epoch's. `bounds` is the document of
        the inputs' clocks if the caller has checked the arrivals against them; otherwise the engine does. A `trial` is
        rolled back instead of committed, and raises `Undone`. Raises BelvedereError, with the store at the last epoch,
        if a view cannot be computed or the store cannot commit.
        """
        started = time.perf_counter()
        if self.last.clock is not None:
            clock = max(clock, self.last.clock)  # now() never goes back
        attempt = self.quarantine.begin(clock)
        usual = sum(self.meter.known.seconds.values())
        while True:
            NOW.begin(f"epoch {self.last.number + 1}", SLOW_EPOCH_SECONDS if self.last.number else 1.0, usual)
            try:
                with TRACES.failing():
                    attempt, report = self._run_epoch(
                        attempt,
                        arrivals,
                        clock,
                        offsets or {},
                        bounds,
                        records or {},
                        tuple(spans),
                        times or {},
                        keep_deltas,
                        trial,
                    )
            except (StageFailure, RowsTouched) as error:
                attempt = self.quarantine.after(error, attempt, self.last.number + 1, clock, self.tables.fresh)
                continue
            NOW.rest()
            TRACES.end({"epoch": report.epoch, "rows": sum(report.rows_in.values())}, report.changes)
            before = {(f.stage, f.lost) for f in self.quarantine.failed}
            total = time.perf_counter() - started
            self.quarantine.committed(attempt, clock, total, self.last.clocks)
            failing = tuple(f for f in attempt.left if (f.stage, f.lost) not in before)
            healed = tuple(f for f in attempt.failed if f.stage in attempt.healed)
            return replace(report, total_seconds=total, failing=failing, healed=healed, quarantined=self.quarantined)

    def try_epoch(self, arrivals: Arrivals, clock: datetime, bounds: Mapping[str, Any]) -> None:
        """Do all the work of an epoch except the commit, and leave no trace. Raises what an epoch raises."""
        with contextlib.suppress(Undone):
            self.run_epoch(arrivals, clock, bounds=bounds, trial=True)

    def _run_epoch(
        self,
        attempt: Attempt,
        arrivals: Arrivals,
        clock: datetime,
        offsets: Mapping[str, Any],
        bounds: Mapping[str, Any] | None,
        records: Mapping[str, pa.Table],
        spans: tuple[SourceSpan, ...],
        times: Mapping[str, ArrivalTimes],
        keep_deltas: bool,
        trial: bool,
    ) -> tuple[Attempt, EpochReport]:
        """Run one attempt, which is committed or has no effect.

        Stages that it leaves in quarantine may lose the changes that they miss.
        """
        self.state.begin()
        transaction = self.store.begin(self.compute.memory.chunk)
        try:
            with closing(Storage(self.state, transaction, self.tables.plan.tables, self.compute)) as storage:
                context, taken, next_uid, seconds = self._compute(attempt, storage, arrivals, clock, bounds, times)
                attempt = self.quarantine.note_missed(attempt, context, self._explaining)
                with TRACES.step("sync"):
                    manifest = None if trial else self.state.prepare()
                with TRACES.step("write"):  # background and late writes are waited for here
                    self.exports.forget(storage.transaction)
            if trial:
                raise Undone
            for name, table in records.items():
                change = transaction.apply if WEIGHT in table.schema.names else transaction.append
                change(name, table.to_reader())
            if spans:
                noted, next_uid = record_spans(spans, taken, self.last.number + 1, context.clock, next_uid)
                transaction.append(SPANS.name, noted.to_reader())
            measured = self._measure(context, seconds, clock)
            extra = {MEASURED: measured.as_document(), **failures_document(attempt.left)}
            empty = self.tables.fresh & attempt.cordon.blocked
            extra[ROWS] = self._count_rows(transaction)
            row = self._row(context, next_uid, EpochRow(self.last.number + 1, clock, offsets, extra=extra), empty)
            passed, task_jobs = self._passed(), storage.by_tasks.jobs
            self.driver_bytes, self.task_jobs = self.driver_bytes + passed[0], self.task_jobs + task_jobs
            self.intake_jobs += passed[1]
            figures = manifest and {
                **manifest,
                "driver_bytes": self.driver_bytes,
                "task_jobs": self.task_jobs,
                "intake_jobs": self.intake_jobs,
            }
            row = replace(row, extra={**row.extra, STATE: figures})
            with TRACES.step("commit"):
                transaction.commit(row)
            self.state.committed()
            self.tables.committed(empty)
            self._committed(row, context)
            self.meter.committed()
            report = self._report(context, taken, seconds, keep_deltas)
            return attempt, replace(report, driver_bytes=passed[0], task_jobs=task_jobs, intake_jobs=passed[1])
        except BaseException:
            _roll_back(transaction)
            self.state.rollback()
            raise
        finally:
            self.compute.sweep()

    def _passed(self) -> tuple[int, int]:
        """Bytes of rows through this process, and jobs for new rows, since the last epoch."""
        before, self._before = self._before, (PASSED.bytes, INTAKE_JOBS.count)
        return self._before[0] - before[0], self._before[1] - before[1]

    def _compute(
        self,
        attempt: Attempt,
        storage: Storage,
        arrivals: Arrivals,
        clock: datetime,
        bounds: Mapping[str, Any] | None,
        times: Mapping[str, ArrivalTimes],
    ) -> tuple[EpochContext, dict[str, StampedRows], int, dict[str, float]]:
        """Compute all changes of an epoch in its open transaction.

        Return the ingested rows, the next free `_uid`, and seconds per stage.
        """
        reported = self.tables.prepare(storage, self.store)
        tellers = self.tables.tellers
        if bounds is None:
            arrivals, clocks, times = judge(
                self.catalog, self.last.clocks, arrivals, clock, times=times, tasks=self.compute
            )
        else:
            clocks = Clocks.of_document(bounds)
        clocks = pass_time(clocks, self.catalog, microseconds(clock))
        known = bounds_by_input(self.catalog, clocks)
        cordon, isolation = attempt.cordon, self.quarantine.isolation
        fresh = self.tables.fresh
        healing = Healing(cordon, fresh, storage, self.compute, isolation, self.quarantine.missed, reported, tellers)
        context = EpochContext(
            self.compute,
            storage,
            self.pipeline.relations,
            {},
            clock,
            (fresh - cordon.blocked) | cordon.fresh,
            (self.tables.plan.restored & fresh - cordon.blocked) | cordon.restored,
            memories=Memories(self.last.memories.document()),
            bounds=known,
            epoch=self.last.number + 1,
            clocks=clocks,
            costs=self.costs,
            final_results=final_results_below(
                self.pipeline, bounds_by_input(self.catalog, self.last.clocks).__getitem__
            ),
        )
        self.costs.whole.clear()
        self._put_clock(clock)
        with TRACES.step("ingest"):
            taken, next_uid = self._ingest(arrivals, times, context)
        seconds = self._run_stages(context, cordon, healing)
        with TRACES.step("expire"):
            self.quarantine.look(attempt, context)
            self.tables.keep_former(reported, cordon.blocked)
            self.expiry.expire(context, isolation.waiting(attempt.left))
        return context, taken, next_uid, seconds

    def _explaining(self, relation: str) -> AbstractContextManager[None]:
        """Open a context whose errors are attributed to the view for which the relation's stage is made."""
        prepared = next(p.prepared for p in self.stages if p.stage.output == relation)
        return self.compute.explaining(prepared, self.catalog)

    def _count_rows(self, transaction: Transaction) -> dict[str, int]:
        served = {
            i: n for i, n in self.pipeline.served.items() if i in self.catalog.public and n in self.tables.plan.tables
        }
        return count_rows(self.last.row_counts, served, self.tables.fresh.union(self.tables.copied), transaction)

    def _measure(self, context: EpochContext, seconds: Mapping[str, float], clock: datetime) -> Measured:
        """Return the measurements including this epoch.

        An epoch that fills relations is not representative of later ones.
        """
        if context.fresh:
            return self.meter.known
        changed = {n: r.num_rows for n, r in context.deltas.items() if self.pipeline.relations[n].stored}
        return self.meter.measure(changed, seconds, clock)

    def _row(self, context: EpochContext, next_uid: int, row: EpochRow, empty: frozenset[str]) -> EpochRow:
        filled = {n: t.fingerprint for n, t in self.tables.by_name.items() if n not in empty}
        extra = {**row.extra, NEXT_UID: next_uid, MEMORIES: context.memories.document(), DEFINITIONS: filled}
        extra[COLUMNS] = columns_document(self.catalog)
        extra[SERVED] = served_names(self.catalog)
        extra |= {TELLING: self.tables.former.document(), UNFILLED: sorted(empty)}
        now = datetime.now(UTC)
        served = dict.fromkeys(self.pipeline.served.values())
        changed = (n for n in served if n in context.deltas and context.deltas[n].num_rows)
        extra[CHANGED] = with_changes(self.last.changed, changed, served, row.epoch, microseconds(now))
        return replace(row, bounds=context.clocks.as_document(), extra=extra, committed_at=now)

    def _committed(self, row: EpochRow, context: EpochContext) -> None:
        self.last = LastEpoch.of_row(row, context.clocks, context.memories)
        self.expiry.note(microseconds(row.clock), context.bounds)
        self._due = None
        self.exports.deliver(self.last.number, self.last.memories)

    def _report(
        self,
        context: EpochContext,
        taken: Mapping[str, StampedRows],
        seconds: Mapping[str, float],
        keep_deltas: bool,
    ) -> EpochReport:
        deltas = {n: r for n, r in context.deltas.items() if self.pipeline.relations[n].stored}
        changes = {n: r.num_rows for n, r in deltas.items()}
        rows_in = {n: a.rows for n, a in taken.items()}
        report = EpochReport(self.last.number, context.clock, rows_in, changes, seconds, whole=tuple(self.costs.whole))
        if not keep_deltas:
            return report
        tables = {n: r.table for n, r in deltas.items()}
        stamped = {n: a.stamped.table for n, a in taken.items()}
        return replace(report, deltas=tables, arrivals=stamped, bounds=context.bounds)

    def _put_clock(self, clock: datetime) -> None:
        self.compute.put("clock", Rows(pa.table({CLOCK_COLUMN: pa.array([clock], TIMESTAMP)})))

    def _ingest(
        self, arrivals: Arrivals, times: Mapping[str, ArrivalTimes], context: EpochContext
    ) -> tuple[dict[str, StampedRows], int]:
        """Ingest the rows of all inputs. Return them with the next free `_uid`."""
        taken: dict[str, StampedRows] = {}
        arrivals, next_uid = in_order(arrivals, self.last.next_uid, self.last.clock, context.clock)
        for stage, prepared in self.stages:
            id_ = stage.output
            given, past = arrivals.get(id_), self.tables.past.get(id_)
            if not stage.is_input or (given is None and past is None):
                continue
            source, work = self.catalog.inputs[id_], Work(prepared, context)
            with self.compute.explaining(prepared, self.catalog):
                arrived = None if given is None else receive(given, source, next_uid, work, times.get(id_, NO_TIMES))
                if past is not None and not work.output.is_state:
                    context.whole[id_] = whole_input(source, past, arrived, work)
                if arrived is None:
                    continue
                context.deltas[id_] = ingest(source, arrived, work)
            taken[source.id], next_uid = arrived, arrived.next_uid
            NOW.rows += arrived.rows
        return taken, next_uid

    def _run_stages(self, context: EpochContext, cordon: Cordon, healing: Healing) -> dict[str, float]:
        """Run all stages that have not failed, each after the stages that it reads.

        Return the seconds of those whose output changed.
        """
        tasks = [
            Task(
                p.stage.output,
                {s.relation for s in p.stage.slots} - {p.stage.output},
                partial(self._run_stage, p, context, healing),
            )
            for p in self.stages
            if not p.stage.is_input and p.stage.output not in cordon.blocked
        ]
        self.compute.run_batched(tasks)
        NOW.at("writing", len(tasks), len(tasks))
        return {t.name: t.seconds for t in tasks if t.name in context.deltas}

    def _run_stage(self, ready: ReadyStage, context: EpochContext, healing: Healing) -> None:
        stage, prepared = ready
        traced = TRACES.step(
            name_in_script(stage.output),
            output=stage.output,
            rule=stage.rule,
            level=self.pipeline.stage_depths[stage.output],
        )
        with traced, self.compute.explaining(prepared, self.catalog):
            work = Work(prepared, healing.seen_by(stage, context))
            delta = stage.run(work)
        context.memories.remember(stage.output, work.memory)
        if delta is not None:
            context.deltas[stage.output] = delta

    @property
    def quarantined(self) -> dict[str, int | None]:
        """Return the public views in quarantine, each with its last good epoch."""
        found = quarantined(self.quarantine.failed)
        return {n: e for n, e in found.items() if n in self.catalog.public and n in self.catalog.views}

    def is_due(self, now: datetime) -> bool:
        """Return whether an epoch without rows has work to do: filling new or changed views, changing a view by time,
        or healing one."""
        if self._due is None:
            self._due = self._next_due()
        return microseconds(now) >= self._due or self.is_to_heal(now)

    def is_to_heal(self, now: datetime) -> bool:
        """Return whether views in quarantine are due for a retry."""
        return bool(self.quarantine.due(now))

    def try_again(self) -> None:
        """Make the next epoch retry all views in quarantine."""
        self.quarantine.try_again()

    def _next_due(self) -> int:
        """Return the next time, in microseconds, at which time alone may change a view."""
        blocked = self.quarantine.isolation.cordon_of(self.quarantine.failed, ()).blocked
        if self.last.clock is None or self.tables.fresh - blocked or self.tables.refilled:
            return NEVER
        clock = microseconds(self.last.clock)
        plans = [list(plan.walk()) for plan in self.pipeline.at_read.values()]  # they show the last epoch's clock
        steps = [clock_step(nodes) for nodes in plans if any(map(needs_clock, nodes))]
        times = [NEVER if s is None else next_step(clock, s) for s in steps]
        stages = (p.stage for p in self.stages if p.stage.output not in blocked)
        return min([*times, *(s.due(clock, self._least) for s in stages if s.reads_clock)], default=FOREVER)

    def _least(self, relation: str, column: str) -> int | None:
        found = self.state.arrangements.get(relation)
        return NEVER if found is None else found.least(column)

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each arranged relation."""
        return {name: found.count for name, found in self.state.arrangements.items()}

    def rows(self, relation: str) -> pa.Table:
        """Return all rows of an arranged relation, with Arrow types of the catalog."""
        found = self.state.arrangements[relation]
        return pa.Table.from_batches(found.look_up(None, None), found.arranged.schema)

    def rows_of(self, relation: str, keys: pa.Table) -> pa.Table:
        """Return the rows of an arranged relation with these keys; empty if it is not arranged."""
        return rows_of_keys(self.pipeline.relations.get(relation), self.state, self.compute, keys)

    def discard(self) -> None:
        """Release all files. Spark's process ends by itself."""
        self.compute.discard()
        self.state.close()

    def close(self) -> None:
        """Drop temporary views and scratch files, and release the files of state. The store stays open."""
        self.exports.close()
        self.compute.close()
        self.state.close()


def _roll_back(transaction: Transaction) -> None:
    try:
        transaction.rollback()
    except Exception:  # the first error is the one to report; a broken connection has rolled everything back by itself
        return
