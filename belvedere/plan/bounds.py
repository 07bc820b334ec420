"""How bounds on the event-time columns of inputs become bounds on the columns of a query.

In: a plan and the bounds of what it scans. Out: column -> bound in microseconds: **no later change of the relation, neither a new row
nor one taken back, concerns a row whose column is below its bound**. So a row is complete as soon as one of its columns is below that
column's bound (One SQL, extension 2: strictly less). A column without an entry never has a bound. Pure: state is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import columns_of, conjuncts
from belvedere.plan.monotone import FOREVER, NEVER, combine, monotone
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from belvedere.plan.operators.time_nodes import Emit, InOrder, TimeWindow, TimeWindowKind

Bounds = Mapping[str, int]
Known = Callable[[str], Bounds | None]
"""The bounds of a scanned relation by its id; None for one that holds nothing back (a table that nobody waits for)."""


def bounds_of(node: Node, known: Known) -> dict[str, int]:
    """The bounds of a relation's columns."""
    ways = _ways(node, known)
    shared = set(ways[0]).intersection(*ways[1:])
    return {n: min(w[n] for w in ways) for n in ways[0] if n in shared}


def _ways(node: Node, known: Known) -> tuple[Bounds, ...]:
    """The bounds of each way in which a change can come: from either side of a join.

    They are told apart as long as that says more: the later of two times, one of each side, is above the bound of the side that changes.
    """
    match node:
        case Join():
            return _join(node, known)
        case Project():
            nullable = {c.name for c in node.input.schema if c.nullable}
            return tuple(_given((i.name, combine(w, i.expr, nullable)) for i in node.items) for w in _ways(node.input, known))
        case Filter():
            return tuple(_implied(w, conjuncts(node.condition)) for w in _ways(node.input, known))
        case _:
            return (_bounds(node, known),)


def _bounds(node: Node, known: Known) -> dict[str, int]:
    match node:
        case Scan():
            given = known(node.relation)
            if given is None:
                return dict.fromkeys(node.schema.names, FOREVER)
            return {c: b for c, b in given.items() if c in node.schema.names}
        case Values():
            return dict.fromkeys(node.schema.names, FOREVER)
        case Aggregate():
            below = bounds_of(node.input, known)
            return _given((i.name, combine(below, i.expr)) for i in node.keys)
        case Union():
            return _union(node, known)
        case SetOperation():
            left, right = bounds_of(node.left, known), bounds_of(node.right, known)
            pairs = zip(node.left.schema.names, node.right.schema.names, strict=True)
            return {a: min(left[a], right[b]) for a, b in pairs if a in left and b in right}
        case TimeWindow():
            return _time_window(node, bounds_of(node.input, known))
        case Distinct() | Unnest():
            return bounds_of(node.inputs[0], known)
        case TopK():
            return _only(bounds_of(node.input, known), (*node.partition, *node.alike, *_first_times(node)))
        case Window():
            return _window(node, bounds_of(node.input, known))
        case Emit():
            below = bounds_of(node.input, known)
            # what a delay holds back comes out later, however far the bound is; completion lets all of a group out
            return below if node.watermark or node.delay is None else {}
        case InOrder():
            below = bounds_of(node.input, known)
            return _only(below, (node.time,)) if node.within is None else {}
        case _:
            return {}


