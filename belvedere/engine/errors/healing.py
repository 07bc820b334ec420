"""Failing and healing, epoch by epoch: what an attempt at an epoch leaves alone or tries again, and what follows from its failure.

In: the stages that failed so far, the failure of an attempt. Out: the next attempt, until one succeeds. A stage in quarantine is tried
again in the first epoch of a run, in each epoch in which rows that it reads go or are replaced, and, where views behind it follow the
clock, once a minute. It is computed anew then from what is stored, within the epoch's transaction; who is told of its changes is told
what differs. Where the rows for that are not kept, it takes in the changes that it has missed as those of one epoch.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from belvedere.engine.compute import Compute
from belvedere.engine.errors.failed_stages import Failed
from belvedere.engine.errors.missed_changes import Missed
from belvedere.engine.errors.quarantine import Cordon, Isolation, StageFailure, emits_changes
from belvedere.engine.expiry import final_results_below
from belvedere.engine.rows.epoch_rows import Rows, going, weighted_stream
from belvedere.engine.stage import Stage
from belvedere.engine.storage import Storage
from belvedere.engine.work import EpochContext
from belvedere.schema import WEIGHT
from belvedere.state.arrangement import Arrangement
from belvedere.state.sorted_run import Arranged
from belvedere.time.event_time import Clocks, bounds_by_input
from belvedere.values.instants import microseconds

CLOCK_PAUSE = 60_000_000
"""Microseconds of the epochs' clock between two attempts to heal what time alone may heal."""
PAUSE = 10.0
"""After an attempt that failed, so many times its seconds pass before the next one."""


class RowsTouched(Exception):
    """Rows that stages in quarantine read have gone in this epoch: it is begun anew, to heal them."""

    def __init__(self, stages: frozenset[str]):
        super().__init__(stages)
        self.stages = stages


@dataclass(frozen=True)
class Attempt:
    """One attempt at an epoch: the stages that have failed, those of them that it tries again (`healing`), and those tried before."""

    failed: tuple[Failed, ...] = ()
    healing: frozenset[str] = frozenset()
    tried: frozenset[str] = frozenset()
    cordon: Cordon = field(default_factory=Cordon)

    @property
    def healed(self) -> frozenset[str]:
        """The stages that are well once this attempt has succeeded. One behind another that is still in quarantine was not run."""
        return self.healing - self.cordon.blocked

    @property
    def left(self) -> tuple[Failed, ...]:
        """What is in quarantine then."""
        return tuple(f for f in self.failed if f.stage not in self.healed)


