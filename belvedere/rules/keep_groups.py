"""Groups kept without looking at their old rows: accumulator columns, and first rows.

Source: keeping more first rows than are shown, so that all rows are seldom read again: Yi, Yu, Yang, Xia, Chen, 'Efficient maintenance of
materialized top-k views', ICDE 2003.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.engine.relation import Relation
from belvedere.plan.expressions import column
from belvedere.plan.nodes import Aggregate, Node, Project, Scan, TopK, Union
from belvedere.plan.ties import tie_order
from belvedere.rules.builder import Builder, Draft, Part
from belvedere.rules.facts import Partition, base_scan
from belvedere.rules.keep_plain import keep_whole
from belvedere.rules.merge.accumulate import accumulate, state_of
from belvedere.rules.pipeline import OWN, STATE, Rule, Stage
from belvedere.rules.rewrite import carry, replace_node
from belvedere.schema import has_map

MORE = 1_000
"""So many rows are kept beyond those that a view of first rows shows, at least."""
MANY = 10_000
"""Views that show more first rows than these are recomputed whole where rows go: the driver puts them in order by itself."""


def keep_merge(builder: Builder, plan: Node, top: Aggregate, partition: Partition, part: Part) -> Relation | None:
    """An aggregate kept as accumulator columns in a relation of its own; None where some aggregate or key cannot be."""
    if any(has_map(k.type) for k in top.keys):
        return None  # Spark groups by maps, and does not compare them: old and new groups could not meet
    grows = builder.grows(top.input)
    kept = [accumulate(i, top.input.schema, grows) for i in top.aggregates]
    if not all(kept):
        return None
    settled = builder.settle(top.input, part.owner)
    source, slots = builder.delta_slots(settled)
    slots = builder.hash_changes(settled, slots, partition)
    state = state_of(top, tuple(a for a in kept if a is not None))
    name = f"{part.name}{STATE}"
    relation = Relation(name, state.schema, stored=True)
    builder.drafts[name] = Draft(relation)
    builder.drafts[name].path(tuple(column(i.name) for i in top.keys), partition.types)
    whole = replace_node(plan, top, Project(Scan("state", state.schema), state.results))
    whole, names = carry(
        whole, next(n for n in whole.walk() if isinstance(n, Project) and n.items == state.results), partition.items
    )
    by = ", ".join(i.name for i in top.keys) or "one group"
    reason = f"accumulators by {by}" + (", as rows only arrive" if grows else "")
    partial = Aggregate(source, top.keys, state.partials)
    stage = Stage(part.name, Rule.MERGE, whole, slots, None, part.owner, reason, state=name, partial=partial, merge=state.merge)
    result = builder.emit(stage, False, part.view)
    path = builder.drafts[part.name].path(tuple(column(n) for n in names), partition.types)
    builder.stages[-1] = replace(stage, path=path)
    return result


def keeps_top(builder: Builder, top: TopK) -> bool:
    """Whether the first rows of what only grows can be kept by themselves: no row below them will ever be needed."""
    chosen = builder.options.top and top.limit is not None and not top.offset
    return chosen and base_scan(top.input) is not None and builder.grows(top.input)


def keep_top(builder: Builder, plan: Node, top: TopK, partition: Partition, part: Part) -> Relation:
    """The first rows per key of an input that only grows: its own output is all the state it needs."""
    if plan is not top:
        first = builder.shared(top, part.owner)
        above = replace_node(plan, top, Scan(first.name, first.schema))
        return builder.maintain(above, part)
    source, slots = builder.delta_slots(top.input)
    slots = builder.hash_changes(top.input, slots, partition)
    ordered = top.order + tie_order(top)  # a union has no key to break ties by
    both = replace(top, input=Union((source, Scan(OWN, top.schema))), order=ordered)
    by = f" by {', '.join(top.partition)}" if top.partition else ""
    reason = f"the first {top.limit}{by}: rows only arrive, so no other is ever needed"
    stage = Stage(part.name, Rule.TOP, both, slots, None, part.owner, reason)
    relation = builder.emit(stage, False, part.view, schema=top.schema)  # new and kept rows are apart: the key stays
    path = builder.drafts[part.name].path(partition.output, partition.types)
    builder.stages[-1] = replace(stage, path=path)
    return relation


def keep_first(builder: Builder, plan: Node, top: TopK, part: Part) -> Relation:
    """The first rows of all, from a stored few: no more than the view shows where rows only arrive, else some to follow them."""
    shown = top.offset + (top.limit or 0)
    whole = replace(top, limit=shown, offset=0)
    if keeps_top(builder, whole):
        if not top.offset:
            return keep_top(builder, plan, top, Partition(((),), (), ()), part)
        first = builder.shared(whole, part.owner)
    elif shown > MANY:
        return keep_whole(builder, plan, top, part)
    else:
        first = _keep_more(builder, top, shown, Part(builder.fresh(part.owner), part.owner, None))
    few = replace(top, input=Scan(first.name, first.schema))
    return keep_whole(builder, replace_node(plan, top, few), few, part)


def _keep_more(builder: Builder, top: TopK, shown: int, part: Part) -> Relation:
    """At least the rows that are shown, and at most as many more. No other view has this relation: how many there are is its own."""
    slots, operator = builder.slots(top, None, part.owner)
    more = max(shown, MORE)
    kept = replace(top, input=operator.inputs[0], limit=shown + more, offset=0)
    reason = f"the first {shown} and up to {more} that follow: all rows are read when fewer than {shown} are left"
    return builder.emit(Stage(part.name, Rule.FIRST, kept, slots, None, part.owner, reason, least=shown), False, None)
