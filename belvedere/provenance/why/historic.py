"""Inputs of operators whose rows depend on history: EMIT, SELECT STREAM, SPL windows.

In: the operator and the requested predicate on its rows. Out: the predicate on its input. Emitted rows do not
change when the input changes later. So input rows are found by columns that never change: the key, the partition, the
time of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from belvedere.plan.expressions import column, columns_of
from belvedere.plan.operators.emit import PTIME, Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Expr, Node, Order, TopK
from belvedere.plan.operators.spl_aggregate import FiringReading, SplAggregate
from belvedere.plan.operators.spl_join import FIRED, JoinedWindow, SplJoin
from belvedere.plan.operators.spl_windows import Count, Sliding, Time
from belvedere.provenance.constants import fixed_columns
from belvedere.provenance.row_predicates import RowPredicate, matching, other, same
from belvedere.provenance.why.join_traces import partner_condition
from belvedere.provenance.why.time_windows import between, earlier, literal_time
from belvedere.schema import INGEST_TIME

Rows = Callable[[Node, RowPredicate], Node]


def emitted(node: Emit, requested: RowPredicate) -> RowPredicate:
    """Return the predicate on the present group of an emitted row.

    For the input of a stream it selects only rows that had arrived when the row was emitted.
    """
    key = node.input.schema.key or ()
    fixed = fixed_columns(requested.tests)
    names = key if key and set(key) <= set(fixed) else node.input.schema.names
    found, _ = requested.split(names)
    time = fixed.get(PTIME)
    if time is not None and node.input.schema.find(INGEST_TIME):
        found = found + RowPredicate((exp.LTE(this=column(INGEST_TIME), expression=time),))
    return found


def in_order(node: InOrder, requested: RowPredicate) -> RowPredicate:
    """Return the predicate on append-only rows, which never change."""
    return requested.split(node.input.schema.names)[0]


def spl_contents(rows: Rows, node: SplAggregate, requested: RowPredicate) -> tuple[RowPredicate, str]:
    """Return the predicate on the rows that the window held when it fired.

    If only a replay could determine them, it selects the rows that the window may have held.
    """
    mapping: dict[str, Expr] = {i.name: i.expr for i in (*node.partition, *node.groups)}
    passed, _ = requested.split(mapping)
    own = passed.over(mapping)
    fixed = {r.reading: fixed_columns(requested.tests).get(r.name) for r in node.readings}
    start, end = (literal_time(fixed.get(r)) for r in (FiringReading.INTERVAL_START, FiringReading.INTERVAL_END))
    if node.time is not None and start is not None and end is not None:
        return own + between(node.time, start, end, node.input.schema[node.time].type), "in its pane"
    fired = fixed.get(FiringReading.FIRING_TIME)
    if fired is None:
        return own, "in the window's partition"
    own = own + RowPredicate((exp.LTE(this=column(node.clock), expression=fired),))
    kind = node.window.kind
    if isinstance(kind, Sliding) and isinstance(kind.eviction, Time):
        low = earlier(fired, kind.eviction.micros)
        return own + RowPredicate((exp.GTE(this=column(node.clock), expression=low),)), "in its window"
    if isinstance(kind, Sliding) and isinstance(kind.eviction, Count) and not node.groups:
        last = TopK(rows(node.input, own), (Order(column(node.order), descending=True),), kind.eviction.rows)
        return own + matching(last, *same(None, (node.order,))), "in its window"
    return own, "in the window's partition, up to the firing"


def spl_sides(node: SplJoin, requested: RowPredicate) -> tuple[RowPredicate, RowPredicate]:
    """Return predicates on the rows of each side that have the result's columns and arrived no later.

    For a window of time, they also exclude rows that arrived too early.
    """
    fixed = fixed_columns(requested.tests)
    fired = fixed.get(FIRED)
    left, right = (
        RowPredicate(
            tuple(t for t in requested.tests if columns_of(t) <= set(side.schema.names) and columns_of(t) <= set(fixed))
        )
        + _before(window, fired)
        for side, window in zip(node.inputs, node.windows, strict=True)
    )
    return left, right


def _before(window: JoinedWindow, fired: Expr | None) -> RowPredicate:
    """Return the predicate on the rows that a window may have held or evicted when a result was produced."""
    if fired is None:
        return RowPredicate()
    tests: tuple[Expr, ...] = (exp.LTE(this=column(window.clock), expression=fired),)
    # a row without a match leaves a microsecond after the last time at which it may match
    low = earlier(fired, window.eviction.micros + 1) if isinstance(window.eviction, Time) else None
    return RowPredicate((*tests, exp.GTE(this=column(window.clock), expression=low)) if low is not None else tests)


def has_row_of(side: Node, requested: RowPredicate) -> bool | None:
    """Return whether a result has a row of a side; None if unknown.

    It has one if a column of the side has a value. It has none if a column is NULL that the side declares NOT NULL.
    """
    fixed = {n: v for n, v in fixed_columns(requested.tests).items() if side.schema.find(n) is not None}
    if any(not isinstance(v, exp.Null) for v in fixed.values()):
        return True
    return False if any(not side.schema[n].nullable for n in fixed) else None


def spl_pairs(rows: Rows, node: SplJoin, requested: RowPredicate) -> Iterator[tuple[int, RowPredicate, str]]:
    """Yield the rows of each side, by its number, that may have produced a result.

    A row either met a row of the other side when one of the two arrived, or left without a match.
    """
    own, there = spl_sides(node, requested), tuple(has_row_of(s, requested) for s in node.inputs)
    fired = fixed_columns(requested.tests).get(FIRED)
    for number, window in enumerate(node.windows):
        if there[number] is False:
            continue
        held = fired is not None and isinstance(window.eviction, Time)
        words = "in its window" if held else "may have been in its window"
        if node.outer[number] and not there[1 - number]:  # it may have had no match
            yield number, own[number], words
            continue
        partner = node.inputs[1 - number]
        met = partner_condition(node.condition, partner)
        if fired is not None:
            clocks = column(window.clock), other(node.windows[1 - number].clock)
            arrived = (exp.EQ(this=c, expression=fired.copy()) for c in clocks)
            met = (*met, exp.paren(exp.or_(*arrived)))
        yield number, own[number] + matching(rows(partner, own[1 - number]), *met), words
