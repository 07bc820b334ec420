"""SQL aggregates over a window: `AVG(w.val)` is ARRAY_AVG over the window's tuples.

In: a block. Out: the block in which array functions replace the aggregates after WINDOW BY that read the window. SQL++
defines this for groups: `SUM(w.v - 1)` is `ARRAY_SUM((FROM w AS m SELECT VALUE m.v - 1))`. COUNT(*) counts the window's
tuples. Aggregates that read no window stay, since there is no group after WINDOW BY. In END, the same aggregates are
over the window's tuples up to END's tuple.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.sqlpp.query_tree import (
    MEMBER,
    Boundary,
    Expr,
    FromTerm,
    Name,
    Query,
    QueryBlock,
    QueryExpression,
    RunningAggregate,
    Select,
    called,
    reference,
)

RUNNING = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
"""Aggregates that END can use."""


def over_windows(block: QueryBlock) -> QueryBlock:
    """Return the block with aggregates over its window as functions of arrays."""
    if block.window is None:
        return block
    window = block.window.name.text

    def change(expr: Expr) -> Expr:
        changed: Expr = expr.transform(lambda node: _of_array(node, window))
        return changed

    return replace(
        block,
        window=replace(block.window, end=_up_to_end(block.window.end, window)),
        select=block.select.changed(change),
        window_lets=tuple(replace(let, value=change(let.value)) for let in block.window_lets),
        window_having=None if block.window_having is None else change(block.window_having),
    )


def _up_to_end(end: Boundary | None, window: str) -> Boundary | None:
    """Return END with its aggregates over the window as running aggregates."""
    if end is None or end.when is None:
        return end
    changed: Expr = end.when.transform(lambda node: _running(node, window))
    changed.meta.update(end.when.meta)
    return replace(end, when=changed)


def _running(node: Any, window: str) -> Any:
    if called(node) not in RUNNING or len(node.expressions) != 1:
        return node
    argument = node.expressions[0]
    if called(node) == "COUNT" and (isinstance(argument, exp.Star) or _is_window(argument, window)):
        return RunningAggregate(function="COUNT")
    reads = [c for c in argument.find_all(exp.Column) if _is_window(c, window)]
    if not all(isinstance(c.parent, exp.Dot) for c in reads) or not reads or argument.find(QueryExpression):
        return node
    return RunningAggregate(function=called(node), value=_of_member(argument, window))


def _is_window(node: Any, window: str) -> bool:
    return isinstance(node, exp.Column) and node.name == window


def _of_array(node: Any, window: str) -> Any:
    if called(node) not in GROUP_AGGREGATES or len(node.expressions) != 1:
        return node
    argument = node.expressions[0]
    if isinstance(argument, exp.Star):
        array: Expr = reference(window)
    elif any(c.name == window for c in argument.find_all(exp.Column)) and not argument.find(QueryExpression):
        if isinstance(argument, exp.Bracket) or argument.find(exp.Star):  # w[*].v is an array already
            array = argument.copy()
        else:
            array = reference(window) if isinstance(argument, exp.Column) else _values(argument, window)
    else:
        return node
    return exp.Anonymous(this=f"ARRAY_{called(node)}", expressions=[array])


def _values(argument: Expr, window: str) -> Expr:
    """Return `(FROM w AS m SELECT VALUE ...)`."""

    select = Select(value=_of_member(argument, window))
    block = QueryBlock(select, sources=(FromTerm(Name(MEMBER), reference(window)),))
    return QueryExpression(query=Query((block,)))


def _of_member(argument: Expr, window: str) -> Expr:
    """Return an expression over the window as one over each of its tuples."""
    found: Expr = argument.copy().transform(lambda node: reference(MEMBER) if _is_window(node, window) else node)
    return found
