"""Window functions with frames that end, or grow: a change touches the rows around it, or behind it, not all of its partition."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.plan.expressions import column
from belvedere.plan.keys import carry_keys, item_of, keep_columns
from belvedere.plan.nodes import Filter, Item, Node, Scan, Window
from belvedere.rules.builder import Builder, Part
from belvedere.rules.facts import Partition, base_scan, needs_clock
from belvedere.rules.frames.frames import Frames, frames_of
from belvedere.rules.frames.growing import Growth, growth_of
from belvedere.rules.pipeline import Following, Rule, Stage
from belvedere.rules.rewrite import carry, passes_key, push_down, replace_node


def keep_frames(builder: Builder, plan: Node, top: Window, part: Part) -> Relation | str:
    """Key by key with less than all rows of a key; why that cannot be done."""
    frames = frames_of(top, builder.options.grow)
    if isinstance(frames, str):
        return frames
    if needs_clock(top):
        return "it reads now()"
    if not _counts_as_stored(builder, top.input, frames):
        state = builder.shared(carry_keys(top.input), part.owner)
        below = keep_columns(Scan(state.name, state.schema), top.input.schema.names)
        plan, top = _over(plan, top, below)
    if not _keeps_rows(builder, plan, top, frames):
        return "its rows are not told apart by the key of the rows below"
    if not frames.grows:
        return _keep(builder, plan, top, part, frames, None)
    filtered = any(isinstance(n, Filter) for n in _above(plan, top))
    if filtered and frames.partition:  # the first rows of many partitions: all results would be stored for few
        return "a condition on its results leaves rows out"
    growth = growth_of(top)
    if isinstance(growth, str):
        return growth
    if filtered:  # the row before a change might not pass
        all_rows = builder.shared(top, part.owner)
        return builder.maintain(replace_node(plan, top, Scan(all_rows.name, all_rows.schema)), part)
    return _keep(builder, plan, top, part, frames, growth)


def _above(plan: Node, top: Node) -> list[Node]:
    """The chain above an operator."""
    found: list[Node] = []
    while plan is not top:
        found.append(plan)
        (plan,) = plan.inputs
    return found


def _keep(builder: Builder, plan: Node, top: Window, part: Part, frames: Frames, growth: Growth | None) -> Relation:
    exprs = tuple(column(n) for n in frames.partition)
    partition = Partition((exprs,), exprs, tuple(top.input.schema[n].type for n in frames.partition))
    slots, operator = builder.slots(top if growth is None else growth.window, partition, part.owner)
    known = () if growth is None else (frames.order, *growth.known)
    kept: tuple[Item, ...] = tuple(item_of(operator.schema[n]) for n in known)
    whole, names = carry(replace_node(plan, top, operator), operator, (*partition.items, *kept))
    own, behind = names[: len(exprs)], names[len(exprs) :]
    order, *stored = (e.name for e in push_down(top.input, (column(frames.order), *exprs)))
    stage = Stage(part.name, Rule.KEYED, whole, slots, None, part.owner, _said(frames))
    relation = builder.emit(stage, False, part.view)
    path = builder.drafts[part.name].path(tuple(column(n) for n in own), partition.types)
    following = None
    if growth is not None:
        rows = replace_node(whole, operator, growth.following(operator.inputs[0], slots[0].name))
        last = tuple(zip(behind[1:], growth.last, strict=True))
        number = behind[1 + growth.known.index(growth.number)]
        following = Following(rows, behind[0], number, own, last)
        builder.span(part.name, path, behind[0])
        silent = tuple(n for n in behind if n not in plan.schema.names)
        draft = builder.drafts[part.name]
        draft.relation = relation = replace(draft.relation, silent=silent)
    placed = replace(frames, partition=tuple(stored), order=order)
    builder.stages[-1] = replace(stage, path=path, frames=placed, following=following)
    builder.span(slots[0].relation, slots[0].path, order)
    return relation


def _counts_as_stored(builder: Builder, below: Node, frames: Frames) -> bool:
    """Whether the rows of a stored relation are found below, and so many of them in a row as the functions see.

    Rows that a filter takes out are stored all the same: a frame of so many rows reaches beyond so many stored ones.
    """
    base = base_scan(below)
    if base is None or not builder.drafts[builder.relation_of_scan(base)].relation.is_state:
        return False
    by_rows = frames.rows_below or frames.rows_above
    return not (by_rows and any(isinstance(n, Filter) for n in below.walk()))


def _over(plan: Node, top: Window, below: Node) -> tuple[Node, Window]:
    """The same chain over another input."""
    above = replace(top, input=below)
    return replace_node(plan, top, above), above


def _keeps_rows(builder: Builder, plan: Node, top: Window, frames: Frames) -> bool:
    """Whether rows of the output have the `_key` of the stored rows that they come from, and these their place and partition."""
    base = base_scan(top.input)
    if base is None:
        return False
    own = builder.drafts[builder.relation_of_scan(base)].relation.schema
    if not passes_key(plan, top, top.input, own):
        return False
    wanted = (frames.order, *frames.partition)
    below = push_down(top.input, tuple(column(n) for n in wanted))
    given = top.input.schema
    return all(
        isinstance(e, exp.Column) and (own[e.name].type, own[e.name].nullable) == (given[n].type, given[n].nullable)
        for e, n in zip(below, wanted, strict=True)
    )


def _said(frames: Frames) -> str:
    by = f"the changed {', '.join(frames.partition)}" if frames.partition else "the sequence"
    if frames.grows:
        way = "on" if frames.grows > 0 else "down"
        return f"of {by} the rows from a change {way}, by {frames.order}: they continue the results of the row before them"
    return f"of {by} the rows whose frames hold a change, by {frames.order}"
