"""SQL aggregates over a window: `AVG(w.val)` is ARRAY_AVG over the window's tuples.

In: a block. Out: the block in which array functions replace the aggregates after WINDOW BY that read the window. SQL++
defines this for groups: `SUM(w.v - 1)` is `ARRAY_SUM((FROM w AS m SELECT VALUE m.v - 1))`. COUNT(*) counts the window's
tuples. Aggregates that read no window stay, since there is no group after WINDOW BY.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.sqlpp.query_tree import (
    Expr,
    FromTerm,
    Name,
    Query,
    QueryBlock,
    QueryExpression,
    Select,
    called,
    reference,
)

MEMBER = "$member"
"""Variable of a window's tuple; users cannot write this name."""


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
        select=block.select.changed(change),
        window_lets=tuple(replace(let, value=change(let.value)) for let in block.window_lets),
        window_having=None if block.window_having is None else change(block.window_having),
    )


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

    def member(node: Any) -> Any:
        return reference(MEMBER) if isinstance(node, exp.Column) and node.name == window else node

    select = Select(value=argument.copy().transform(member))
    block = QueryBlock(select, sources=(FromTerm(Name(MEMBER), reference(window)),))
    return QueryExpression(query=Query((block,)))
