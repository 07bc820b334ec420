"""Attempts at an epoch, and the stages that failed in them: which stages an attempt omits or retries, and what follows
from its failure.

In: the stages that failed so far, the failure of an attempt. Out: the next attempt, until one succeeds. A stage in
quarantine is retried in the first epoch of a run, and in each epoch in which rows that it reads are deleted or
replaced. If views behind it depend on the clock, it is also retried once a minute. `belvedere.engine.errors.healing`
computes it then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from belvedere.engine.change.script_tables import ScriptTables
from belvedere.engine.errors.failed_stages import Failed
from belvedere.engine.errors.missed_changes import Missed
from belvedere.engine.errors.quarantine import Cordon, Isolation, StageFailure
from belvedere.engine.relation import name_in_script
from belvedere.engine.rows.epoch_rows import loses
from belvedere.engine.work import EpochContext
from belvedere.time.event_time import Clocks
from belvedere.values.instants import microseconds

CLOCK_PAUSE_MICROSECONDS = 60_000_000
"""Microseconds of the epochs' clock between two attempts to heal a stage that time alone may heal."""
PAUSE_FACTOR = 10.0
"""Pause after a failed attempt, as a multiple of its seconds."""


class RowsTouched(Exception):
    """Raised if rows that stages in quarantine read were deleted in this epoch: the epoch restarts to let them
    recover.
    """

    def __init__(self, stages: frozenset[str]):
        super().__init__(stages)
        self.stages = stages


@dataclass(frozen=True)
class Attempt:
    """One attempt at an epoch: the stages that have failed, those that it retries (`healing`), and those tried
    before."""

    failed: tuple[Failed, ...] = ()
    healing: frozenset[str] = frozenset()
    tried: frozenset[str] = frozenset()
    cordon: Cordon = field(default_factory=Cordon)

    @property
    def healed(self) -> frozenset[str]:
        """Return the stages that have recovered once this attempt has succeeded.

        A stage behind another one in quarantine was not run.
        """
        return self.healing - self.cordon.blocked

    @property
    def left(self) -> tuple[Failed, ...]:
        """Return the stages in quarantine afterwards."""
        return tuple(f for f in self.failed if f.stage not in self.healed)


