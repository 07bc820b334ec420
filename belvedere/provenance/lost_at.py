"""What each operator knows of rows of it that are missing: it has input that would do and drops it, or its input has none.

In: an operator, the tests of its missing rows. Out: where they vanish. Each operator has one function in `LOSSES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.names import counted
from belvedere.plan.expressions import columns_of, conjuncts
from belvedere.plan.keys import item_of
from belvedere.plan.nodes import (
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
from belvedere.plan.recursion import Recursion
from belvedere.plan.spl_aggregate import SplAggregate
from belvedere.plan.spl_join import SplJoin
from belvedere.plan.text import expression_text
from belvedere.plan.time_nodes import Emit, InOrder, TimeWindow
from belvedere.plan.window_by import PredicateWindow
from belvedere.provenance.constants import fixed_columns, is_impossible
from belvedere.provenance.lost import Descent, Look, Losses, Lost, Way, Where, lost, untold
from belvedere.provenance.lost_inputs import lost_scan
from belvedere.provenance.lost_joins import lost_join
from belvedere.provenance.lost_times import lost_emit, lost_in_order, lost_sequence, lost_spl_join, lost_time_window
from belvedere.provenance.passing import branch_wanted, passing
from belvedere.provenance.reads import Read
from belvedere.provenance.wanted import Wanted, matching, narrowed, same, test


def _project(descent: Descent, node: Project, wanted: Wanted, way: Way) -> Iterator[Lost]:
    below = passing(node, wanted)[0][0]
    never = [t for t, b in zip(wanted.tests, below.tests, strict=True) if is_impossible(b)]
    if never:
        yield lost(way, Where.VALUES, f"{expression_text(never[0])} never holds: the query gives another constant", wanted)
        return
    yield from descent.below(node.input, below, way)


def _distinct(descent: Descent, node: Distinct, wanted: Wanted, way: Way) -> Iterator[Lost]:
    yield from descent.below(node.input, wanted, way)


def _filter(descent: Descent, node: Filter, wanted: Wanted, way: Way) -> Iterator[Lost]:
    """The rows that reached it, with the columns of its condition and what each part of that is for them."""
    parts = conjuncts(node.condition)
    tested = _with_parts(node, parts, wanted)
    reached, *failed = descent.look(
        Look(tested, wanted, "reached it"), *(Look(node.input, wanted + test(_is_not_true(p))) for p in parts)
    )
    if reached.untold:
        yield from untold(way, wanted, reached)
    elif not reached.count:
        yield from descent.below(node.input, wanted, way)
    elif (partition := _ranked_by(node)) is not None:
        yield from _outranked(descent, node, partition, wanted, reached, way)
    else:
        at = Where.HAVING if _is_of_groups(node.input) else Where.FILTER
        told = "; ".join(_failed_text(p, f, reached) for p, f in zip(parts, failed, strict=True) if f.count)
        word = "HAVING" if at is Where.HAVING else "the filter"
        yield lost(way, at, f"{word} drops them: {told or expression_text(node.condition)}", wanted, [(tested, reached)])


def _ranked_by(node: Filter) -> tuple[str, ...] | None:
    """The partition of a filter on ranks alone, as DISTINCT ON becomes one; None for any other filter."""
    ranks = {i.name: i.expr for i in node.input.items} if isinstance(node.input, Window) else {}
    read = [ranks.get(n) for n in columns_of(node.condition)]
    kinds = (exp.RowNumber, exp.Rank, exp.DenseRank)
    if not read or not all(isinstance(r, exp.Window) and isinstance(r.this, kinds) for r in read):
        return None
    partition = [e for r in read if r is not None for e in r.args.get("partition_by") or ()]
    return tuple(e.name for e in partition) if all(isinstance(e, exp.Column) for e in partition) else None


def _outranked(
    descent: Descent, node: Filter, partition: tuple[str, ...], wanted: Wanted, reached: Read, way: Way
) -> Iterator[Lost]:
    """The rows of the same partition that the filter passes on instead."""
    same_ones = matching(narrowed(node.input, wanted, descent.asker.definition), *same(None, partition))
    (winners,) = descent.look(Look(node, same_ones if partition else Wanted(), "won in their place"))
    by = f" of each {', '.join(n.rpartition('.')[2] for n in partition)}" if partition else ""
    words = f"only the first rows{by} are passed on: others stand there"
    yield lost(way, Where.TOP, words, wanted, [(node, winners), (node.input, replace(reached, words="came after them"))])


def _with_parts(node: Filter, parts: tuple[Expr, ...], wanted: Wanted) -> Project:
    """The rows that reach a filter: the columns of its condition and those that are asked for, and each part's value."""
    named = columns_of(node.condition) | {n for t in wanted.tests for n in columns_of(t)} | set(node.schema.key or ())
    items = [item_of(c, hidden=c.hidden or c.name not in named) for c in node.schema]
    taken = set(node.schema.names)
    items += [Item(t, p, pa.bool_()) for p in parts if (t := expression_text(p)) not in taken]
    return Project(node.input, tuple({i.name: i for i in items}.values()))


