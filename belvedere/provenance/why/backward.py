"""Backward tracing of a plan: the rows of scanned relations from which requested rows of its result are computed.

In: a plan and the requested predicate on its result. Out: a `Traced` for each path from the result to a scan. Each
operator has one function in `STEPS`, which returns the predicates on its inputs. The traced rows are sufficient: the
plan over these rows alone returns the requested rows. Nothing is computed here.

Source: Cui, Widom, Wiener, "Tracing the lineage of view data in a warehousing environment" (TODS 2000). Rows that do
not derive from an input (the missing side of an outer join, NOT EXISTS) have no trace on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import column, columns_of, conjuncts
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetKind,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from belvedere.plan.operators.observed import Observed
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.recursion import Last, Recursion
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.provenance.column_labels import group_text, text_over
from belvedere.provenance.constants import fixed_columns, is_impossible
from belvedere.provenance.found_rows import relations_of
from belvedere.provenance.orders import ahead_of, ahead_of_values
from belvedere.provenance.row_predicates import RowPredicate, matching, of_other, other, same, test
from belvedere.provenance.why.historic import emitted, in_order, spl_contents, spl_pairs
from belvedere.provenance.why.join_traces import joined, without_partner
from belvedere.provenance.why.predicate_windows import window_rows
from belvedere.provenance.why.recursions import recursed
from belvedere.provenance.why.time_windows import in_window
from belvedere.provenance.why.traces import Backward, Below, Dropped, Found, Traced, Trail, is_fixed
from belvedere.provenance.why_not.pushed_tests import branch_predicate, partitions, passing, set_columns


def trace(back: Backward, node: Node, requested: RowPredicate, trail: Trail | None = None) -> Iterator[Found]:
    """Yield the paths from a plan's requested rows down to its scans."""
    trail = trail or Trail()
    if isinstance(node, Scan):
        yield Traced(node, requested, trail.words, trail.certain, trail.ahead)
        return
    steps = [
        s for s in STEPS[type(node)](back, node, requested, trail) if not any(map(is_impossible, s.requested.tests))
    ]
    certain = trail.certain and all(s.certain for s in steps) and not _has_ways(steps)
    grouped = trail.grouped or isinstance(node, Aggregate | Distinct | SetOperation | TopK | Window)
    if trail.grouped:
        yield from dropped(back, node, requested)
    for step in steps:
        words = (*trail.words, step.words) if step.words else trail.words
        below = replace(trail, words=words, certain=certain, grouped=grouped, ahead=trail.ahead or step.ahead)
        yield from trace(back, node.inputs[step.input], step.requested, below)


def dropped(back: Backward, node: Node, requested: RowPredicate) -> Iterator[Dropped]:
    """Yield rows of a group that a filter, or the lack of a join partner, drops."""
    if isinstance(node, Filter):
        failed = exp.Not(this=exp.paren(exp.NullSafeEQ(this=exp.paren(node.condition.copy()), expression=exp.true())))
        rows = back.rows(node.input, requested + test(failed))
        yield Dropped(f"WHERE {text_over(node.input, node.condition)}", rows, relations_of(node))
    if isinstance(node, Join) and node.kind is JoinKind.INNER and node.condition is not None:
        for side, partner in ((node.left, node.right), (node.right, node.left)):
            own, rest = requested.split(side.schema.names)
            if own and not rest:
                lonely = without_partner(back.rows(partner, RowPredicate()), node.condition, partner)
                words = f"no partner by {expression_text(node.condition)}"
                yield Dropped(words, back.rows(side, own + lonely), relations_of(side))


def _has_ways(steps: list[Below]) -> bool:
    """Return whether an input is read by several paths, some of which may have no rows."""
    return len({s.input for s in steps}) < len(steps)


