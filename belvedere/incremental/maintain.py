"""Choose how every view is kept: catalog -> pipeline.

In: a catalog whose views' plans carry their keys. Out: relations and stages. Views that are private and linear are inlined;
every nonlinear operator becomes a stage whose output is stored, with the linear operators above it in the same stage. An
operator's input is looked up in the stored relation below it, through the linear chain between; where there is none (a
private stream, a union), the chain's result is stored for it. Nothing is run here.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.catalog import Catalog
from belvedere.incremental.builder import Builder, Part
from belvedere.incremental.clock_filter import split_clock_filter
from belvedere.incremental.facts import is_linear, needs_clock, partition_of
from belvedere.incremental.keep_groups import keep_merge, keep_top, keeps_top
from belvedere.incremental.keep_plain import keep_join, keep_keyed, keep_linear, keep_whole
from belvedere.incremental.keep_timed import keep_clock, keep_emission
from belvedere.incremental.keep_windows import keep_windows, settling_of
from belvedere.incremental.options import Options
from belvedere.incremental.pipeline import Pipeline, Relation
from belvedere.incremental.rewrite import replace_node
from belvedere.incremental.share import share_joins
from belvedere.plan.keys import item_of
from belvedere.plan.nodes import Aggregate, Distinct, Emit, Filter, InOrder, Join, JoinKind, Node, Scan, TopK, Values
from belvedere.plan.window_by import WindowBlock


def maintain(catalog: Catalog, options: Options | None = None) -> Pipeline:
    """Decide how each public view, and what it builds on, is kept."""
    options = options or Options()
    if options.share:
        plans = share_joins({i: v.plan for i, v in catalog.views.items()})
        catalog = replace(catalog, views={i: replace(v, plan=plans[i]) for i, v in catalog.views.items()})
    stored = _roots(catalog)
    builder = Builder(catalog, options, stored, _choose)
    for id_ in stored:
        builder.relation_of(id_)
    for id_ in dict.fromkeys(e.relation for e in catalog.exports if e.relation not in catalog.subscriptions):
        builder.changes_of(id_)
    for id_, keep in catalog.histories.items():
        builder.history_of(id_, keep)
    return builder.pipeline()


def _roots(catalog: Catalog) -> tuple[str, ...]:
    """What must be stored: public ids, observed queries, exports, and what query templates read."""
    order = (*catalog.inputs, *catalog.views, *catalog.subscriptions)
    wanted = (
        set(catalog.public)
        | set(catalog.histories)
        | {s.view for s in catalog.subscriptions.values()}
        | set(catalog.subscriptions)
    )
    wanted |= {e.relation for e in catalog.exports if e.relation in catalog.views}
    wanted |= {i for i, table in catalog.inputs.items() if table.late_of is not None}
    for template in catalog.templates.values():
        wanted |= {n.relation for n in template.plan.walk() if isinstance(n, Scan)}
    return tuple(i for i in order if i in wanted)


def _choose(builder: Builder, plan: Node, part: Part) -> Relation:
    """The rule for the first operator below the linear ones on top of `plan`: the cheapest that holds."""
    top = plan
    while is_linear(top) and len(top.inputs) == 1:
        top = top.inputs[0]
    if isinstance(top, (Scan, Values)) or is_linear(top):
        return keep_linear(builder, plan, part)
    if isinstance(top, Filter):
        split = split_clock_filter(top.condition)
        if split is not None:
            return keep_clock(builder, plan, top, split, part)
    if isinstance(top, (Emit, InOrder)):
        return keep_emission(builder, plan, top, part)
    options = builder.options
    if isinstance(top, Distinct) and options.merge:
        groups = Aggregate(top.input, tuple(item_of(c) for c in top.schema), ())
        return builder.maintain(replace_node(plan, top, groups), part)
    if builder.options.settle and isinstance(top, WindowBlock) and (settling := settling_of(builder, top)) is not None:
        return keep_windows(builder, plan, top, settling, part)
    partition = partition_of(top)
    if isinstance(top, TopK) and partition is not None and keeps_top(builder, top):
        return keep_top(builder, plan, top, partition, part)
    if isinstance(top, Aggregate) and options.merge and partition is not None:
        merged = keep_merge(builder, plan, top, partition, part)
        if merged is not None:
            return merged
    if isinstance(top, Join) and top.kind is JoinKind.INNER and options.join and not needs_clock(top):
        return keep_join(builder, plan, top, part)
    if partition is None:
        return keep_whole(builder, plan, top, part)
    return keep_keyed(builder, plan, top, partition, part)
