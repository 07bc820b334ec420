"""Shared parts of the stages of SPL windows.

Their rows are append-only; they leave when windows evict them, not when bounds pass them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from belvedere.engine.relation import Relation, Slot, name_in_script
from belvedere.engine.stage import BoundsNow, Stage
from belvedere.errors import fail
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.plan_text import plan_text
from belvedere.rules.builder import Builder


@dataclass(frozen=True)
class ArrivingStage(Stage):
    """A stage over append-only rows. The rows in its windows have no bounds of event time."""

    rebuilds = False

    @property
    def definition(self) -> tuple[str, ...]:
        return (plan_text(self.plan),)

    def bounds(self, inputs: Known, relations: Mapping[str, Bounds]) -> Bounds:
        return {}

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return {}

    def reads_from(self, slot: Slot, now: BoundsNow) -> Bounds:
        return now.relations[slot.relation]


def check_that_rows_arrive(builder: Builder, slots: tuple[Slot, ...], owner: str, does: str) -> None:
    """Raise B5014 if rows of the slots can change or be deleted. `does` describes what the view does with them."""
    if builder.only_grow(slots):
        return
    view = builder.catalog.views.get(owner)
    message = f'"{name_in_script(owner)}" {does} over rows that change: SPL windows need append-only rows'
    raise fail(
        "B5014", message, span=view.span if view else None, hint="read a stream, or a view that is a SELECT STREAM"
    )
