"""Hidden columns of times: a row of a query is final if all of its times are below the bound.

In: a plan whose rows depend on later rows: window functions that look ahead, WINDOW BY. Out: the plan with these
columns, which projections, filters, time windows, groups and joins pass upwards. A group is final once its rows are
final and no further row can join it. So its keys must not change when its rows do: `lasting` are the columns that all
versions of a row share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from belvedere.plan.bound_rules import Known
from belvedere.plan.expressions import Expr, column, columns_of
from belvedere.plan.monotone import LAST_TIME
from belvedere.plan.operators.join import JoinKind
from belvedere.plan.operators.nodes import Aggregate, Filter, Item, Join, Node, Project, Window
from belvedere.plan.operators.predicate_window import Place, PredicateWindow, Resume, final_times
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.operators.window import leading_column, rows_ahead, same_rows
from belvedere.plan.operators.window_specs import Gather
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP
from belvedere.values.instants import instant

COMPLETE_AT = "_complete_at"
"""Name of the hidden columns."""
END: Place = ("end", "item")


@dataclass(frozen=True)
class FinalColumns:
    """Plan with its columns of `times`. The first `depending` of them can increase while further rows arrive.

    `edges` are columns that are the start or end of a time window, with the distance to its last microsecond.
    """

    plan: Node
    times: tuple[str, ...]
    depending: int = 1
    lasting: frozenset[str] = frozenset()
    edges: dict[str, int] = field(default_factory=dict)


def final_columns(plan: Node, known: Known) -> FinalColumns | None:
    """Return the plan with the hidden columns, or None if there are none."""
    match plan:
        case Filter():
            return _filtered(plan, known)
        case Project():
            return _projected(plan, known)
        case TimeWindow():
            return _windowed(plan, known)
        case Aggregate():
            return _grouped(plan, known)
        case Join():
            return _joined(plan, known)
        case Window():
            return _with_next_times(plan)
        case PredicateWindow():
            return _with_end_times(plan)
        case _:
            return None


def last_time() -> Expr:
    """Return `TIMESTAMP '9999-12-31 23:59:59.999999'`. Rows that wait for it wait for the end of the input."""
    text = instant(LAST_TIME).strftime("%Y-%m-%d %H:%M:%S.%f")
    return exp.cast(exp.Literal.string(text), exp.DataType.Type.TIMESTAMPTZ)


def latest_of(times: Sequence[Expr]) -> Expr:
    """Return the greatest of the times."""
    return times[0] if len(times) == 1 else exp.Greatest(this=times[0], expressions=list(times[1:]))


# -- carried upwards


def _filtered(plan: Filter, known: Known) -> FinalColumns | None:
    below = final_columns(plan.input, known)
    if below is None:
        return None
    lasts = columns_of(plan.condition) <= below.lasting and plan.condition.find(exp.CurrentTimestamp) is None
    return replace(below, plan=replace(plan, input=below.plan), lasting=below.lasting if lasts else frozenset())


def _projected(plan: Project, known: Known) -> FinalColumns | None:
    below = final_columns(plan.input, known)
    if below is None:
        return None
    taken, names, items = {i.name for i in plan.items}, list[str](), list(plan.items)
    for time in below.times:
        names.append(unused_name(COMPLETE_AT, taken))
        taken.add(names[-1])
        items.append(item_of(below.plan.schema[time], names[-1], hidden=True))
    lasting = frozenset(i.name for i in plan.items if columns_of(i.expr) <= below.lasting)
    return FinalColumns(
        Project(below.plan, tuple(items)), tuple(names), below.depending, lasting, _named_edges(plan.items, below)
    )


def _named_edges(items: Sequence[Item], below: FinalColumns) -> dict[str, int]:
    """Return the columns of time windows under their new names."""
    plain = {i.name: i.expr.name for i in items if isinstance(i.expr, exp.Column)}
    return {new: below.edges[old] for new, old in plain.items() if old in below.edges}


def _windowed(plan: TimeWindow, known: Known) -> FinalColumns | None:
    below = final_columns(plan.input, known)
    if below is None or plan.kind is TimeWindowKind.SESSION or plan.time not in below.lasting:
        return None
    edges = {**below.edges, plan.end: -1}
    if plan.kind.determines_other(is_start=True):
        edges[plan.start] = plan.size - 1
    lasting = below.lasting | {plan.start, plan.end}
    return replace(below, plan=replace(plan, input=below.plan), lasting=lasting, edges=edges)


def _grouped(plan: Aggregate, known: Known) -> FinalColumns | None:
    """Add the latest time of a group's rows, and the last time of rows that can still join it, which a key gives."""
    below = final_columns(plan.input, known)
    if below is None or plan.grouping_sets is not None or plan.final_time is not None:
        return None
    if any(not columns_of(k.expr) <= below.lasting for k in plan.keys):
        return None
    last, kept = unused_name(COMPLETE_AT, set(plan.schema.names)), tuple(item_of(c) for c in plan.schema)
    latest = exp.Max(this=latest_of([column(n) for n in below.times[: below.depending]]))
    item = Item(last, latest, TIMESTAMP, nullable=False, hidden=True)
    grouped = replace(plan, input=below.plan, aggregates=(*plan.aggregates, item), final_time=last)
    ways, edges = grouped.ways(known), _named_edges(plan.keys, below)
    found = [k.name for k in plan.keys if k.type == TIMESTAMP and all(last in w or k.name in w for w in ways)]
    if not found:
        return None
    key = max(found, key=lambda n: n in edges)
    name = unused_name(COMPLETE_AT, {*plan.schema.names, last})
    until = _later(column(key), edges[key]) if key in edges else column(key)
    until = exp.Coalesce(this=until, expressions=[last_time()])
    made = (item_of(grouped.schema[last]), Item(name, until, TIMESTAMP, nullable=False, hidden=True))
    above = Project(grouped, (*kept, *made))
    return FinalColumns(above, (last, name), 1, frozenset(k.name for k in plan.keys))


