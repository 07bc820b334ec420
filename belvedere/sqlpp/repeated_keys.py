"""Repeated GROUP BY keys: `GROUP BY g.station SELECT g.station` refers to the key.

In: a block. Out: the block with every expression after GROUP BY that equals a key's expression replaced by the key's
variable, as SQL++ rewrites it. Arguments of aggregates are not replaced, since they are in the scope before GROUP BY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.sqlpp.query_tree import Expr, QueryBlock, called, changed_lets, reference


def name_group_keys(block: QueryBlock) -> QueryBlock:
    """Return the block with repeated key expressions as variables; unchanged without GROUP BY."""
    if block.group is None:
        return block
    keys = [(k.value, k.name.text) for k in block.group.keys]

    def rewrite(expr: Expr) -> Expr:
        return _replaced(expr, keys)

    window = block.window
    if window is not None:
        order = tuple(replace(k, expr=rewrite(k.expr)) for k in window.order)
        window = replace(window, partition=tuple(rewrite(p) for p in window.partition), order=order)
    return replace(behind_group(block, rewrite), window=window)


def behind_group(block: QueryBlock, change: Callable[[Expr], Expr]) -> QueryBlock:
    """Change the LETs and HAVING after GROUP BY, and SELECT if there is no WINDOW BY before it."""
    having = None if block.having is None else change(block.having)
    select = block.select.changed(change) if block.window is None else block.select
    return replace(block, group_lets=changed_lets(block.group_lets, change), having=having, select=select)


def _replaced(expr: Expr, keys: list[tuple[Expr, str]]) -> Expr:
    def change(node: Any) -> Any:
        if called(node) in GROUP_AGGREGATES:
            return node.copy()  # another node: its parts are not replaced
        return next((reference(variable) for key, variable in keys if node == key), node)

    found: Expr = expr.transform(change)
    if "span" in expr.meta:
        found.meta["span"] = expr.meta["span"]
    return found
