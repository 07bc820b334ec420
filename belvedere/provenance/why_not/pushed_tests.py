"""Tests that can be pushed below an operator without a change of its result.

In: an operator and the requested predicate on its rows. Out: the predicate on each input, and the remaining tests above
the operator. A test of an aggregate's group can be pushed down, a test of its sum cannot. An operator without an entry
in `PASSES` lets no test pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Window,
)
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.why.time_windows import in_window

Passed = tuple[tuple[RowPredicate, ...], RowPredicate]
"""Predicates on each input, and the remaining one."""


def passing(node: Node, requested: RowPredicate) -> Passed:
    """Split the requested predicate into predicates on the inputs, and the rest on the operator's own rows."""
    found = PASSES.get(type(node))
    return found(node, requested) if found is not None else (tuple(RowPredicate() for _ in node.inputs), requested)


def _as_is(node: Filter | Distinct, requested: RowPredicate) -> Passed:
    return (requested,), RowPredicate()


def _project(node: Project, requested: RowPredicate) -> Passed:
    return (requested.over({i.name: i.expr for i in node.items}),), RowPredicate()


def _union(node: Union, requested: RowPredicate) -> Passed:
    return tuple(branch_predicate(node, number, requested) for number in range(len(node.branches))), RowPredicate()


def branch_predicate(node: Union, number: int, requested: RowPredicate) -> RowPredicate:
    """Return the predicate on one branch of a union."""
    names = node.branches[number].schema.names
    mapping: dict[str, Any] = {c.name: column(n) for c, n in zip(node.schema.columns, names, strict=False)}
    if node.branch is not None:
        mapping[node.branch] = exp.Literal.number(number)
    return requested.over(mapping)


def _sides(node: SetOperation, requested: RowPredicate) -> Passed:
    pairs = zip(node.left.schema.names, node.right.schema.names, strict=True)
    return (requested, requested.over({mine: column(theirs) for mine, theirs in pairs})), RowPredicate()


def _aggregate(node: Aggregate, requested: RowPredicate) -> Passed:
    if node.grouping_sets is not None or not node.keys:
        return (RowPredicate(),), requested
    group, left = requested.split([k.name for k in node.keys])
    return (group.over({k.name: k.expr for k in node.keys}),), left


def set_columns(node: Aggregate, members: Collection[str]) -> dict[str, Expr]:
    """Return the keys of one grouping set's rows: the keys outside the set are NULL."""
    found: dict[str, Expr] = {k.name: k.expr if k.name in members else exp.Null() for k in node.keys}
    if node.grouping_id is not None:
        bits = "".join("0" if k.name in members else "1" for k in node.keys)
        found[node.grouping_id] = exp.Literal.number(int(bits or "0", 2))
    return found


def _join(node: Join, requested: RowPredicate) -> Passed:
    left, rest = requested.split(node.left.schema.names)
    right, mixed = rest.split(node.right.schema.names)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return (requested, RowPredicate()), RowPredicate()
    if node.kind is JoinKind.INNER:
        return (left, right), mixed
    if node.kind is JoinKind.LEFT:
        return (left, RowPredicate()), rest
    if node.kind is JoinKind.RIGHT:
        return (RowPredicate(), right), left + mixed
    return (RowPredicate(), RowPredicate()), requested


def partitions(node: Window) -> list[tuple[Any, ...]]:
    """Return the distinct partitions of a Window's functions."""
    found: list[tuple[Any, ...]] = []
    for window in (w for i in node.items for w in i.expr.find_all(exp.Window)):
        partition = tuple(window.args.get("partition_by") or ())
        if partition not in found:
            found.append(partition)
    return found


def _window(node: Window, requested: RowPredicate) -> Passed:
    names = set(node.input.schema.names)
    for partition in partitions(node):
        names &= {e.name for e in partition if isinstance(e, exp.Column)}
    passed, left = requested.split(names)
    return (passed,), left


def _top(node: TopK, requested: RowPredicate) -> Passed:
    passed, left = requested.split(node.partition)
    return (passed,), left


def _unnest(node: Unnest, requested: RowPredicate) -> Passed:
    passed, left = requested.split(node.input.schema.names)
    return (passed,), left


def _time_window(node: TimeWindow, requested: RowPredicate) -> Passed:
    names = node.partition if node.kind is TimeWindowKind.SESSION else node.input.schema.names
    passed, left = requested.split(names)
    return (passed + (in_window(node, requested) or RowPredicate()),), left


def _predicate_window(node: PredicateWindow, requested: RowPredicate) -> Passed:
    passed, left = requested.split(node.partition)
    return (passed.over({n: column(k) for n, k in zip(node.partition, node.spec.keys, strict=True)}),), left


PASSES: dict[type[Node], Callable[[Any, RowPredicate], Passed]] = {
    Filter: _as_is,
    Project: _project,
    Union: _union,
    Distinct: _as_is,
    SetOperation: _sides,
    Aggregate: _aggregate,
    Join: _join,
    Window: _window,
    TopK: _top,
    Unnest: _unnest,
    TimeWindow: _time_window,
    PredicateWindow: _predicate_window,
}
