"""An expression in place of a name that WITH gives it.

In: a query, a name, an expression. Out: the query without the name. Blocks that declare the name themselves are left as they are.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from sqlglot import exp

from belvedere.errors import Span
from belvedere.sqlpp.query_names import declared
from belvedere.sqlpp.query_tree import Expr, Name, Query, QueryBlock, QueryExpression

T = TypeVar("T")


def substituted(value: T, name: str, by: Expr) -> T:
    """The value, a part of a syntax tree, with the expression in place of the name."""
    result: Any = _changed(value, name, by)
    return result  # type: ignore[no-any-return]


def _changed(value: Any, name: str, by: Expr) -> Any:
    if isinstance(value, exp.Expr):
        return _expression(value, name, by)
    if isinstance(value, tuple):
        return tuple(_changed(v, name, by) for v in value)
    if not is_dataclass(value) or isinstance(value, type | Name | Span):
        return value
    if isinstance(value, QueryBlock) and name in declared(value):
        return value
    if isinstance(value, Query) and any(let.name.text == name for let in value.bindings):
        return value
    return replace(value, **{f.name: _changed(getattr(value, f.name), name, by) for f in fields(value)})


def _expression(expr: Expr, name: str, by: Expr) -> Expr:
    def change(node: Any) -> Any:
        if isinstance(node, exp.Column) and node.name == name:
            return by.copy()
        if isinstance(node, QueryExpression):
            return QueryExpression(query=_changed(node.query, name, by))
        return node

    found: Expr = expr.transform(change)
    found.meta.update(expr.meta)
    return found