def _filter(back: Backward, node: Filter, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    if trail.certain and is_fixed(requested, node.schema.key):
        yield Below(0, requested)
    else:
        yield Below(0, requested + test(*conjuncts(node.condition)))


def _passed(back: Backward, node: Project | Distinct, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield Below(0, passing(node, requested)[0][0])


def _by_key(back: Backward, node: Unnest, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield Below(0, back.by_key(node, node.input, requested, trail))


def _union(back: Backward, node: Union, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    live = [(n, branch_predicate(node, n, requested)) for n in range(len(node.branches))]
    live = [(n, w) for n, w in live if not any(map(is_impossible, w.tests))]
    for number, branch in live:
        yield Below(number, branch, f"branch {number + 1} of UNION", certain=len(live) == 1)


def _set_operation(back: Backward, node: SetOperation, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    left, right = passing(node, requested)[0]
    pairs = dict(zip(node.right.schema.names, map(column, node.left.schema.names), strict=True))
    there = matching(back.rows(node.right, right), *same(pairs), negated=node.kind is SetKind.EXCEPT)
    known = trail.certain and is_fixed(requested, node.schema.key)
    yield Below(0, left if known else left + there)
    if node.kind is SetKind.INTERSECT:
        mirrored = dict(zip(node.left.schema.names, map(column, node.right.schema.names), strict=True))
        yield Below(1, right if known else right + matching(back.rows(node.left, left), *same(mirrored)))


def _aggregate(back: Backward, node: Aggregate, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    if node.grouping_sets is not None:
        yield from _grouping_sets(back, node, requested)
        return
    (group,), left = passing(node, requested)
    words = f"its group by {group_text(node)}" if node.keys else "all rows"
    if node.keys and left and not (trail.certain and is_fixed(requested, node.schema.key)):
        group = group + matching(back.rows(node, requested), *same({k.name: k.expr for k in node.keys}))
    yield Below(0, group, words, certain=bool(node.keys))


def _grouping_sets(back: Backward, node: Aggregate, requested: RowPredicate) -> Iterator[Below]:
    """Trace each grouping set as a separate path. Keys outside the set are NULL."""
    for members in node.grouping_sets or ():
        mapping = set_columns(node, members)
        group, left = requested.split(mapping)
        words = f"its group by {group_text(node, members)}" if members else "all rows"
        found = group.over(mapping)
        if left:
            there = [k.name for k in node.keys if k.name in members]
            found = found + matching(back.rows(node, requested), *same({m: mapping[m] for m in there}))
        yield Below(0, found, words, certain=False)


def _window(back: Backward, node: Window, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    own = back.by_key(node, node.input, requested, trail)
    yield Below(0, own, "the row itself")
    fixed = set(fixed_columns(own.tests))
    for partition in partitions(node):
        by = ", ".join(map(expression_text, partition))
        names = frozenset(n for e in partition for n in columns_of(e))
        if names <= fixed:
            known = RowPredicate(tuple(t for t in own.tests if columns_of(t) <= names and columns_of(t)))
            yield Below(0, known, f"its partition by {by}" if by else "all rows")
            continue
        pairs = [exp.NullSafeEQ(this=e.copy(), expression=of_other(e)) for e in partition]
        yield Below(0, matching(back.rows(node.input, own), *pairs), f"its partition by {by}")


def _top(back: Backward, node: TopK, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    if trail.past:
        yield from _once_top(back, node, requested)
        return
    own = passing(node, requested)[0][0]
    key = node.input.schema.key or node.input.schema.names
    if not (trail.certain and is_fixed(own, node.input.schema.key)):
        own = own + matching(back.rows(node, requested), *same(None, key))
    yield Below(0, own, "" if node.limit is None else "the row itself")
    if (node.limit or 0) > 1:
        first = back.rows(node, _partition(back, node, own))
        yield Below(0, matching(first, *same(None, key)), "the first of its rows")
    if node.number is not None or node.offset:
        partition = [exp.NullSafeEQ(this=column(n), expression=other(n)) for n in node.partition]
        yield Below(0, matching(back.rows(node.input, own), *partition, ahead_of(node)), "the rows ahead of it")


def _once_top(back: Backward, node: TopK, requested: RowPredicate) -> Iterator[Below]:
    """Trace a row that was once among the first rows: the row itself, and the rows ahead of it.

    Unless ranks are counted, the row appeared only when the rows ahead of it left.
    """
    yield Below(0, requested.split(node.input.schema.names)[0], "the row itself", certain=False)
    partition = _partition(back, node, requested.split(node.input.schema.names)[0])
    condition = ahead_of_values(node, fixed_columns(requested.tests))
    counts = node.number is not None or node.offset > 0
    yield Below(0, partition + test(*condition), "the rows ahead of it", certain=False, ahead=not counts)


def _partition(back: Backward, node: TopK, own: RowPredicate) -> RowPredicate:
    """Return the predicate on all rows in the partition of the requested rows."""
    known = own.split(node.partition)[0]
    if set(node.partition) <= set(fixed_columns(known.tests)):
        return known
    return matching(back.rows(node.input, own), *same(None, node.partition))


def _time_window(back: Backward, node: TimeWindow, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    window = in_window(node, requested)
    if window is not None:
        passed, left = requested.split(node.input.schema.names)
        if not left.split((node.start, node.end))[1]:
            yield Below(0, passed + window, "in its window")
            return
    if node.kind is not TimeWindowKind.SESSION:
        yield Below(0, back.by_key(node, node.input, requested, trail), "in its window")
        return
    time = column(node.time)
    bounds = (exp.GTE(this=time, expression=other(node.start)), exp.LT(this=time.copy(), expression=other(node.end)))
    yield Below(0, matching(back.rows(node, requested), *same(None, node.partition), *bounds), "in its session")


def _nothing(back: Backward, node: Values, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield from ()


def _emit(back: Backward, node: Emit, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield Below(0, emitted(node, requested), "the emitted rows", certain=False)


def _in_order(back: Backward, node: InOrder, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield Below(0, in_order(node, requested), certain=False)


def _spl_aggregate(back: Backward, node: SplAggregate, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield Below(0, *spl_contents(back.rows, node, requested), certain=False)


def _spl_join(back: Backward, node: SplJoin, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    for number, side, words in spl_pairs(back.rows, node, requested):
        yield Below(number, side, words, certain=False)


def _predicate_window(back: Backward, node: PredicateWindow, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield Below(0, *window_rows(back.rows, node, requested), certain=False)


def _recursion(back: Backward, node: Recursion, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    yield from recursed(trace, back, node, requested)


STEPS: dict[type[Node], Callable[[Backward, Any, RowPredicate, Trail], Iterator[Below]]] = {
    Filter: _filter,
    Project: _passed,
    Distinct: _passed,
    Union: _union,
    SetOperation: _set_operation,
    Aggregate: _aggregate,
    Join: joined,
    Window: _window,
    TopK: _top,
    Unnest: _by_key,
    TimeWindow: _time_window,
    Values: _nothing,
    Emit: _emit,
    InOrder: _in_order,
    SplAggregate: _spl_aggregate,
    SplJoin: _spl_join,
    PredicateWindow: _predicate_window,
    Recursion: _recursion,
}
"""Functions that trace each operator's rows to its inputs' rows."""
NOT_TRACED: dict[type[Node], str] = {
    Scan: "a trace ends there",
    Observed: "its rows are events of a subscription, not rows of a view",
    Last: "lowered plans do not contain it",
}
"""Operators without a tracing function, with the reason."""