@dataclass
class Quarantine:
    """The stages of one engine that have failed."""

    isolation: Isolation
    failed: tuple[Failed, ...] = ()
    pause: float = PAUSE
    clocks: Clocks = field(default_factory=Clocks)
    """The inputs' clocks after the last epoch."""
    _waiting: set[str] = field(default_factory=set)
    """Those to be tried again, as soon as the pause after the last attempt is over."""
    _next: dict[str, float] = field(default_factory=dict)
    _clocks: dict[str, int] = field(default_factory=dict)
    """The epochs' clock at the last attempt of each."""

    def __post_init__(self) -> None:
        self._waiting |= {f.stage for f in self.failed}

    def due(self, clock: datetime) -> frozenset[str]:
        """The stages that an epoch at this clock tries to heal."""
        now = microseconds(clock)
        by_time = {
            f.stage
            for f in self.failed
            if now - self._clocks.get(f.stage, now) >= CLOCK_PAUSE and self.isolation.follows_clock(f.stage)
        }
        lost = {f.stage for f in self.failed if f.lost}
        return frozenset(s for s in (self._waiting | by_time) - lost if self._is_ready(s))

    def try_again(self) -> None:
        """Let the next epoch try all of them, however short a time ago they were tried."""
        self._waiting |= {f.stage for f in self.failed}
        self._next.clear()

    def begin(self, clock: datetime) -> Attempt:
        """The first attempt at an epoch."""
        return self._attempt(self.failed, self.due(clock), frozenset()) if self.failed else Attempt()

    def after(
        self, error: StageFailure | RowsTouched, attempt: Attempt, epoch: int, clock: datetime, empty: Collection[str]
    ) -> Attempt:
        """The next attempt after one that has failed, in epoch number `epoch`; raises the failure where the view is not to be quarantined.

        `empty` are relations that no epoch has filled.
        """
        if isinstance(error, RowsTouched):
            return self._attempt(attempt.failed, attempt.healing | error.stages, attempt.tried | error.stages)
        stage = error.output
        inside = frozenset[str]().union(*(self.isolation.behind(s) for s in attempt.healing))
        if stage in attempt.cordon.fresh - inside:  # it was well as it stood: only to heal another one it is computed anew
            return self._attempt(attempt.failed, frozenset(), attempt.tried | attempt.healing)
        if not self.isolation.is_allowed(stage):
            raise error
        if any(f.stage == stage for f in attempt.failed):
            told = (
                replace(f.reported(error.diagnostics[0]), **self._resuming(stage, f))
                for f in attempt.failed
                if f.stage == stage
            )
            failed = (*(f for f in attempt.failed if f.stage != stage), *told)
            return self._attempt(failed, attempt.healing - {stage}, attempt.tried | {stage})
        failure = self._failure(error, attempt, epoch, clock, empty)
        return self._attempt((*attempt.failed, failure), attempt.healing, attempt.tried | {stage})

    def _failure(self, error: StageFailure, attempt: Attempt, epoch: int, clock: datetime, empty: Collection[str]) -> Failed:
        isolation, stage, found = self.isolation, error.output, error.diagnostics[0]
        owner = next(s.owner for s in isolation.pipeline.stages if s.output == stage)
        known = {n: e for f in attempt.failed for n, e in f.good.items()}
        good: dict[str, int | None] = {}
        for id_ in isolation.served(isolation.behind(stage)):
            is_empty = isolation.pipeline.served.get(id_, id_) in empty
            good[id_] = known[id_] if id_ in known else None if is_empty else epoch - 1
        fingerprint = isolation.fingerprints[stage]
        told = (found.code, found.message, found.detail, found.hint)
        made = Failed(stage, fingerprint, owner, epoch, microseconds(clock), *told, good, reason=found.reason)
        return replace(made, **self._resuming(stage, made))

    def _resuming(self, stage: str, failed: Failed) -> dict[str, Any]:
        """How a stage that has failed is to heal, as fields of what is noted of it."""
        if failed.resumes or self.isolation.why_not(stage) is None:
            return {}
        return {"resumes": True, "before": self.clocks.as_document()}

    def _attempt(self, failed: tuple[Failed, ...], healing: frozenset[str], tried: frozenset[str]) -> Attempt:
        return Attempt(failed, healing, tried | healing, self.isolation.around(failed, healing))

    def _is_ready(self, stage: str) -> bool:
        return time.monotonic() >= self._next.get(stage, 0.0)

    def look(self, attempt: Attempt, context: EpochContext) -> None:
        """Raise `RowsTouched` where rows have gone that a stage in quarantine reads, and it was not tried in this epoch."""
        left = (f.stage for f in attempt.left if f.stage not in attempt.tried and not f.lost)
        found = {s for s in left if self._is_touched(s, context)}
        self._waiting |= found
        ready = frozenset(s for s in found if self._is_ready(s))
        if ready:
            raise RowsTouched(ready)

    def _is_touched(self, stage: str, context: EpochContext) -> bool:
        for name in self.isolation.outside(stage):
            delta = context.deltas.get(name)
            if delta is None or delta.is_empty:
                continue
            if name in context.fresh or (
                not context.relations[name].append_only and any(b.num_rows for b in delta.where(going, [WEIGHT]))
            ):
                return True
        return False

    def committed(self, attempt: Attempt, clock: datetime, seconds: float, clocks: Clocks) -> None:
        """An epoch was committed by this attempt, after so many seconds of all attempts at it; it left the inputs' clocks so."""
        self.failed, self.clocks = attempt.left, clocks
        stages = {f.stage for f in self.failed}
        tried = attempt.tried - (attempt.healing & attempt.cordon.blocked)
        self._waiting = {s for s in self._waiting if s in stages} - tried
        for stage in stages:
            if stage in tried or stage not in self._clocks:
                self._next[stage] = time.monotonic() + self.pause * seconds
                self._clocks[stage] = microseconds(clock)


