"""WINDOW BY: over what only arrives in time the open windows are kept; else those windows are found again that a change can reach."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.relation import Relation, Slot
from belvedere.plan.bounds import event_time_columns
from belvedere.plan.expressions import column
from belvedere.plan.keys import carry_keys
from belvedere.plan.nodes import Item, Node, Scan
from belvedere.plan.window_by import WindowBlock
from belvedere.rules.builder import Builder, Part
from belvedere.rules.facts import Partition, base_scan
from belvedere.rules.pipeline import STATE, Rule, Stage
from belvedere.rules.rewrite import carry, inline, push_down, replace_node
from belvedere.rules.window_by.settling import ROW, SINCE, Reach, Settling
from belvedere.schema import Column, Schema
from belvedere.time.event_time import Clocks, bounds_by_input


def settling_of(builder: Builder, block: WindowBlock) -> Settling | None:
    """How rows leave the state of `block`; None where they stay: they are served, may change, come late, or have no bound."""
    if block.resume is None or block.identity is None or not builder.grows(block.inputs[0]):
        return None
    base = base_scan(block.inputs[0])
    if base is not None and builder.drafts[builder.relation_of_scan(base)].relation.is_state:
        return None
    source = settled_source(builder, block.inputs[0], block.resume.column)
    return None if source is None else Settling(block, block.resume, source)


def settled_source(builder: Builder, node: Node, time: str) -> Node | None:
    """A plan down to the catalog's inputs; None where no bound of its column `time` says that rows will never change."""
    views = builder.catalog.views
    source = inline(node, lambda i: views[i].plan if i in views else None)
    scanned = {n.relation for n in source.walk() if isinstance(n, Scan)}
    if scanned & builder.unsettled:
        return None
    known = bounds_by_input(builder.catalog, Clocks()).__getitem__
    return source if time in event_time_columns(source, known) else None


def keep_windows(builder: Builder, plan: Node, top: WindowBlock, settling: Settling, part: Part) -> Relation:
    """The windows of the changed partitions from the last open one on; final windows and their rows are left alone."""
    if plan is not top:
        first = builder.shared(top, part.owner)
        return builder.maintain(replace_node(plan, top, Scan(first.name, first.schema)), part)
    name = builder.fresh(part.owner)
    state = builder.maintain(carry_keys(top.inputs[0]), Part(name, part.owner, None))
    draft = builder.drafts[name]
    draft.relation = replace(draft.relation, serves=top.text)  # the rows that left are missing for any other query
    types = tuple(state.schema[n].type for n in top.partition)
    slot = Slot("s0", name, draft.path(tuple(column(n) for n in top.partition), types))
    operator = top.with_inputs((Scan(slot.name, state.schema),))
    by = f"the changed {', '.join(top.by)}" if top.partition else "the sequence"
    reason = f"the open windows of {by}; rows leave once their windows end below the bound on {settling.resume.column}"
    reason += ", but for those before that later windows read" * settling.resume.looks_back
    since = _state_of_settled(builder, top, part) if settling.resume.looks_back else None
    stage = Stage(
        part.name, Rule.WINDOWS, operator, (slot,), None, part.owner, f"{reason}; {top.found}", state=since, settling=settling
    )
    return builder.emit(stage, False, part.view)


def _state_of_settled(builder: Builder, top: WindowBlock, part: Part) -> str:
    """The relation that keeps from which time on windows are not final yet: a row for each partition of which rows have left."""
    types = tuple(top.inputs[0].schema[n].type for n in top.partition)
    by = tuple(Column(f"by{n}", t) for n, t in enumerate(types))
    columns = (Column(ROW, pa.string(), nullable=False), *by, Column(SINCE, pa.int64(), nullable=False))
    draft = builder.state_of(part, STATE, Schema(columns, (ROW,)), ())
    draft.path(tuple(column(c.name) for c in by), types)
    return draft.relation.name