def _joined(plan: Join, known: Known) -> FinalColumns | None:
    """Require both sides to be final. A side without such columns is final when one of its times is below the bound."""
    sides = [final_columns(i, known) for i in plan.inputs]
    if plan.kind is not JoinKind.INNER or plan.versions is not None or sides == [None, None]:
        return None
    taken, lasting = set(plan.schema.names), frozenset[str]()
    inputs, depending, others = list[Node](), list[str](), list[str]()
    for side, found in zip(plan.inputs, sides, strict=True):
        below = found or FinalColumns(side, _own_time(side, known), 0, frozenset(side.schema.names))
        kept, names = [item_of(c) for c in side.schema], list[str]()
        for time in below.times:
            names.append(unused_name(COMPLETE_AT, taken))
            taken.add(names[-1])
            kept.append(item_of(below.plan.schema[time], names[-1], hidden=True))
        inputs.append(Project(below.plan, tuple(kept)) if names else side)
        depending += names[: below.depending]
        others += names[below.depending :]
        lasting |= below.lasting
    if plan.condition is not None and not columns_of(plan.condition) <= lasting:
        lasting = frozenset()
    joined = replace(plan, left=inputs[0], right=inputs[1])
    return FinalColumns(joined, (*depending, *others), len(depending), lasting)


def _own_time(side: Node, known: Known) -> tuple[str, ...]:
    """Return a column whose bound makes rows final."""
    found = sorted(c for c in side.event_times(known) & side.never_null if side.schema[c].type == TIMESTAMP)
    return tuple(found[:1])


# -- windows


