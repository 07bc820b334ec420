"""What time decides: filters on now(), and rows that wait until a bound or a delay lets them out."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.relation import Relation, Slot
from belvedere.errors import fail
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.keys import carry_keys, item_of
from belvedere.plan.nodes import Expr, Filter, Item, Node, Project, Scan, Union
from belvedere.plan.time_nodes import Emit, InOrder
from belvedere.rules.builder import Builder, Draft, Part
from belvedere.rules.clock_filter import ENTER, LEAVE, ClockFilter
from belvedere.rules.emit.emission import (
    EMITTED,
    GROUPS,
    PLAIN,
    WAITING_COLUMNS,
    explain_emission,
    plan_emission,
)
from belvedere.rules.pipeline import WAITING, Rule, Stage
from belvedere.rules.rewrite import carry, inline, replace_node
from belvedere.schema import Schema
from belvedere.time.event_time import Clocks, bounds_by_input


def keep_clock(builder: Builder, plan: Node, top: Filter, split: ClockFilter, part: Part) -> Relation:
    """A filter on now(): its rows with their times to enter and leave; those that wait are kept aside."""
    source = top.input
    plain = conjunction(split.plain)
    if plain is not None:
        source = Filter(source, plain)
    items = tuple(item_of(c) for c in source.schema)
    valid = [exp.Not(this=exp.Is(this=e.copy(), expression=exp.Null())) for e in (*split.enters, *split.leaves)]
    times = tuple(
        Item(n, _extreme(es, f), pa.int64(), nullable=False, hidden=True)
        for n, es, f in ((ENTER, split.enters, exp.Greatest), (LEAVE, split.leaves, exp.Least))
        if es
    )
    source = Project(Filter(source, conjunction(valid) or exp.true()), items + times)
    timed, _ = carry(replace_node(plan, top, source), source, tuple(Item(t.name, column(t.name), t.type) for t in times))
    rendered, slots = builder.delta_slots(builder.settle(timed, part.owner))
    ranges = tuple(t.name for t in times)
    waiting = f"{part.name}{WAITING}"
    reason = "rows enter and leave as now() passes" if split.enters else "rows leave as now() passes"
    stage = Stage(part.name, Rule.CLOCK, rendered, slots, None, part.owner, reason, reads_clock=True)
    relation = builder.emit(stage, False, part.view, ranges)
    if split.enters:
        builder.drafts[waiting] = Draft(
            Relation(waiting, relation.schema, stored=True, ranges=(ENTER,)), builder.drafts[part.name].paths
        )
    return relation


def keep_emission(builder: Builder, plan: Node, top: Emit | InOrder, part: Part) -> Relation:
    """What is emitted when: the input is a relation of its own, beside it the state of its groups or the rows that wait."""
    if plan is not top:
        first = builder.shared(top, part.owner)
        above = replace_node(plan, top, Scan(first.name, first.schema))
        return builder.maintain(above, part)
    source = inline(top.input, lambda i: builder.catalog.views[i].plan if i in builder.catalog.views else None)
    emission = plan_emission(top, source, bounds_by_input(builder.catalog, Clocks()), builder.unsettled)
    scan = top.input if isinstance(top.input, Scan) else None
    known = builder.drafts[builder.relation_of_scan(scan)].relation if scan is not None else None
    needs_rows = isinstance(top, Emit) and not emission.at_once
    if known is None or (needs_rows and not known.is_state):
        known = builder.shared(carry_keys(top.input), part.owner)
    key = known.schema.key or ()
    moved = tuple(n for n in emission.group if n not in key)
    if isinstance(top, Emit) and moved and not known.append_only:
        # a row that goes over to another group is another row there: each group is emitted at its own time
        known = builder.shared(Union((Scan(known.name, known.schema),), key=(*key, *moved)), part.owner)
    keys = tuple(column(n) for n in emission.group), tuple(known.schema[n].type for n in emission.group)
    path = builder.drafts[known.name].path(*keys) if isinstance(top, Emit) else None
    slot = Slot("s0", known.name, path)
    rendered = top.with_inputs((Scan(slot.name, known.schema),))
    rule = Rule.EMIT if isinstance(top, Emit) else Rule.ORDER
    stage = Stage(part.name, rule, rendered, (slot,), None, part.owner, explain_emission(emission), emission=emission)
    if isinstance(top, InOrder):
        if not known.append_only and not emission.settles(builder.catalog):
            hint = "write SELECT ... EMIT STREAM: it shows rows that are taken back too"
            message = f'"{part.owner}" streams rows that change: SELECT STREAM needs rows that only arrive'
            view = builder.catalog.views.get(part.owner)
            raise fail("B5014", message, span=view.span if view is not None else None, hint=hint)
        waiting = Schema((*known.schema.columns, *WAITING_COLUMNS), known.schema.key)
        builder.state_of(part, WAITING, waiting, (WAITING_COLUMNS[0].name,))
        return builder.emit(stage, True, part.view)
    builder.state_of(part, GROUPS, emission.groups_schema, tuple(n for n in emission.groups_schema.names if n not in PLAIN))
    if top.stream and needs_rows:
        builder.state_of(part, EMITTED, known.schema, ()).path(*keys)
    idle = any(w.idle_after is not None for t in builder.catalog.inputs.values() for w in t.watermarks)
    timed = emission.delay is not None or (emission.watermark and idle)
    relation = builder.emit(replace(stage, reads_clock=timed), top.stream, part.view)
    if not top.stream:
        builder.stages[-1] = replace(builder.stages[-1], path=builder.drafts[part.name].path(*keys))
    return relation


def _extreme(times: tuple[Expr, ...], function: type[exp.Expr]) -> Expr:
    if len(times) == 1:
        return times[0].copy()
    return function(this=times[0].copy(), expressions=[t.copy() for t in times[1:]])
