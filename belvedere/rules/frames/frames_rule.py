"""Frames and Running: window functions whose frames end, or grow. A change affects only the rows around or after it.

Frames: the stage recomputes the rows whose frames contain a change. Running: frames begin with the partition, and the
results of the row before a change replace all rows before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.work import Work
from belvedere.plan.expressions import column
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Filter, Item, Node, Scan, Window
from belvedere.plan.operators.project import item_of, keep_columns
from belvedere.plan.plan_properties import base_scan, needs_clock
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.rewrite import carry, passes_key, push_down, replace_node
from belvedere.rules.affected_ranges import AffectedRangeStage
from belvedere.rules.builder import Builder
from belvedere.rules.frames.affected_rows import Following, frame_neighbourhood
from belvedere.rules.frames.frames import Frames, frames_of
from belvedere.rules.frames.running_frames import RunningWindow, running_window_of
from belvedere.rules.rule import Maintain, Refusal, Rule, Site


@dataclass(frozen=True)
class FramesStage(AffectedRangeStage):
    """Stage of window functions. `frames` determines which rows of a key a change can affect."""

    frames: Frames

    rule = "frames"

    def neighbourhood(self, work: Work, delta: pa.Table) -> tuple[pa.Table, list[pa.Array]] | None:
        return frame_neighbourhood(work, delta, self.frames, self.path, None)


@dataclass(frozen=True)
class RunningStage(FramesStage):
    """Stage of window functions with growing frames. `following` computes rows from the previous row."""

    following: Following

    rule = "running"
    kind = "following"

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {**super().texts(texts), "following": texts.rows(self.following.plan, "following")}

    def neighbourhood(self, work: Work, delta: pa.Table) -> tuple[pa.Table, list[pa.Array]] | None:
        return frame_neighbourhood(work, delta, self.frames, self.path, self.following)


def _applies_frames(site: Site) -> Maintain | Refusal | None:
    if not isinstance(site.top, Window):
        return None
    frames = frames_of(site.top, RUNNING.name not in site.builder.options.off)
    if isinstance(frames, str):
        return Refusal(frames)
    if frames.grows:
        return None
    found = _stored(site, frames)
    return found if isinstance(found, Refusal) else partial(_maintain, found, frames, None)


def _applies_running(site: Site) -> Maintain | Refusal | None:
    if not isinstance(site.top, Window):
        return None
    frames = frames_of(site.top)
    if isinstance(frames, str) or not frames.grows:
        return None
    found = _stored(site, frames)
    if isinstance(found, Refusal):
        return found
    filtered = any(isinstance(n, Filter) for n in _above(found))
    if filtered and frames.partition:  # first rows of many partitions: all results would be stored to show a few
        return Refusal("a condition on its results leaves rows out")
    assert isinstance(found.top, Window)
    running = running_window_of(found.top)
    if isinstance(running, str):
        return Refusal(running)
    return (
        found.apart if filtered else partial(_maintain, found, frames, running)
    )  # the row before a change might not pass the filter


FRAMES = Rule("frames", _applies_frames)
RUNNING = Rule("running", _applies_running)


def _stored(site: Site, frames: Frames) -> Site | Refusal:
    """Return the operator over stored rows whose key identifies its results, or the reason why there are none."""
    if needs_clock(site.top):
        return Refusal("it reads now()")
    below = site.top.inputs[0]
    if not _counts_as_stored(site.builder, below, frames):
        state = site.builder.shared(carry_keys(below), site.part.owner)
        top = site.top.with_inputs((keep_columns(Scan(state.name, state.schema), below.schema.names),))
        site = replace(site, plan=site.over(top), top=top)
    if not _preserves_rows(site, frames):
        return Refusal("the key of its input does not identify its rows")
    return site


def _above(site: Site) -> list[Node]:
    """Return the chain above the operator."""
    found: list[Node] = []
    plan = site.plan
    while plan is not site.top:
        found.append(plan)
        (plan,) = plan.inputs
    return found


def _maintain(site: Site, frames: Frames, running: RunningWindow | None) -> Relation:
    builder, part, top = site.builder, site.part, site.top
    below = top.inputs[0]
    exprs = tuple(column(n) for n in frames.partition)
    partition = Partition((exprs,), exprs, tuple(below.schema[n].type for n in frames.partition))
    slots, operator = builder.slots(top if running is None else running.window, partition, part.owner)
    known = () if running is None else (frames.order, *running.known)
    continued: tuple[Item, ...] = tuple(item_of(operator.schema[n]) for n in known)
    whole, names = carry(site.over(operator), operator, (*partition.items, *continued))
    own, behind = names[: len(exprs)], names[len(exprs) :]
    order, *stored = (e.name for e in push_down(below, (column(frames.order), *exprs)))
    path = builder.path_of(part, tuple(column(n) for n in own), partition.types)
    fields = {"path": path, "frames": replace(frames, partition=tuple(stored), order=order)}
    builder.span(slots[0].relation, slots[0].path, order)
    if running is None:
        return builder.emit(site.stage(FramesStage, whole, slots, _said(frames), **fields), part)
    rows = replace_node(whole, operator, running.following(operator.inputs[0], slots[0].name))
    last = tuple(zip(behind[1:], running.last, strict=True))
    number = behind[1 + running.known.index(running.number)]
    following = Following(rows, behind[0], number, own, last)
    stage = site.stage(RunningStage, whole, slots, _said(frames), **fields, following=following)
    internal = tuple(n for n in behind if n not in site.plan.schema.names)
    relation = builder.emit(stage, part, internal=internal)
    builder.span(part.name, path, behind[0])
    return relation


def _counts_as_stored(builder: Builder, below: Node, frames: Frames) -> bool:
    """Return whether the input is a stored relation whose row numbers match those that the functions see.

    A filter does not prevent this: its rows are stored too, so a frame of n rows covers at least n stored ones.
    """
    base = base_scan(below)
    if base is None or not builder.drafts[builder.relation_of_scan(base)].relation.is_state:
        return False
    by_rows = frames.rows_below or frames.rows_above
    return not (by_rows and any(isinstance(n, Filter) for n in below.walk()))


def _preserves_rows(site: Site, frames: Frames) -> bool:
    """Return whether output rows have the `_key` of the stored rows from which they come, and these have their position
    and partition."""
    source, builder = site.top.inputs[0], site.builder
    base = base_scan(source)
    if base is None:
        return False
    own = builder.drafts[builder.relation_of_scan(base)].relation.schema
    if not passes_key(site.plan, site.top, source, own):
        return False
    requested = (frames.order, *frames.partition)
    below = push_down(source, tuple(column(n) for n in requested))
    given = source.schema
    return all(
        isinstance(e, exp.Column) and (own[e.name].type, own[e.name].nullable) == (given[n].type, given[n].nullable)
        for e, n in zip(below, requested, strict=True)
    )


def _said(frames: Frames) -> str:
    by = f"the changed {', '.join(frames.partition)}" if frames.partition else "the sequence"
    if frames.grows:
        way = "on" if frames.grows > 0 else "down"
        return (
            f"of {by} the rows from a change {way}, by {frames.order}: they continue the results of the row before them"
        )
    return f"of {by} the rows whose frames hold a change, by {frames.order}"
