"""Explanations of missing rows by operator: either it drops matching input, or its input has none.

In: an operator, the tests of its missing rows. Out: the operators that drop them. Each operator has one function in
`LOSSES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import counted
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import columns_of, conjuncts
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Item,
    Join,
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
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.recursion import Last, Recursion
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_window import TimeWindow
from belvedere.provenance.column_labels import group_text, predicate_over, text_over
from belvedere.provenance.constants import fixed_columns, is_impossible
from belvedere.provenance.findings import FoundRows, PruningKind, PruningOperator
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.row_predicates import RowPredicate, matching, same, test
from belvedere.provenance.why.recursions import names_of, step_over
from belvedere.provenance.why_not.pruned_inputs import pruned_by_scan
from belvedere.provenance.why_not.pruned_joins import pruned_by_join
from belvedere.provenance.why_not.pruned_times import (
    pruned_by_emit,
    pruned_by_sequence,
    pruned_by_spl_join,
    pruned_by_time_window,
    pruned_in_order,
)
from belvedere.provenance.why_not.pruning import (
    CountedRows,
    Descent,
    DescentPath,
    Losses,
    condition_text,
    pruning_step,
    untold,
)
from belvedere.provenance.why_not.pushed_tests import branch_predicate, passing, set_columns


def _project(descent: Descent, node: Project, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    below = passing(node, requested)[0][0]
    never = [t for t, b in zip(requested.tests, below.tests, strict=True) if is_impossible(b)]
    if never:
        yield pruning_step(
            way,
            PruningKind.VALUES,
            f"{expression_text(never[0])} never holds: the query gives another constant",
            requested,
        )
        return
    yield from descent.below(node.input, below, way)


def _distinct(descent: Descent, node: Distinct, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    yield from descent.below(node.input, requested, way)


def _filter(descent: Descent, node: Filter, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    """Yield the rows that reached the filter, with the columns of its condition and the value of each conjunct."""
    parts = conjuncts(node.condition)
    tested = _with_parts(node, parts, requested)
    reached, *failed = descent.look(
        CountedRows(tested, requested, "reached it"),
        *(CountedRows(node.input, requested + test(_is_not_true(p))) for p in parts),
    )
    if reached.untold:
        yield from untold(way, requested, reached)
    elif not reached.count:
        yield from descent.below(node.input, requested, way)
    elif (partition := _ranked_by(node)) is not None:
        yield from _outranked(descent, node, partition, requested, reached, way)
    else:
        at = PruningKind.HAVING if _is_of_groups(node.input) else PruningKind.FILTER
        reported = "; ".join(
            _failed_text(text_over(node.input, p), f, reached) for p, f in zip(parts, failed, strict=True) if f.count
        )
        words = (
            f"{'HAVING' if at is PruningKind.HAVING else 'the filter'} drops them: "
            f"{reported or text_over(node.input, node.condition)}"
        )
        yield pruning_step(way, at, words, predicate_over(node, requested), [(tested, reached)])


def _ranked_by(node: Filter) -> tuple[str, ...] | None:
    """Return the partition of a filter on ranks alone, such as DISTINCT ON; None for any other filter."""
    ranks = {i.name: i.expr for i in node.input.items} if isinstance(node.input, Window) else {}
    read = [ranks.get(n) for n in columns_of(node.condition)]
    kinds = (exp.RowNumber, exp.Rank, exp.DenseRank)
    if not read or not all(isinstance(r, exp.Window) and isinstance(r.this, kinds) for r in read):
        return None
    partition = [e for r in read if r is not None for e in r.args.get("partition_by") or ()]
    return tuple(e.name for e in partition) if all(isinstance(e, exp.Column) for e in partition) else None


def _outranked(
    descent: Descent,
    node: Filter,
    partition: tuple[str, ...],
    requested: RowPredicate,
    reached: FoundRows,
    way: DescentPath,
) -> Iterator[PruningOperator]:
    """Yield the rows of the same partition that the filter passes on instead."""
    same_ones = matching(narrowed(node.input, requested, descent.query_runner.definition), *same(None, partition))
    (winners,) = descent.look(CountedRows(node, same_ones if partition else RowPredicate(), "came first instead"))
    by = f" of each {', '.join(n.rpartition('.')[2] for n in partition)}" if partition else ""
    words = f"only the first rows{by} pass: other rows come first"
    yield pruning_step(
        way,
        PruningKind.TOP,
        words,
        requested,
        [(node, winners), (node.input, replace(reached, words="came after them"))],
    )


def _with_parts(node: Filter, parts: tuple[Expr, ...], requested: RowPredicate) -> Project:
    """Return the rows that reach a filter: columns of its condition, requested columns, and each conjunct's value."""
    named = (
        columns_of(node.condition) | {n for t in requested.tests for n in columns_of(t)} | set(node.schema.key or ())
    )
    items = [item_of(c, hidden=c.hidden or c.name not in named) for c in node.schema]
    taken = set(node.schema.names)
    items += [Item(t, p, pa.bool_()) for p in parts if (t := text_over(node.input, p)) not in taken]
    return Project(node.input, tuple({i.name: i for i in items}.values()))


