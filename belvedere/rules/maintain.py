"""Choose how every view is kept: catalog -> pipeline.

In: a catalog whose views' plans carry their keys. Out: relations and stages. Views that are private and linear are inlined;
every nonlinear operator becomes a stage whose output is stored, with the linear operators above it in the same stage. An
operator's input is looked up in the stored relation below it, through the linear chain between; where there is none (a
private stream, a union), the chain's result is stored for it. Nothing is run here.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.catalog import Catalog
from belvedere.engine.relation import Relation
from belvedere.plan.keys import item_of
from belvedere.plan.nodes import Aggregate, Distinct, Filter, Join, JoinKind, Node, Scan, TopK, Values, Window
from belvedere.plan.time_nodes import Emit, InOrder, TimeWindow
from belvedere.plan.window_by import WindowBlock
from belvedere.rules.builder import Builder, Part
from belvedere.rules.clock_filter import split_clock_filter
from belvedere.rules.facts import is_linear, needs_clock, partition_of
from belvedere.rules.frames.keep_frames import keep_frames
from belvedere.rules.grouping_sets import as_aggregates, as_one_aggregate
from belvedere.rules.keep_existence import keep_existence
from belvedere.rules.keep_groups import keep_first, keep_merge, keep_top, keeps_top
from belvedere.rules.keep_plain import keep_join, keep_keyed, keep_linear, keep_whole
from belvedere.rules.keep_sessions import keep_sessions, sessions_end
from belvedere.rules.keep_timed import keep_clock, keep_emission
from belvedere.rules.merge.accumulate import accumulate
from belvedere.rules.offsets import without_first
from belvedere.rules.options import Options
from belvedere.rules.outer_joins import (
    OUTER,
    can_split,
    can_split_existence,
    split_existence,
    split_outer,
    with_certain_row,
)
from belvedere.rules.pipeline import Pipeline
from belvedere.rules.rewrite import replace_node
from belvedere.rules.share import share_joins
from belvedere.rules.window_by.keep_windows import keep_reach, keep_windows, reaches_part, settling_of, with_stored_keys


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
    plain = _rewritten(builder, top, part)
    if plain is not None:
        return builder.maintain(replace_node(plan, top, plain), part)
    options = builder.options
    if options.settle and isinstance(top, WindowBlock) and (settling := settling_of(builder, top)) is not None:
        return keep_windows(builder, plan, top, settling, part)
    if isinstance(top, TimeWindow) and sessions_end(builder, top):
        return keep_sessions(builder, plan, top, part)
    if isinstance(top, TopK) and options.top and top.limit is not None and not (top.partition or needs_clock(top)):
        return keep_first(builder, plan, top, part)
    partition = partition_of(top)
    if isinstance(top, TopK) and partition is not None and keeps_top(builder, top):
        return keep_top(builder, plan, top, partition, part)
    if isinstance(top, Aggregate) and options.merge and partition is not None:
        merged = keep_merge(builder, plan, top, partition, part)
        if merged is not None:
            return merged
    if isinstance(top, Join) and options.join and (joined := _joined(builder, plan, top, part)) is not None:
        return joined
    if isinstance(top, WindowBlock) and options.ranges and (reached := _reached(builder, plan, top, part)) is not None:
        return reached
    if isinstance(top, Window):
        return _framed(builder, plan, top, part)
    if partition is None:
        return keep_whole(builder, plan, top, part)
    return keep_keyed(builder, plan, top, partition, part)


def _reached(builder: Builder, plan: Node, top: WindowBlock, part: Part) -> Relation | None:
    """WINDOW BY by the windows that a change can reach; None where these are not told from the others."""
    stored = with_stored_keys(builder, top, part)
    if stored is not None:
        return builder.maintain(replace_node(plan, top, stored), part)
    return keep_reach(builder, plan, top, part) if reaches_part(builder, plan, top) else None


def _framed(builder: Builder, plan: Node, top: Window, part: Part) -> Relation:
    """Window functions by the rows that a change reaches, else key by key, or whole."""
    framed = keep_frames(builder, plan, top, part) if builder.options.ranges else ""
    if isinstance(framed, Relation):
        return framed
    partition = partition_of(top)
    if partition is None:
        return keep_whole(builder, plan, top, part, framed)
    return keep_keyed(builder, plan, top, partition, part, framed)


def _joined(builder: Builder, plan: Node, top: Join, part: Part) -> Relation | None:
    """A join by the changes of its sides; None where it is kept key by key, or whole."""
    if top.kind is JoinKind.INNER and not needs_clock(top):
        return keep_join(builder, plan, top, part)
    return keep_existence(builder, plan, top, part)


def _rewritten(builder: Builder, top: Node, part: Part) -> Node | None:
    """Other operators of the same meaning that are kept at less cost; None where there are none."""
    options = builder.options
    if isinstance(top, Distinct) and options.merge:
        return Aggregate(top.input, tuple(item_of(c) for c in top.schema), ())
    if isinstance(top, TopK) and options.top and options.join:
        return without_first(builder, top)
    if isinstance(top, Aggregate) and top.grouping_id and options.sets and not needs_clock(top):
        grows = builder.grows(top.input)
        mergeable = options.merge and all(accumulate(i, top.input.schema, grows) for i in top.aggregates)
        return as_one_aggregate(top) if mergeable else as_aggregates(top)
    if isinstance(top, WindowBlock) and top.over:
        settled = top.with_inputs(tuple(builder.settle(i, part.owner) for i in top.inputs))
        return None if settled == top else settled
    if isinstance(top, Join) and options.join and top.kind in OUTER:
        inner = with_certain_row(builder, top)
        if inner is not top:
            return inner
        if can_split(top):
            return split_outer(builder, top, part.owner)
    if isinstance(top, Join) and options.join and can_split_existence(builder, top):
        return split_existence(builder, top, part.owner)
    return None