@dataclass
class Quarantine:
    """The failed stages of one engine."""

    isolation: Isolation
    missed: Missed
    """The changes that they have missed."""
    failed: tuple[Failed, ...] = ()
    pause: float = PAUSE_FACTOR
    clocks: Clocks = field(default_factory=Clocks)
    """The inputs' clocks after the last epoch."""
    _waiting: set[str] = field(default_factory=set)
    """Stages to retry as soon as the pause after the last attempt is over."""
    _next: dict[str, float] = field(default_factory=dict)
    _clocks: dict[str, int] = field(default_factory=dict)
    """The epochs' clock at the last attempt of each."""

    def __post_init__(self) -> None:
        self._waiting |= {f.stage for f in self.failed}

    @classmethod
    def opened(
        cls, isolation: Isolation, missed: Missed, failed: Iterable[Failed], tables: ScriptTables, clocks: Clocks
    ) -> Quarantine:
        """Open the changes that the stages that `failed` in earlier runs have missed.

        `clocks` are the inputs' after the last epoch.
        """
        still = isolation.still(failed, tables.fresh)
        gone = missed.open(isolation.missing(still))
        lost = {f.stage for f in still if f.resumes and isolation.outside(f.stage) & gone}
        still = tuple(
            replace(f, lost=f.lost or "the changes it missed are gone") if f.stage in lost else f for f in still
        )
        filled = tables.fresh - tables.plan.waiting  # of all rows, which are re-read if they are not stored
        still = tuple(replace(f, resumes=False, lost="") if f.stage in filled else f for f in still)
        return cls(isolation, missed, still, clocks=clocks)

    def due(self, clock: datetime) -> frozenset[str]:
        """Return the stages that an epoch at this clock retries."""
        now = microseconds(clock)
        by_time = {
            f.stage
            for f in self.failed
            if now - self._clocks.get(f.stage, now) >= CLOCK_PAUSE_MICROSECONDS
            and self.isolation.follows_clock(f.stage)
        }
        lost = {f.stage for f in self.failed if f.lost}
        return frozenset(s for s in (self._waiting | by_time) - lost if self._is_ready(s))

    def try_again(self) -> None:
        """Make the next epoch retry all of them, even if they were tried recently."""
        self._waiting |= {f.stage for f in self.failed}
        self._next.clear()

    def begin(self, clock: datetime) -> Attempt:
        """Return the first attempt at an epoch."""
        return self._attempt(self.failed, self.due(clock), frozenset()) if self.failed else Attempt()

    def after(
        self, error: StageFailure | RowsTouched, attempt: Attempt, epoch: int, clock: datetime, empty: Collection[str]
    ) -> Attempt:
        """Return the attempt after a failed one, in epoch number `epoch`.

        Raises the failure if the view must not be quarantined.

        `empty` are relations that no epoch has filled.
        """
        if isinstance(error, RowsTouched):
            return self._attempt(attempt.failed, attempt.healing | error.stages, attempt.tried | error.stages)
        stage = error.output
        inside = frozenset[str]().union(*(self.isolation.downstream(s) for s in attempt.healing))
        if stage in attempt.cordon.fresh - inside:  # it was correct: it is recomputed only to let another one recover
            return self._attempt(attempt.failed, frozenset(), attempt.tried | attempt.healing)
        if not self.isolation.is_allowed(stage):
            raise error
        if any(f.stage == stage for f in attempt.failed):
            reported = (
                replace(f.reported(error.diagnostics[0]), **self._resuming(stage, f))
                for f in attempt.failed
                if f.stage == stage
            )
            failed = (*(f for f in attempt.failed if f.stage != stage), *reported)
            return self._attempt(failed, attempt.healing - {stage}, attempt.tried | {stage})
        failure = self._failure(error, attempt, epoch, clock, empty)
        return self._attempt((*attempt.failed, failure), attempt.healing, attempt.tried | {stage})

    def _failure(
        self, error: StageFailure, attempt: Attempt, epoch: int, clock: datetime, empty: Collection[str]
    ) -> Failed:
        isolation, stage, found = self.isolation, error.output, error.diagnostics[0]
        owner = next(s.owner for s in isolation.pipeline.stages if s.output == stage)
        known = {n: e for f in attempt.failed for n, e in f.good.items()}
        good: dict[str, int | None] = {}
        for id_ in isolation.served(isolation.downstream(stage)):
            is_empty = isolation.pipeline.served.get(id_, id_) in empty
            good[id_] = known[id_] if id_ in known else None if is_empty else epoch - 1
        fingerprint = isolation.fingerprints[stage]
        reported = (found.code, found.message, found.detail, found.hint)
        made = Failed(stage, fingerprint, owner, epoch, microseconds(clock), *reported, good, reason=found.reason)
        return replace(made, **self._resuming(stage, made))

    def _resuming(self, stage: str, failed: Failed) -> dict[str, Any]:
        """Return how a failed stage will heal, as fields of its record."""
        if failed.resumes or self.isolation.why_not(stage) is None:
            return {}
        return {"resumes": True, "before": self.clocks.as_document()}

    def _attempt(self, failed: tuple[Failed, ...], healing: frozenset[str], tried: frozenset[str]) -> Attempt:
        return Attempt(failed, healing, tried | healing, self.isolation.cordon_of(failed, healing))

    def _is_ready(self, stage: str) -> bool:
        return time.monotonic() >= self._next.get(stage, 0.0)

    def look(self, attempt: Attempt, context: EpochContext) -> None:
        """Raise `RowsTouched` if rows that a stage in quarantine reads were deleted, and the stage was not tried in
        this epoch."""
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
            if name in context.fresh or (not context.relations[name].append_only and loses(delta)):
                return True
        return False

    def note_missed(
        self, attempt: Attempt, context: EpochContext, explaining: Callable[[str], AbstractContextManager[None]]
    ) -> Attempt:
        """Keep the changes that stages in quarantine miss in this epoch.

        A stage whose changes cannot be kept is marked.

        `explaining` attributes errors of a relation's stage to its view.
        """
        isolation = self.isolation
        again = {f.stage for f in attempt.left if isolation.outside(f.stage) & context.whole.keys()}
        why = "its rows are re-read at the next start"
        failed = tuple(replace(f, resumes=True, lost=why) if f.stage in again else f for f in attempt.failed)
        attempt = replace(attempt, failed=failed)
        for name in sorted(isolation.missing(attempt.left)):
            readers = [f for f in attempt.left if f.resumes and name in isolation.outside(f.stage)]
            if name in attempt.cordon.fresh or (
                name in context.fresh and any(f.since < context.epoch for f in readers)
            ):
                why = f'"{name_in_script(name)}" was recomputed in the meantime'
            else:
                with explaining(name):
                    if self.missed.note(name, context.deltas.get(name), context.epoch):
                        continue
                why = (
                    f'it has missed more than {self.missed.most:,} changes of "{name_in_script(name)}", the '
                    "maximum that is kept"
                )
            lost = {f.stage for f in readers}
            failed = tuple(replace(f, lost=f.lost or why) if f.stage in lost else f for f in failed)
        return replace(attempt, failed=failed)

    def committed(self, attempt: Attempt, clock: datetime, seconds: float, clocks: Clocks) -> None:
        """Record that this attempt committed an epoch, after `seconds` of all attempts.

        `clocks` are the inputs' clocks after it.
        """
        self.failed, self.clocks = attempt.left, clocks
        self.missed.only(self.isolation.missing(attempt.left))
        stages = {f.stage for f in self.failed}
        tried = attempt.tried - (attempt.healing & attempt.cordon.blocked)
        self._waiting = {s for s in self._waiting if s in stages} - tried
        for stage in stages:
            if stage in tried or stage not in self._clocks:
                self._next[stage] = time.monotonic() + self.pause * seconds
                self._clocks[stage] = microseconds(clock)
