"""Window functions with frames that end: a change touches the rows around it, not all of its partition."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.incremental.builder import Builder, Part
from belvedere.incremental.facts import Partition, base_scan, needs_clock
from belvedere.incremental.frames import Frames, frames_of
from belvedere.incremental.pipeline import Relation, Rule, Stage
from belvedere.incremental.rewrite import carry, push_down, replace_node
from belvedere.plan.expressions import column
from belvedere.plan.keys import carry_keys, keep_columns
from belvedere.plan.nodes import Item, Node, Scan, Window


def keep_frames(builder: Builder, plan: Node, top: Window, part: Part) -> Relation | None:
    """Key by key with less than all rows of a key; None where rows of the input and of the output are not told apart by the same key."""
    frames = frames_of(top)
    if frames is None or needs_clock(top):
        return None
    base = base_scan(top.input)
    if base is None or not builder.drafts[builder.relation_of_scan(base)].relation.is_state:
        state = builder.shared(carry_keys(top.input), part.owner)
        below = keep_columns(Scan(state.name, state.schema), top.input.schema.names)
        plan, top = _over(plan, top, below)
    if not _keeps_rows(builder, plan, top, frames):
        return None
    exprs = tuple(column(n) for n in frames.partition)
    partition = Partition((exprs,), exprs, tuple(top.input.schema[n].type for n in frames.partition))
    slots, operator = builder.slots(top, partition, part.owner)
    extra = tuple(Item(f"_by{n}", e, t) for n, (e, t) in enumerate(zip(exprs, partition.types, strict=True)))
    whole, names = carry(replace_node(plan, top, operator), operator, extra)
    order, *own = (e.name for e in push_down(top.input, (column(frames.order), *exprs)))
    stage = Stage(part.name, Rule.KEYED, whole, slots, None, part.owner, _said(frames))
    relation = builder.emit(stage, False, part.view)
    path = builder.drafts[part.name].path(tuple(column(n) for n in names), partition.types)
    stored = replace(frames, partition=tuple(own), order=order)
    builder.stages[-1] = replace(stage, path=path, frames=stored)
    builder.span(slots[0].relation, slots[0].path, order)
    return relation


def _over(plan: Node, top: Window, below: Node) -> tuple[Node, Window]:
    """The same chain over another input."""
    above = replace(top, input=below)
    return replace_node(plan, top, above), above


def _keeps_rows(builder: Builder, plan: Node, top: Window, frames: Frames) -> bool:
    """Whether a row of the output has the `_key` of the row of the stored relation that it comes from."""
    base, key = base_scan(top.input), top.input.schema.key
    if base is None or key is None or base_scan(replace_node(plan, top, Scan("top", top.schema))) is None:
        return False
    own = builder.drafts[builder.relation_of_scan(base)].relation.schema
    wanted = (*key, frames.order, *frames.partition)
    below = push_down(top.input, tuple(column(n) for n in wanted))
    if not all(isinstance(e, exp.Column) for e in below) or tuple(e.name for e in below[: len(key)]) != own.key:
        return False
    given = top.input.schema
    if any(
        (own[e.name].type, own[e.name].nullable) != (given[n].type, given[n].nullable)
        for e, n in zip(below, wanted, strict=True)
    ):
        return False
    outer = push_down(replace_node(plan, top, Scan("top", top.schema)), tuple(column(n) for n in plan.schema.key or ()))
    return outer == tuple(column(n) for n in key)


def _said(frames: Frames) -> str:
    by = f"the changed {', '.join(frames.partition)}" if frames.partition else "the sequence"
    return f"of {by} the rows whose frames hold a change, by {frames.order}"
