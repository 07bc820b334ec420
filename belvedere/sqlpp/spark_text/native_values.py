"""Dispatch of expressions to handlers by kind of node.

In: an expression and an environment of `Value`s. Out: its `Value`; arrays keep MISSING members. `native` fills the
table of handlers and is the interface for other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from belvedere.sqlpp.query_tree import Expr
from belvedere.sqlpp.spark_text.sql_values import SqlValue, Untranslatable, Value, merge, sql_type

Environment = Mapping[str, Value]
HANDLERS: dict[type[Any], Callable[[Any, Environment], Value]] = {}


def value_of(node: Expr, env: Environment) -> Value:
    """Translate an expression into a value over the environment."""
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise Untranslatable(type(node).__name__)
    return handler(node, env)


def scalar(node: Expr, env: Environment) -> SqlValue:
    """Translate an expression into one SQL text."""
    return merge(value_of(node, env))


def boolean(node: Expr, env: Environment) -> SqlValue:
    """Translate a condition. Values that are not booleans become NULL."""
    found = scalar(node, env)
    return found if pa.types.is_boolean(found.type) else SqlValue("CAST(NULL AS BOOLEAN)", pa.bool_(), found.missing)


def null(type_: pa.DataType | None, missing: str | None = None) -> SqlValue:
    """Return NULL of a type."""
    if type_ is None or pa.types.is_null(type_):
        return SqlValue("NULL", pa.null(), missing)
    return SqlValue(f"CAST(NULL AS {sql_type(type_)})", type_, missing)
