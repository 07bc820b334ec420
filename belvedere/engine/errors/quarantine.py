"""Quarantine: a failed stage and all its readers stay at their last good epoch, while the other stages continue.

In: the pipeline, the failed stages. Out: the relations that an epoch does not touch, and the way to recover: stages
whose rows are stored are recomputed, the others resume with the changes they missed. The engine decides when to retry,
and what to write; nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import OnError
from belvedere.engine.change.fingerprints import definition_fingerprints
from belvedere.engine.change.lost_rows import lost_rows
from belvedere.engine.change.table_diff import with_forgotten
from belvedere.engine.errors.failed_stages import Failed
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import name_in_script
from belvedere.engine.stage import Stage
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.plan.operators.nodes import Scan

CODE = "B7045"


class StageFailure(BelvedereError):
    """Raised if a row, or the number of rows, makes a stage's own expressions fail.

    A retry with these rows would fail again.
    """

    def __init__(self, output: str, diagnostic: Diagnostic):
        super().__init__(diagnostic)
        self.output = output


@dataclass(frozen=True)
class Cordon:
    """Relations that one attempt at an epoch does not touch (`blocked`), and those it recomputes (`fresh`; `restored`
    ones from their own states).

    `resumed` relations process their missed changes: each with the first missed epoch, and the inputs' clocks before
    it.
    """

    blocked: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    resumed: Mapping[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Isolation:
    """Isolation of the stages of one pipeline, by their inputs."""

    catalog: Catalog
    pipeline: Pipeline

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprints of all relations."""
        return definition_fingerprints(self.pipeline)

    def downstream(self, stage: str) -> frozenset[str]:
        """Return a stage's output with its states, and those of all stages that read it."""
        found = {stage}
        for s in self.pipeline.stages:
            if s.output in found or found.intersection(r.relation for r in s.slots):
                found |= {s.output, *s.states}
        return frozenset(found)

    def cordon_of(self, failed: Iterable[Failed], healing: Collection[str]) -> Cordon:
        """Return the relations to omit and to recompute if the stages `healing`, among the failed ones, are retried."""
        parts = {f.stage: self.downstream(f.stage) for f in failed}
        blocked = frozenset().union(*(p for s, p in parts.items() if s not in healing))
        known = {f.stage: f for f in failed}
        requested = frozenset().union(*(p for s, p in parts.items() if s in healing and not known[s].resumes)) - blocked
        fresh, restored = self.rebuilt(requested)
        resumed: dict[str, tuple[int, Mapping[str, Any]]] = {}
        for one in sorted(known.values(), key=lambda f: f.since, reverse=True):  # the earliest one counts
            if one.resumes and one.stage in healing:
                resumed |= dict.fromkeys(parts[one.stage] - blocked - fresh, (one.since, one.before))
        return Cordon(blocked, fresh - blocked, restored - blocked, resumed)

    def missing(self, failed: Iterable[Failed]) -> frozenset[str]:
        """Return the relations whose changes are kept for stages that resume."""
        return frozenset().union(*(self.outside(f.stage) for f in failed if f.resumes and not f.lost))

    def waiting(self, failed: Iterable[Failed]) -> frozenset[str]:
        """Return the relations from which no row may be removed, since resuming stages need the rows as they were."""
        return frozenset().union(
            *(self.downstream(f.stage) | self.outside(f.stage) for f in failed if f.resumes and not f.lost)
        )

    def rebuilt(self, requested: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return the relations to recompute for these relations.

        Relations that emit changes receive the differences instead.
        """
        if not requested:
            return frozenset(), frozenset()
        tellers = frozenset(s.output for s in self.pipeline.stages if emits_changes(s))
        forgetful = frozenset(n for n, r in self.pipeline.relations.items() if r.loses_rows)
        fresh, restored = with_forgotten(self.pipeline, requested - tellers, forgetful)
        return fresh - tellers, restored - tellers

    def served(self, relations: frozenset[str]) -> list[str]:
        """Return the public ids behind these relations, including those that the database computes."""
        found = [i for i, name in self.pipeline.served.items() if name in relations]
        for id_, plan in self.pipeline.at_read.items():
            if {n.relation for n in plan.walk() if isinstance(n, Scan)} & relations:
                found.append(id_)
        return found

    def outside(self, stage: str) -> frozenset[str]:
        """Return the outside relations that the stage, and its readers, read."""
        inside = self.downstream(stage)
        return frozenset(r.relation for s in self.pipeline.stages if s.output in inside for r in s.slots) - inside

    def follows_clock(self, stage: str) -> bool:
        """Return whether time alone may remove the row on which the stage fails."""
        inside = self.downstream(stage)
        return any(s.reads_clock for s in self.pipeline.stages if s.output in inside)

    def is_allowed(self, stage: str) -> bool:
        """Return whether the script allows the stage to be in quarantine, by its setting for the view or for views that
        use a private one."""
        made = next(s for s in self.pipeline.stages if s.output == stage)
        subscription = self.catalog.subscriptions.get(made.owner)
        owner, said = made.owner if subscription is None else subscription.view, self.catalog.hints.on_error
        if made.is_input:
            return False
        shown = [i for i in self.served(self.downstream(stage)) if i in self.catalog.views and i in self.catalog.public]
        is_private = owner in self.catalog.views and owner not in self.catalog.public
        return all(said.get(i) is OnError.QUARANTINE for i in (shown if is_private and shown else [owner]))

    def why_not(self, stage: str) -> str | None:
        """Return why the stage cannot be recomputed and must resume with its missed changes, or None if it can be
        recomputed."""
        made = {s.output: s for s in self.pipeline.stages}
        if emits_changes(made[stage]):
            return "it continues after its last event"
        fresh, restored = self.rebuilt(self.downstream(stage))
        for name in fresh:
            if name in made and not made[name].rebuilds:
                return (
                    f'"{name_in_script(name)}" depends on the arrival times of its rows: it cannot be '
                    "recomputed from stored rows"
                )
        for _, error in lost_rows(self.catalog, self.pipeline, fresh, restored, ()):
            found = error.diagnostics[0]
            return found.reason or found.message
        return None

    def resumable(self, failed: Iterable[Failed]) -> frozenset[str]:
        """Return the relations in quarantine that belong to this pipeline and resume with the changes kept for them."""
        known = {f.fingerprint for f in failed if f.resumes and not f.lost}
        stages = (s.output for s in self.pipeline.stages if self.fingerprints[s.output] in known) if known else ()
        return frozenset().union(*map(self.downstream, stages))

    def still(self, failed: Iterable[Failed], unfilled: Collection[str]) -> tuple[Failed, ...]:
        """Return the failed stages that are still stages of the script, under any name.

        `unfilled` relations have no row yet.
        """
        outputs = [s.output for s in self.pipeline.stages]
        found = []
        for one in failed:
            same = [n for n in outputs if self.fingerprints[n] == one.fingerprint]
            for stage in [one.stage] if one.stage in same else same:
                shown = self.served(self.downstream(stage))
                good = {i: None if self.pipeline.served.get(i, i) in unfilled else one.good.get(i) for i in shown}
                found.append(replace(one, stage=stage, good=good))
        return tuple(found)


def emits_changes(stage: Stage) -> bool:
    """Return whether the stage emits changes (events, history).

    It then continues after its last event, and is never recomputed.
    """
    return stage.is_result and not stage.is_input


def failure_text(failed: Failed) -> str:
    """Return a text for people about a view in quarantine: since when, why, which epoch is shown, and a remedy."""
    others = [n for n in _names(failed) if n != name_in_script(failed.owner)]
    known = [e for e in failed.good.values() if e is not None]
    held = f"shows epoch {min(known)}" if known else "has no rows yet"
    heals = "It recovers when the row is deleted or replaced, or with a corrected script"
    if failed.resumes:
        heals = (
            f"Missed changes are kept. {heals}"
            if not failed.lost
            else f"It recovers only with a corrected script: {failed.lost}"
        )
    behind = f", and so are the views that read it: {', '.join(others)}" if others else ""
    why = ": ".join(filter(None, (failed.reason or failed.message, failed.detail)))
    hint = failed.hint or "correct the row or the script"
    state = f"is in quarantine since epoch {failed.since} and {held}{behind}"
    return f'{CODE}: "{name_in_script(failed.owner)}" {state}: {why}; {hint}. {heals}'


def healing_text(failed: Failed) -> str:
    """Return a text for people about a view that is no longer in quarantine."""
    others = [n for n in _names(failed) if n != name_in_script(failed.owner)]
    behind = f", with {', '.join(others)}" if others else ""
    return f'"{name_in_script(failed.owner)}" is out of quarantine: it is up to date{behind}'


def _names(failed: Failed) -> list[str]:
    return list(dict.fromkeys(name_in_script(n) for n in failed.good if not name_in_script(n).startswith("_")))