def _given(pairs: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    return {name: bound for name, bound in pairs if bound is not None}


def _only(bounds: Bounds, names: tuple[str, ...]) -> dict[str, int]:
    return {n: b for n, b in bounds.items() if n in names}


def _union(node: Union, known: Known) -> dict[str, int]:
    """The least of the branches, by position."""
    branches = [bounds_of(b, known) for b in node.branches]
    found = {}
    for position, column in enumerate(node.branches[0].schema.columns):
        bounds = [b.get(n.schema.names[position]) for b, n in zip(branches, node.branches, strict=True)]
        if all(b is not None for b in bounds):
            found[column.name] = min(b for b in bounds if b is not None)
    return found


# -- windows ----------------------------------------------------------------------------------------------------------


def _time_window(node: TimeWindow, below: Bounds) -> dict[str, int]:
    """The starts and ends of the windows that a row at the bound or later can still be in."""
    bound = below.get(node.time)
    if node.kind is TimeWindowKind.SESSION:
        # a row joins the sessions that end at its time or later, and changes their start and every row's columns
        own = {} if bound is None else {node.end: bound}
        return {**_only(below, node.partition), **own}
    if bound is None:
        return dict(below)
    if bound in (NEVER, FOREVER):
        return {**below, node.start: bound, node.end: bound}
    return {**below, node.start: node.first_start(bound), node.end: node.first_end(bound)}


def _window(node: Window, below: Bounds) -> dict[str, int]:
    """A new row changes rows of its own partition, and none before it where every frame ends at the current row."""
    calls = [w for i in node.items for w in i.expr.find_all(exp.Window)]
    kept = set(below)
    for call in calls:
        own = {e.name for e in call.args.get("partition_by") or [] if isinstance(e, exp.Column)}
        leading = _leading_column(call, node.input)
        if leading is not None and not _looks_ahead(call):
            own.add(leading)
        kept &= own
    return {n: b for n, b in below.items() if n in kept} | _ends(node, below)


def _ends(node: Window, below: Bounds) -> dict[str, int]:
    """Of the next time, `lead(t) OVER (... ORDER BY t)`, the bound of the time: a row to come is the next of those before it."""
    return {i.name: below[time] for i in node.items if (time := next_time(i.expr)) is not None and time in below}


def next_time(expr: Expr) -> str | None:
    """The column of which a window function gives the next value in its own order; None for any other."""
    call = expr.this if isinstance(expr, exp.Window) else None
    order = expr.args.get("order")
    if not isinstance(call, exp.Lead) or call.args.get("offset") or call.args.get("default") or order is None:
        return None
    first = order.expressions[0]
    same = isinstance(call.this, exp.Column) and first.this == call.this
    return call.this.name if same and not first.args.get("desc") else None


def _first_times(node: TopK) -> tuple[str, ...]:
    """The column by which the earliest rows come first: what a row to come displaces is not before it."""
    first = node.order[0] if node.order else None
    if first is None or first.descending or not isinstance(first.expr, exp.Column):
        return ()
    nulls_last = not first.nulls_come_first
    return (first.expr.name,) if nulls_last or not node.input.schema[first.expr.name].nullable else ()


def _leading_column(call: exp.Expr, below: Node) -> str | None:
    """The column that rows are ordered by first; not where a later NULL could come before all of them."""
    order = call.args.get("order")
    first = order.expressions[0] if order is not None and order.expressions else None
    if not isinstance(first, exp.Ordered) or first.args.get("desc") or not isinstance(first.this, exp.Column):
        return None
    name = first.this.name
    spec = call.args.get("spec")
    limited = spec is not None and spec.args.get("kind") == "RANGE" and spec.args.get("start") != "UNBOUNDED"
    nulls_last = first.args.get("nulls_first") is False
    return name if nulls_last or limited or not below.schema[name].nullable else None


def _looks_ahead(call: exp.Expr) -> bool:
    """Whether a row's value may depend on rows after it (also ntile and percent_rank, which count the whole partition)."""
    backward = (exp.AggFunc, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.FirstValue, exp.LastValue)
    inner = call.this.this if isinstance(call.this, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)) else call.this
    if not isinstance(inner, backward) or isinstance(inner, (exp.Lead, exp.PercentRank, exp.CumeDist, exp.Ntile)):
        return True
    spec = call.args.get("spec")
    if spec is None:
        return False
    end = spec.args.get("end")
    return not (end is None or end == "CURRENT ROW" or spec.args.get("end_side") == "PRECEDING")


# -- joins ------------------------------------------------------------------------------------------------------------


def _join(node: Join, known: Known) -> tuple[Bounds, ...]:
    """A change of the output comes from one side: what follows for the columns from either.

    What a comparison implies holds for rows that match; a row that an outer join keeps without a match has its own bounds alone.
    """
    parts = conjuncts(node.condition)
    left, right = bounds_of(node.left, known), bounds_of(node.right, known)
    if node.versions is not None:
        return _of_versions(node, left, right)
    from_left, from_right = _implied(left, parts), _implied(right, parts)
    if node.kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI):
        from_left = {n: b for n, b in from_left.items() if n not in node.left.schema.names} | left
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        from_right = {n: b for n, b in from_right.items() if n not in node.right.schema.names} | right
    if _holds_nothing_back(node.right, known):
        return (_visible(node, from_left),)
    if _holds_nothing_back(node.left, known):
        return (_visible(node, from_right),)
    return _visible(node, from_left), _visible(node, from_right)


def _of_versions(node: Join, left: Bounds, right: Bounds) -> tuple[Bounds, ...]:
    """The bounds of left columns, which carry the time: a version to come is valid from a time on that is not below its bound.

    It ends the validity of the one before it, however old that is; rows of earlier times keep what they were joined with.
    """
    since, until = node.versions or ("", "")
    begins = {**right, **({since: right[until]} if until in right else {})}
    found = (left, _implied(begins, conjuncts(node.condition)))
    return tuple(_only(b, node.left.schema.names) for b in found)