def _is_not_true(part: Expr) -> Expr:
    return exp.Not(this=exp.paren(exp.NullSafeEQ(this=exp.paren(part.copy()), expression=exp.true())))


def _failed_text(part: Expr, failed: Read, reached: Read) -> str:
    text = expression_text(part)
    if reached.count == 1:
        return f"{text} is {'NULL' if reached.rows[0].get(text) is None else 'FALSE'}"
    return f"{text} is not TRUE for {failed.count:,} of {reached.count:,} rows"


def _is_of_groups(node: Node) -> bool:
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate)


def _union(descent: Descent, node: Union, wanted: Wanted, way: Way) -> Iterator[Lost]:
    branches = [(n, branch_wanted(node, n, wanted)) for n in range(len(node.branches))]
    live = [(n, w) for n, w in branches if not any(map(is_impossible, w.tests))]
    if not live:
        yield lost(way, Where.VALUES, "no branch of UNION gives such a row", wanted)
    found = [f for n, w in live for f in descent.below(node.branches[n], w, way.by(f"branch {n + 1} of UNION"))]
    able = [f for f in found if f.at is not Where.VALUES]  # a branch with another constant never gives such a row
    yield from able or found


def _set_operation(descent: Descent, node: SetOperation, wanted: Wanted, way: Way) -> Iterator[Lost]:
    left, right = passing(node, wanted)[0]
    first, second = descent.look(Look(node.left, left, "on the left"), Look(node.right, right, "on the right"))
    near = [(node.left, first), (node.right, second)]
    if first.untold or second.untold:
        yield from untold(way, wanted, first, second)
    elif not first.count:
        yield from descent.below(node.left, left, way.by(f"the left of {node.kind.upper()}"))
    elif node.kind is SetKind.EXCEPT:
        yield lost(way, Where.EXCEPT, "EXCEPT takes them out: the right side has them, too", wanted, near)
    elif not second.count:
        yield from descent.below(node.right, right, way.by(f"the right of {node.kind.upper()}"))
    else:
        yield lost(way, Where.INTERSECT, "INTERSECT: both sides have such rows, but none in common", wanted, near)


def _aggregate(descent: Descent, node: Aggregate, wanted: Wanted, way: Way) -> Iterator[Lost]:
    """Tests of aggregates are not followed: the groups are told, with what they have instead."""
    (group,), left = passing(node, wanted)
    by = ", ".join(k.name.rpartition(".")[2] for k in node.keys)
    words = f"GROUP BY {by}" if by else "the aggregate"
    on_keys, on_values = wanted.split([k.name for k in node.keys])
    if node.grouping_sets is not None:
        group = _of_sets(node, on_keys)
        left = on_values
    if left or not node.keys:
        (there,) = descent.look(Look(node, on_keys, "the group as it is" if on_keys else "the groups that there are"))
        if there.untold and _is_reached(descent, node, group):
            yield from untold(way, wanted, there)
            return
        if there.count:
            found = way.without(on_values, words)
            yield lost(found, Where.GROUP, f"{words}: the group is there, with other values", wanted, [(node, there)])
            return
    yield from descent.below(node.input, group, way.without(left, words))


def _is_reached(descent: Descent, node: Aggregate, group: Wanted) -> bool:
    """Whether rows are there that make the group, or nobody can tell that."""
    (reached,) = descent.look(Look(node.input, group))
    return bool(reached.untold or reached.count)


def _of_sets(node: Aggregate, on_keys: Wanted) -> Wanted:
    """The rows that go into groups with these keys: one that must be NULL may be of a set without it."""
    fixed = {n for n, v in fixed_columns(on_keys.tests).items() if not isinstance(v, exp.Null)}
    tests = tuple(t for t in on_keys.tests if columns_of(t) <= fixed)
    return Wanted(tests).over({k.name: k.expr for k in node.keys})