def with_stored_keys(builder: Builder, top: WindowBlock, part: Part) -> WindowBlock | None:
    """The operator over rows that are stored with its keys, where these are computed from those of a table; None where nothing is computed.

    What a change reaches is looked up among the rows of a key: the store has to tell its rows from those of another key of equal hash.
    """
    if top.ranges is None or top.identity is None or base_scan(top.inputs[0]) is None:
        return None
    below = push_down(top.inputs[0], tuple(column(n) for n in top.partition))
    if all(isinstance(e, exp.Column) for e in below):
        return None
    state = builder.shared(carry_keys(top.inputs[0]), part.owner)
    found = top.with_inputs((Scan(state.name, state.schema),))
    assert isinstance(found, WindowBlock)
    return found


def reaches_part(builder: Builder, plan: Node, top: WindowBlock) -> bool:
    """Whether `keep_reach` can keep it: the input's rows are stored under its key, and each result has that of the row where it starts."""
    base = base_scan(top.inputs[0])
    if top.ranges is None or top.identity is None or base is None:
        return False
    relation = builder.drafts[builder.relation_of_scan(base)].relation
    named = (*top.identity, top.ranges.column, *top.partition)
    below = push_down(top.inputs[0], tuple(column(n) for n in named))
    if not relation.is_state or not all(isinstance(e, exp.Column) for e in below):
        return False
    own = relation.schema
    given = top.inputs[0].schema
    pairs = [(own[e.name], given[n]) for e, n in zip(below, named, strict=True)]
    same = all((a.type, a.nullable) == (b.type, b.nullable) for a, b in pairs)
    chained = base_scan(replace_node(plan, top, Scan("top", top.schema))) is not None
    if not same or not chained or tuple(e.name for e in below[: len(top.identity)]) != own.key:
        return False
    outer = push_down(replace_node(plan, top, Scan("top", top.schema)), tuple(column(n) for n in plan.schema.key or ()))
    return outer == tuple(column(n) for n in top.schema.key or ())


def keep_reach(builder: Builder, plan: Node, top: WindowBlock, part: Part) -> Relation:
    """The windows that a change can reach, among those of its partition: key by key with less than all rows of a key."""
    assert top.ranges is not None
    ranges = top.ranges
    outputs = top.partition_columns
    keys = tuple(column(n) for n in top.partition)
    partition = Partition((keys,), tuple(column(c.name) for c in outputs), tuple(c.type for c in outputs))
    slots, operator = builder.slots(top, partition, part.owner)
    assert isinstance(operator, WindowBlock)
    extra = [*partition.items]
    if ranges.tumbling:
        place = top.schema[top.place_of(ranges.column)]
        extra.append(Item("_start", column(place.name), place.type, place.nullable))
    whole, names = carry(replace_node(plan, top, operator), operator, tuple(extra))
    start = names[-1] if ranges.tumbling else None
    order, *own = push_down(top.inputs[0], (column(ranges.column), *keys))
    reach = Reach(ranges, order.name, tuple(e.name for e in own), start)
    stage = Stage(part.name, Rule.KEYED, whole, slots, None, part.owner, _said(top), reach=reach)
    relation = builder.emit(stage, False, part.view)
    path = builder.drafts[part.name].path(tuple(column(n) for n in names[: len(keys)]), partition.types)
    builder.stages[-1] = replace(builder.stages[-1], path=path)
    builder.span(slots[0].relation, slots[0].path, reach.order)
    if start is not None:
        builder.span(part.name, path, start)
    return relation


def _said(top: WindowBlock) -> str:
    assert top.ranges is not None
    by = f"the changed {', '.join(top.by)}" if top.partition else "the sequence"
    since = "the last end before it"
    until = "the next start that stays one" if top.ranges.tumbling else "the end of the windows around it"
    if top.ranges.tumbling:
        since = "the last stored start before it"
    if top.ranges.labelled:
        since, until = "the last label whose window ends before it", "the first one whose window begins behind it"
    return f"of {by} the windows around the change: from {since} to {until}; {top.found}"