NOTHING: Mapping[str, Rows] = {}


def _is_in(schema: pa.Schema, field: pa.Field) -> bool:
    return field.name in schema.names and schema.field(field.name).type == field.type


class Healing:
    """The relations that one attempt computes anew, in the epoch's transaction."""

    def __init__(
        self,
        cordon: Cordon,
        empty: Collection[str],
        storage: Storage,
        compute: Compute,
        isolation: Isolation,
        missed: Missed,
        former: Mapping[str, Rows] = NOTHING,
        continued: Collection[str] = frozenset(),
    ):
        """Clears them, and holds the old rows of those whose changes somebody is told; `empty` ones have none.

        `former` rows are those of relations that a changed script computes anew, and of which `continued` ones go on to tell.
        """
        self._former, self._continued = former, continued
        self._compute, self._fresh, self._resumed = compute, cordon.fresh, cordon.resumed
        self._missed, self._isolation = missed, isolation
        stages = isolation.pipeline.stages
        told = {
            r.relation for s in stages if emits_changes(s) and s.output not in cordon.blocked for r in s.slots
        } & cordon.fresh
        self._old = {n: compute.keep(storage.look_up(n, None, None)) for n in told - set(empty)}
        for name in cordon.fresh - set(empty):
            if storage.is_arranged(name) or storage.is_served(name):
                storage.clear(name)

    def seen_by(self, stage: Stage, context: EpochContext) -> EpochContext:
        """What a stage sees of the epoch: one that resumes what it has missed, one that tells of changes what differs, not all rows."""
        if stage.output in self._resumed:
            context = self._resuming(stage, context)
        read = {s.relation for s in stage.slots}
        healed = read & self._fresh if emits_changes(stage) else set()
        old = self._old if stage.output not in self._continued else {**self._old, **self._former}
        changes = {
            n: self._difference(n, old[n], context) for n in healed | (read & old.keys() & self._former.keys()) if n in old
        }
        if not changes:
            return context
        return replace(context, deltas={**context.deltas, **changes})

    def _resuming(self, stage: Stage, context: EpochContext) -> EpochContext:
        since, before = self._resumed[stage.output]
        missed = self._missed.names.intersection(s.relation for s in stage.slots)
        changes = {n: self._missed.since(n, since, context.deltas.get(n)) for n in missed}
        deltas = {n: rows for n, rows in (context.deltas | changes).items() if rows is not None}
        bounds = bounds_by_input(self._isolation.catalog, Clocks.of_document(before))
        limits = final_results_below(self._isolation.pipeline, bounds.__getitem__)
        return replace(context, deltas=deltas, final_results=limits, resumed=True)

    def _difference(self, name: str, old: Rows, context: EpochContext) -> Rows:
        new = context.deltas.get(name)
        wanted = old.schema.names if new is None else [n for n in old.schema.names if _is_in(new.schema, old.schema.field(n))]
        schema = pa.schema([old.schema.field(n) for n in wanted])
        relation = context.relations[name]
        hidden = [c.name for c in relation.schema if c.hidden] if name in self._former else []
        arranged = Arranged(name, schema, (), (), (), frozenset((*relation.silent, *hidden)))
        found = Arrangement(arranged, lambda run: run, self._compute.memory.chunk)
        found.append(old.batches(wanted))
        rows = () if new is None else new.batches(wanted)
        return self._compute.keep(weighted_stream(schema, found.replace(None, None, rows)))
