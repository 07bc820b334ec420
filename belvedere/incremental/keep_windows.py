"""WINDOW BY over what only arrives in time: the stored rows are those of windows that may still change."""

from __future__ import annotations

from dataclasses import replace

from belvedere.incremental.builder import Builder, Part
from belvedere.incremental.emission import unsettled_inputs
from belvedere.incremental.event_time import Clocks, bounds_by_input
from belvedere.incremental.facts import base_scan
from belvedere.incremental.pipeline import Relation, Rule, Slot, Stage
from belvedere.incremental.rewrite import inline, replace_node
from belvedere.incremental.settling import Settling
from belvedere.plan.bounds import event_time_columns
from belvedere.plan.expressions import column
from belvedere.plan.keys import carry_keys
from belvedere.plan.nodes import Node, Scan
from belvedere.plan.window_by import WindowBlock


def settling_of(builder: Builder, block: WindowBlock) -> Settling | None:
    """How rows leave the state of `block`; None where they stay: they are served, may change, come late, or have no bound."""
    if block.resume is None or block.identity is None or not builder.grows(block.inputs[0]):
        return None
    base = base_scan(block.inputs[0])
    if base is not None and builder.drafts[builder.relation_of_scan(base)].relation.is_state:
        return None
    views = builder.catalog.views
    source = inline(block.inputs[0], lambda i: views[i].plan if i in views else None)
    scanned = {n.relation for n in source.walk() if isinstance(n, Scan)}
    if scanned & unsettled_inputs(builder.catalog, builder.options.forget):
        return None
    known = bounds_by_input(builder.catalog, Clocks()).__getitem__
    return Settling(block, block.resume, source) if block.resume.column in event_time_columns(source, known) else None


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
    by = f"the changed {', '.join(top.partition)}" if top.partition else "the sequence"
    reason = f"the open windows of {by}; rows leave once their windows end below the bound on {settling.resume.column}"
    stage = Stage(part.name, Rule.WINDOWS, operator, (slot,), None, part.owner, f"{reason}; {top.found}", settling=settling)
    return builder.emit(stage, False, part.view)