def _window(descent: Descent, node: Window, wanted: Wanted, way: Way) -> Iterator[Lost]:
    """No row is dropped: the row is there with another value of a window function, or its input has none."""
    own, left = wanted.split(node.input.schema.names)
    words = "the window functions"
    if left:
        (there,) = descent.look(Look(node, own, "the row as it is"))
        if there.untold or there.count:
            yield from untold(way, wanted, there)
            if there.count:
                found = way.without(left, words)
                yield lost(found, Where.WINDOW, f"{words} give the row other values", wanted, [(node, there)])
            return
    yield from descent.below(node.input, own, way.without(left, words))


def _top(descent: Descent, node: TopK, wanted: Wanted, way: Way) -> Iterator[Lost]:
    """The rows that stand in the place of those that were there below."""
    own, number = wanted.split(node.input.schema.names)
    (there,) = descent.look(Look(node.input, own, "came after them"))
    way = way.without(number, "the first rows of an order")
    if there.untold:
        yield from untold(way, wanted, there)
    elif not there.count:
        yield from descent.below(node.input, own, way)
    else:
        (winners,) = descent.look(Look(node, _partition(descent, node, own), "won in their place"))
        yield lost(way, Where.TOP, _top_words(node), wanted, [(node, winners), (node.input, there)])


def _partition(descent: Descent, node: TopK, own: Wanted) -> Wanted:
    """All rows of the partitions of these."""
    known = own.split(node.partition)[0]
    if set(node.partition) <= set(fixed_columns(known.tests)):
        return known
    return matching(narrowed(node.input, own, descent.asker.definition), *same(None, node.partition))


def _top_words(node: TopK) -> str:
    number = "" if node.limit is None else f"the first {counted(node.limit, 'row')}"
    skipped = f"after {node.offset:,}" if node.offset else ""
    by = f"of each {', '.join(n.rpartition('.')[2] for n in node.partition)}" if node.partition else ""
    order = ", ".join(expression_text(o.expr) + (" DESC" if o.descending else "") for o in node.order)
    told = " ".join(w for w in (number or "the rows", skipped, by, f"by {order}" if order else "") if w)
    return f"only {told} are passed on: others stand there"


def _unnest(descent: Descent, node: Unnest, wanted: Wanted, way: Way) -> Iterator[Lost]:
    own, left = wanted.split(node.input.schema.names)
    (there,) = descent.look(Look(node.input, own, "have no such element"))
    if there.untold:
        yield from untold(way, wanted, there)
    elif there.count:
        text = expression_text(node.expr)
        reason = "is empty or NULL" if not left else "has no such element"
        yield lost(way, Where.UNNEST, f"UNNEST: {text} {reason}", wanted, [(node.input, there)])
    else:
        yield from descent.below(node.input, own, way.without(left, "UNNEST"))


def _values(descent: Descent, node: Values, wanted: Wanted, way: Way) -> Iterator[Lost]:
    yield lost(way, Where.VALUES, f"the query writes {counted(len(node.rows), 'row')} out: none is such", wanted)


def _recursion(descent: Descent, node: Recursion, wanted: Wanted, way: Way) -> Iterator[Lost]:
    looks = descent.look(*(Look(i, Wanted(), "may lead to it") for i in node.inputs))
    words = f"WITH RECURSIVE {node.name} does not reach it; its rows cannot be followed back"
    yield lost(
        way.without(wanted, "WITH RECURSIVE"), Where.RECURSION, words, wanted, list(zip(node.inputs, looks, strict=True))
    )


LOSSES: Losses = {
    Scan: lost_scan,
    Filter: _filter,
    Project: _project,
    Distinct: _distinct,
    Union: _union,
    SetOperation: _set_operation,
    Aggregate: _aggregate,
    Join: lost_join,
    Window: _window,
    TopK: _top,
    Unnest: _unnest,
    TimeWindow: lost_time_window,
    Values: _values,
    Emit: lost_emit,
    InOrder: lost_in_order,
    SplAggregate: lost_sequence,
    SplJoin: lost_spl_join,
    PredicateWindow: lost_sequence,
    Recursion: _recursion,
}
"""How each operator's missing rows are followed down."""
