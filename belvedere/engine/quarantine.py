"""Quarantine: a stage that fails stands still with all that reads it, at its last good epoch, while the other stages go on.

In: the pipeline, the stages that have failed. Out: which relations an epoch does not touch, and which it computes anew from what is
stored, to heal them. Who tries when, and what is written, is the engine's affair; here nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from belvedere.catalog import Catalog, OnError
from belvedere.engine.failed import Failed
from belvedere.engine.lost_rows import lost_rows
from belvedere.engine.meanings import meanings
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import name_in_script
from belvedere.engine.stage import Stage
from belvedere.engine.tables import with_forgotten
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.plan.nodes import Scan

CODE = "B7045"


class StageFailure(BelvedereError):
    """A row, or the number of rows, made a stage's own expressions fail: with these rows they always will."""

    def __init__(self, output: str, diagnostic: Diagnostic):
        super().__init__(diagnostic)
        self.output = output


@dataclass(frozen=True)
class Cordon:
    """What one attempt at an epoch leaves alone (`blocked`), and what it computes anew (`fresh`; `restored` of it from own states)."""

    blocked: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Isolation:
    """How the stages of one pipeline are told apart: by what reads what."""

    catalog: Catalog
    pipeline: Pipeline

    @cached_property
    def meanings(self) -> dict[str, str]:
        """The fingerprints of all relations."""
        return meanings(self.pipeline)

    def behind(self, stage: str) -> frozenset[str]:
        """A stage's output with its states, and those of all stages that read it."""
        found = {stage}
        for s in self.pipeline.stages:
            if s.output in found or found.intersection(r.relation for r in s.slots):
                found |= {s.output, *s.states}
        return frozenset(found)

    def around(self, failed: Iterable[Failed], healing: Collection[str]) -> Cordon:
        """Where the stages `healing` of those that failed are tried again."""
        parts = {f.stage: self.behind(f.stage) for f in failed}
        blocked = frozenset().union(*(p for s, p in parts.items() if s not in healing))
        wanted = frozenset().union(*(p for s, p in parts.items() if s in healing)) - blocked
        fresh, restored = self.rebuilt(wanted)
        return Cordon(blocked, fresh - blocked, restored - blocked)

    def rebuilt(self, wanted: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """What is computed anew to have these relations anew: those that tell of changes are told what differs instead."""
        if not wanted:
            return frozenset(), frozenset()
        tellers = frozenset(s.output for s in self.pipeline.stages if tells(s))
        forgetful = frozenset(n for n, r in self.pipeline.relations.items() if r.loses_rows)
        fresh, restored = with_forgotten(self.pipeline, wanted - tellers, forgetful)
        return fresh - tellers, restored - tellers

    def served(self, relations: frozenset[str]) -> list[str]:
        """The public ids behind these relations, those that the database computes included."""
        found = [i for i, name in self.pipeline.served.items() if name in relations]
        for id_, plan in self.pipeline.at_read.items():
            if {n.relation for n in plan.walk() if isinstance(n, Scan)} & relations:
                found.append(id_)
        return found

    def outside(self, stage: str) -> frozenset[str]:
        """The relations that the stage, and what reads it, read of others."""
        inside = self.behind(stage)
        return frozenset(r.relation for s in self.pipeline.stages if s.output in inside for r in s.slots) - inside

    def follows_clock(self, stage: str) -> bool:
        """Whether time alone may take away the row that it fails on."""
        inside = self.behind(stage)
        return any(s.reads_clock for s in self.pipeline.stages if s.output in inside)

    def is_allowed(self, stage: str) -> bool:
        """Whether the script lets it be in quarantine: what it says of the view, or of all views that a private one is for."""
        made = next(s for s in self.pipeline.stages if s.output == stage)
        owner = made.owner
        said = self.catalog.on_error
        if owner in self.catalog.views and owner not in self.catalog.public and owner not in said:
            shown = [i for i in self.served(self.behind(stage)) if i in self.catalog.views]
            return bool(shown) and all(said.get(i) is OnError.QUARANTINE for i in shown) and self.why_not(stage) is None
        return said.get(owner) is OnError.QUARANTINE and self.why_not(stage) is None

    def why_not(self, stage: str) -> str | None:
        """Why the stage could not be healed, so that its failure has to end the run; None where it can be."""
        made = {s.output: s for s in self.pipeline.stages}
        if made[stage].is_input or tells(made[stage]):
            return "it is no view"
        fresh, restored = self.rebuilt(self.behind(stage))
        for name in fresh:
            if name in made and not made[name].rebuilds:
                return f'"{name_in_script(name)}" depends on when its rows came: it cannot be computed again from stored rows'
        for _, error in lost_rows(self.catalog, self.pipeline, fresh, restored, ()):
            found = error.diagnostics[0].message
            return found.partition(", but ")[2] or found
        return None

    def still(self, failed: Iterable[Failed], unfilled: Collection[str]) -> tuple[Failed, ...]:
        """Those that failed and are still stages of the script, under whatever name; `unfilled` relations have no row yet."""
        outputs = [s.output for s in self.pipeline.stages]
        found = []
        for one in failed:
            same = [n for n in outputs if self.meanings[n] == one.meaning]
            for stage in [one.stage] if one.stage in same else same:
                shown = self.served(self.behind(stage))
                good = {i: None if self.pipeline.served.get(i, i) in unfilled else one.good.get(i) for i in shown}
                found.append(replace(one, stage=stage, good=good))
        return tuple(found)


def tells(stage: Stage) -> bool:
    """Whether it tells of changes (events, history): it goes on from what it has told, and is never computed anew."""
    return stage.is_result and not stage.is_input


def told_failure(failed: Failed) -> str:
    """That a view is in quarantine, for people: since when, why, what shows which epoch, and what to do."""
    others = [n for n in _names(failed) if n != name_in_script(failed.owner)]
    known = [e for e in failed.good.values() if e is not None]
    held = f"shows epoch {min(known)}" if known else "has no rows yet"
    behind = f", and what reads it: {', '.join(others)}" if others else ""
    why = ": ".join(filter(None, (failed.message.partition(" failed: ")[2] or failed.message, failed.detail)))
    hint = failed.hint or "correct the row or the script"
    return (
        f'{CODE}: "{name_in_script(failed.owner)}" is in quarantine since epoch {failed.since} and {held}{behind}: {why}; {hint}. '
        "It heals when the row goes or is replaced, or with a corrected script"
    )


def told_healing(failed: Failed) -> str:
    """That it is no more."""
    others = [n for n in _names(failed) if n != name_in_script(failed.owner)]
    behind = f", with {', '.join(others)}" if others else ""
    return f'"{name_in_script(failed.owner)}" is out of quarantine: it is up to date{behind}'


def _names(failed: Failed) -> list[str]:
    return list(dict.fromkeys(name_in_script(n) for n in failed.good if not name_in_script(n).startswith("_")))