def _is_not_true(part: Expr) -> Expr:
    return exp.Not(this=exp.paren(exp.NullSafeEQ(this=exp.paren(part.copy()), expression=exp.true())))


def _failed_text(text: str, failed: FoundRows, reached: FoundRows) -> str:
    if reached.count == 1:
        return f"{text} is {'NULL' if reached.rows[0].get(text) is None else 'FALSE'}"
    return f"{text} is not TRUE for {failed.count:,} of {reached.count:,} rows"


def _is_of_groups(node: Node) -> bool:
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate)


def _union(descent: Descent, node: Union, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    branches = [(n, branch_predicate(node, n, requested)) for n in range(len(node.branches))]
    live = [(n, w) for n, w in branches if not any(map(is_impossible, w.tests))]
    if not live:
        yield pruning_step(way, PruningKind.VALUES, "no branch of UNION gives such a row", requested)
    found = [f for n, w in live for f in descent.below(node.branches[n], w, way.by(f"branch {n + 1} of UNION"))]
    able = [f for f in found if f.at is not PruningKind.VALUES]  # a branch with another constant never gives such a row
    yield from able or found


def _set_operation(
    descent: Descent, node: SetOperation, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    left, right = passing(node, requested)[0]
    first, second = descent.look(
        CountedRows(node.left, left, "on the left"), CountedRows(node.right, right, "on the right")
    )
    near = [(node.left, first), (node.right, second)]
    if first.untold or second.untold:
        yield from untold(way, requested, first, second)
    elif not first.count:
        yield from descent.below(node.left, left, way.by(f"the left of {node.kind.upper()}"))
    elif node.kind is SetKind.EXCEPT:
        yield pruning_step(way, PruningKind.EXCEPT, "EXCEPT removes them: the right side has them too", requested, near)
    elif not second.count:
        yield from descent.below(node.right, right, way.by(f"the right of {node.kind.upper()}"))
    else:
        yield pruning_step(
            way, PruningKind.INTERSECT, "INTERSECT: both sides have such rows, but none in common", requested, near
        )


def _aggregate(
    descent: Descent, node: Aggregate, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Explain missing groups.

    Tests of aggregates are not traced further: the existing groups are shown with their values.
    """
    if node.grouping_sets is not None:
        yield from _grouping_sets(descent, node, requested, way)
        return
    (group,), left = passing(node, requested)
    words = f"GROUP BY {group_text(node)}" if node.keys else "the aggregate"
    if left or not node.keys:
        found = list(_groups(descent, node, requested, group, words, way))
        if found:
            yield from found
            return
    yield from descent.below(node.input, group, way.without(predicate_over(node, left), words))


def _groups(
    descent: Descent, node: Aggregate, requested: RowPredicate, group: RowPredicate, words: str, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield the groups that exist with other values, or that they are not available; nothing if there are none."""
    on_keys, on_values = requested.split(node.schema.key or ())
    (there,) = descent.look(
        CountedRows(node, on_keys, "the group as it is" if on_keys else "the groups that there are")
    )
    if there.untold and _is_reached(descent, node, group):
        yield from untold(way, requested, there)
    elif there.count:
        found = way.without(predicate_over(node, on_values), words)
        reported = predicate_over(node, requested)
        yield pruning_step(
            found, PruningKind.GROUP, f"{words}: the group exists, with other values", reported, [(node, there)]
        )


def _is_reached(descent: Descent, node: Aggregate, group: RowPredicate) -> bool:
    """Return whether rows of the group exist, or may exist."""
    (reached,) = descent.look(CountedRows(node.input, group))
    return bool(reached.untold or reached.count)


def _grouping_sets(
    descent: Descent, node: Aggregate, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Follow each grouping set that may give such a row as a separate path."""
    on_keys, on_values = requested.split(node.schema.key or ())
    sets = [(members, _of_set(node, members, on_keys)) for members in node.grouping_sets or ()]
    able = [(members, group) for members, group in sets if group is not None]
    words = "; ".join(f"({group_text(node, members)})" for members, _ in sets)
    if not able:
        reported = predicate_over(node, requested)
        yield pruning_step(way, PruningKind.VALUES, f"no grouping set gives such a row: {words}", reported)
        return
    if on_values or any(not members for members, _ in able):
        found = list(_groups(descent, node, requested, RowPredicate(), f"GROUP BY GROUPING SETS ({words})", way))
        if found:
            yield from found
            return
    way = way.without(predicate_over(node, on_values), "GROUP BY")
    for members, group in able:
        yield from descent.below(node.input, group, way.by(f"the grouping set ({group_text(node, members)})"))


def _of_set(node: Aggregate, members: tuple[str, ...], on_keys: RowPredicate) -> RowPredicate | None:
    """Return the predicate on the input of a set's groups with these keys; None if the set has no such groups."""
    group = on_keys.over(set_columns(node, members))
    compared = (exp.EQ, exp.Is, exp.NullSafeEQ)
    if any(map(is_impossible, group.tests)):
        return None
    tests = tuple(t for t in group.tests if columns_of(t) or not isinstance(t, compared))
    return replace(group, tests=tests)


def _window(descent: Descent, node: Window, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    """Explain rows of a window function, which drops none: the row has another value, or its input has no such row."""
    own, left = requested.split(node.input.schema.names)
    words = "the window functions"
    way = way.without(predicate_over(node, left), words)
    if not left:
        yield from descent.below(node.input, own, way)
        return
    (there,) = descent.look(CountedRows(node, own, "the row as it is"))
    if there.untold:
        yield from untold(way, requested, there)
    elif there.count:
        reported = predicate_over(node, requested)
        yield pruning_step(
            way, PruningKind.WINDOW, f"{words} compute other values for the row", reported, [(node, there)]
        )
    else:
        yield from descent.below(node.input, own, way)


def _top(descent: Descent, node: TopK, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    """Yield the rows that come first instead of the existing rows below."""
    own, number = requested.split(node.input.schema.names)
    way = way.without(number, "the first rows of an order")

    def dropped(there: FoundRows) -> Iterator[PruningOperator]:
        (winners,) = descent.look(CountedRows(node, _partition(descent, node, own), "came first instead"))
        near = [(node, winners), (node.input, there)]
        yield pruning_step(way, PruningKind.TOP, _top_words(node), predicate_over(node, requested), near)

    yield from descent.reached(node.input, own, way, "came after them", dropped)


def _partition(descent: Descent, node: TopK, own: RowPredicate) -> RowPredicate:
    """Return the predicate on all rows in the partitions of these rows."""
    known = own.split(node.partition)[0]
    if set(node.partition) <= set(fixed_columns(known.tests)):
        return known
    return matching(narrowed(node.input, own, descent.query_runner.definition), *same(None, node.partition))


def _top_words(node: TopK) -> str:
    number = "" if node.limit is None else f"the first {counted(node.limit, 'row')}"
    skipped = f"after {node.offset:,}" if node.offset else ""
    by = f"of each {', '.join(n.rpartition('.')[2] for n in node.partition)}" if node.partition else ""
    order = ", ".join(text_over(node.input, o.expr) + (" DESC" if o.descending else "") for o in node.order)
    reported = " ".join(w for w in (number or "the rows", skipped, by, f"by {order}" if order else "") if w)
    return f"only {reported} pass: other rows come first"


def _unnest(descent: Descent, node: Unnest, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    own, left = requested.split(node.input.schema.names)
    reason = "is empty or NULL" if not left else "has no such element"

    def dropped(there: FoundRows) -> Iterator[PruningOperator]:
        words = f"UNNEST: {text_over(node.input, node.expr)} {reason}"
        yield pruning_step(way, PruningKind.UNNEST, words, requested, [(node.input, there)])

    yield from descent.reached(node.input, own, way.without(left, "UNNEST"), "have no such element", dropped)


def _values(descent: Descent, node: Values, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    yield pruning_step(
        way,
        PruningKind.VALUES,
        f"the query's VALUES has {counted(len(node.rows), 'row')}, and none is such a row",
        requested,
    )


def _recursion(
    descent: Descent, node: Recursion, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Search the first rows, and one step back from the missing row.

    Rows that the step would need are not followed further.
    """
    own, left = requested.split(names_of(node))
    name = f"the recursion {node.name}"
    way = way.without(left, name)
    if name in way.steps:
        yield pruning_step(way, PruningKind.RECURSION, f"{name} has no row with {condition_text(own)}", own)
        return
    yield from descent.below(node.base, own, way.by(f"first rows of {node.name}"))
    yield from descent.below(step_over(node), own, way.by(name))


LOSSES: Losses = {
    Scan: pruned_by_scan,
    Filter: _filter,
    Project: _project,
    Distinct: _distinct,
    Union: _union,
    SetOperation: _set_operation,
    Aggregate: _aggregate,
    Join: pruned_by_join,
    Window: _window,
    TopK: _top,
    Unnest: _unnest,
    TimeWindow: pruned_by_time_window,
    Values: _values,
    Emit: pruned_by_emit,
    InOrder: pruned_in_order,
    SplAggregate: pruned_by_sequence,
    SplJoin: pruned_by_spl_join,
    PredicateWindow: pruned_by_sequence,
    Recursion: _recursion,
}
"""Functions that follow each operator's missing rows down."""
NOT_FOLLOWED: dict[type[Node], str] = {
    Observed: "its rows are events of a subscription, not rows of a view",
    Last: "lowered plans do not contain it",
}
"""Operators without such a function, with the reason."""