def _with_end_times(window: PredicateWindow) -> FinalColumns | None:
    """Add the time of the last row that decides the end of a window, and the time of its label or start."""
    resume = window.resume
    places = final_times(resume) if resume is not None else {}
    if resume is None or not places or window.input.schema[resume.column].type != TIMESTAMP:
        return None
    gap, timed = resume.gap, resume.column in window.input.never_null
    seen = gap is not None and (window.shows_end or not timed)  # an END to come changes the row
    taken, names = {*window.schema.names}, dict[Place, str]()
    for place in (*places, *((END,) if seen else ()), resume.opening):
        if place not in names:
            names[place] = unused_name(COMPLETE_AT, taken)
            taken.add(names[place])
    last = None if gap is None or gap.side != "end" or seen else unused_name(COMPLETE_AT, taken)
    final = unused_name(COMPLETE_AT, taken if last is None else taken | {last})
    below = window.with_times(names, last)
    item = Item(final, _final(resume, names, last, seen), TIMESTAMP, nullable=False, hidden=True)
    opening = item_of(below.schema[names[resume.opening]])
    above = Project(below, (*(item_of(c) for c in window.schema), opening, item))
    return FinalColumns(above, (final, opening.name), 1, _lasting_results(window, resume) if timed else frozenset())


def _lasting_results(window: PredicateWindow, resume: Resume) -> frozenset[str]:
    """Return the results that never change, of label or start; none if windows without an end have no rows."""
    if window.spec.only:
        return frozenset()
    found = (o for o in window.spec.outputs if isinstance(o, Gather) and o.side == resume.opening[0])
    own = (o.output for o in found if o.role in ("item", "previous"))
    return frozenset((*own, *window.partition, *(window.identity or ())))


def _final(resume: Resume, names: dict[Place, str], last: str | None, seen: bool) -> Expr:
    """Return when a window is final: with the tuple after its end, or when every later tuple keeps the gap.

    `last` is the column with the time of its last tuple; `seen` says that the row changes when the window gets an end.
    """
    places = final_times(resume)
    decides = next(p for p, length in places.items() if length == 0)
    found: Expr = exp.Coalesce(this=column(names[decides]), expressions=[last_time()])
    if resume.gap is None or len(places) == 1:
        return found
    place = (resume.gap.side, "item")
    found = exp.Least(this=found, expressions=[_later(column(last or names[place]), places[place])])
    if not seen:
        return found
    is_open = exp.Is(this=column(names[END]), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=is_open, true=last_time())], default=found)


def _later(time: Expr, length: int) -> Expr:
    unit = exp.Interval(this=exp.Literal.string(str(length)), unit=exp.var("MICROSECOND"))
    return exp.Add(this=time, expression=unit)


def _with_next_times(window: Window) -> FinalColumns | None:
    """Add, for each order in which window functions look ahead, the time of the farthest row that they read."""
    farthest: list[tuple[exp.Window, str, int]] = []
    for call in (w for i in window.items for w in i.expr.find_all(exp.Window)):
        time, rows = leading_column(call, window.input), rows_ahead(call)
        if time is None or rows in (None, 0) or rows is None or window.input.schema[time].type != TIMESTAMP:
            continue
        same = next((n for n, (other, _, _) in enumerate(farthest) if same_rows(other, call)), None)
        if same is None:
            farthest.append((call, time, rows))
        else:
            farthest[same] = (call, time, max(rows, farthest[same][2]))
    if not farthest:
        return None
    taken = {*window.schema.names}
    items = []
    for call, time, rows in farthest:
        name = unused_name(COMPLETE_AT, taken)
        taken.add(name)
        items.append(Item(name, _lead(call, time, rows), TIMESTAMP, nullable=False, hidden=True))
    below = replace(window, items=(*window.items, *items))
    if len(items) == 1:
        return FinalColumns(below, (items[0].name,))
    return FinalColumns(below, tuple(i.name for i in items), len(items))


def _lead(call: exp.Window, time: str, rows: int) -> exp.Window:
    """Return the time of the row that many positions later, in the order of a window function."""
    lead = exp.Lead(this=column(time), offset=exp.Literal.number(rows), default=last_time())
    found = exp.Window(this=lead, order=call.args["order"].copy(), over="OVER")
    if call.args.get("partition_by"):
        found.set("partition_by", [e.copy() for e in call.args["partition_by"]])
    return found