def _holds_nothing_back(node: Node, known: Known) -> bool:
    return all(known(n.relation) is None for n in node.walk() if isinstance(n, Scan))


def _visible(node: Join, bounds: Bounds) -> dict[str, int]:
    names = node.left.schema.names if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else node.schema.names
    return {n: b for n, b in bounds.items() if n in names}


def implied_bounds(bounds: Bounds, condition: Expr | None) -> dict[str, int]:
    """Bounds, and those that a condition makes follow from them."""
    return _implied(bounds, conjuncts(condition))


def _implied(bounds: Bounds, parts: tuple[Expr, ...]) -> dict[str, int]:
    """The bounds and those that comparisons make follow: from `a >= b - d` and a bound on b one on a."""
    found = dict(bounds)
    for _ in range(len(parts) + 1):
        before = dict(found)
        for part in parts:
            for smaller, greater, strict in _comparisons(part):
                _raise(found, smaller, greater, strict)
        if found == before:
            break
    return found


def _comparisons(part: Expr) -> list[tuple[Expr, Expr, bool]]:
    """(smaller, greater, strictly) of a comparison; equality goes both ways."""
    a, b = part.args.get("this"), part.args.get("expression")
    match part:
        case exp.Between():
            return [(part.args["low"], part.this, False), (part.this, part.args["high"], False)]
        case exp.EQ() | exp.NullSafeEQ() if a is not None and b is not None:
            return [(a, b, False), (b, a, False)]
        case exp.LT() | exp.LTE() if a is not None and b is not None:
            return [(a, b, isinstance(part, exp.LT))]
        case exp.GT() | exp.GTE() if a is not None and b is not None:
            return [(b, a, isinstance(part, exp.GT))]
        case exp.Or() if _is_null(part.left):
            # NULL is not below any bound
            return [c for c in _comparisons(part.right.unnest()) if c[1] == part.left.unnest().this]
        case _:
            return []


def _is_null(part: Expr) -> bool:
    test = part.unnest()
    return isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and isinstance(test.this, exp.Column)


def _raise(bounds: dict[str, int], smaller: Expr, greater: Expr, strict: bool) -> None:
    """From the bound of the smaller side a bound of the greater side's column."""
    if not columns_of(smaller):
        return
    least, target = combine(bounds, smaller), monotone(greater)
    if least is None or target is None or (least == NEVER and target.column in bounds):
        return
    if least not in (NEVER, FOREVER):
        least += 1 if strict else 0
        if target.shift is not None:
            least -= target.shift
        elif not target.rounds:
            return
    elif target.shift is None and not target.rounds:
        return
    bounds[target.column] = max(bounds.get(target.column, NEVER), least)


# -- which columns ----------------------------------------------------------------------------------------------------


def event_time_columns(node: Node, known: Known) -> frozenset[str]:
    """The columns of times that can have a bound at all, now or later."""
    return frozenset(n for n in bounds_of(node, known) if is_time(node.schema[n].type))


def grouping_columns(node: Node, known: Known) -> frozenset[str]:
    """The columns that say to which event-time group a row belongs: windows' starts and ends, event-time keys of GROUP BY."""
    match node:
        case Project():
            below = grouping_columns(node.input, known)
            times = event_time_columns(node.input, known)
            return frozenset(i.name for i in node.items if _groups(i.expr, below, times))
        case Aggregate():
            below = grouping_columns(node.input, known) | event_time_columns(node.input, known)
            read = ((i.name, monotone(i.expr)) for i in node.keys)
            return frozenset(name for name, found in read if found is not None and found.column in below)
        case TimeWindow():
            below = grouping_columns(node.input, known)
            timed = node.time in event_time_columns(node.input, known)
            return below | {node.start, node.end} if timed else below
        case Union() | SetOperation():
            return _shared_by_position(node, known)
        case _:
            found = frozenset(c for i in node.inputs for c in grouping_columns(i, known))
            return found & frozenset(node.schema.names)


def _shared_by_position(node: Node, known: Known) -> frozenset[str]:
    names = node.inputs[0].schema.names
    shared = set(names)
    for branch in node.inputs:
        own = grouping_columns(branch, known)
        shared &= {n for n, c in zip(names, branch.schema.names, strict=False) if c in own}
    return frozenset(shared)


def _groups(expr: Expr, grouping: frozenset[str], times: frozenset[str]) -> bool:
    """A grouping column moved or rounded, or an event time that is rounded."""
    found = monotone(expr)
    if found is None:
        return False
    return found.column in grouping or (found.column in times and found.shift is None)


def is_time(type_: pa.DataType) -> bool:
    """Whether a column of this type can have a bound that rows are compared with."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))
