"""Substitution of expressions for names.

In: a part of a syntax tree, and expressions by name. Out: the same part without the names. Blocks that declare a name
themselves keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from sqlglot import exp

from belvedere.errors import Span
from belvedere.sqlpp.query_names import declared
from belvedere.sqlpp.query_tree import Expr, Name, Query, QueryBlock, QueryExpression

T = TypeVar("T")


def substituted(value: T, by: Mapping[str, Expr]) -> T:
    """Replace names in a part of a syntax tree by expressions."""
    result: Any = _changed(value, by)
    return result  # type: ignore[no-any-return]


def _changed(value: Any, by: Mapping[str, Expr]) -> Any:
    if isinstance(value, exp.Expr):
        return _expression(value, by)
    if isinstance(value, tuple):
        return tuple(_changed(v, by) for v in value)
    if not is_dataclass(value) or isinstance(value, type | Name | Span):
        return value
    own = declared(value) if isinstance(value, QueryBlock) else set()
    own |= {let.name.text for let in value.bindings} if isinstance(value, Query) else set()
    by = {n: e for n, e in by.items() if n not in own}
    return replace(value, **{f.name: _changed(getattr(value, f.name), by) for f in fields(value)}) if by else value


def _expression(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    def change(node: Any) -> Any:
        if isinstance(node, exp.Column) and node.name in by:
            return by[node.name].copy()
        if isinstance(node, QueryExpression):
            return QueryExpression(query=_changed(node.query, by))
        return node

    found: Expr = expr.transform(change)
    found.meta.update(expr.meta)
    return found
