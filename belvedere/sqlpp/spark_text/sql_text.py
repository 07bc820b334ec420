"""Spark SQL text parsed into expressions of the plan.

In: text in the form of `native`. Out: trees in which an input column is an unqualified `exp.Column`, and functions keep
their names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.optimizer.simplify import simplify
from sqlglot.parsers.spark import SparkParser

from belvedere.plan.expressions import column
from belvedere.sqlpp.query_tree import Expr


class _Plain(Spark):
    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}  # calls stay as written, without the meaning of another dialect


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Expr:
    found: Expr = sqlglot.parse_one(text, dialect=_Plain).transform(_plain)
    return found


def _plain(node: Any) -> Any:
    """Return a path from a column as fields of it, and literals as written.

    Spark gives a product with the literal `2L` fewer digits than one with a cast.
    """
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        suffix = {exp.DType.BIGINT: "L", exp.DType.DOUBLE: "D"}.get(node.to.this)
        return node if suffix is None else exp.Var(this=f"{node.this.name}{suffix}")
    if not isinstance(node, exp.Column) or not node.table:
        return node
    root, *path = node.parts
    found: Any = column(root.name)
    for part in path:
        found = exp.Dot(this=found, expression=part.copy())
    return found


def parsed(text: str) -> Expr:
    """Parse the expression of a text."""
    if is_column(text):
        return column(text[1:-1])
    return _parsed(text).copy()


def is_column(text: str) -> bool:
    """Return whether a SQL text is one column."""
    return text.startswith("`") and text.endswith("`") and "`" not in text[1:-1]


class Open:
    """A value that only Spark can compute."""


def constant_of(text: str) -> Any:
    """Return the number or boolean of a text without columns, None for NULL; `Open` if only Spark can compute it."""
    return _constant(simplify(parsed(text).transform(_whole)))


def _whole(node: Any) -> Any:
    """Return a whole number as a literal, whose sums and products are exact."""
    is_whole = isinstance(node, exp.Var) and node.name.endswith("L") and node.name[:-1].isdigit()
    return exp.Literal.number(node.name[:-1]) if is_whole else node


def _constant(node: Any) -> Any:
    node = node.unnest()
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        return -inner if isinstance(inner, int | float) else inner
    if isinstance(node, exp.Null) or (isinstance(node, exp.Cast) and isinstance(node.this, exp.Null)):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal) and not node.is_string:
        return int(node.name) if node.name.isdigit() else Open
    return float(node.name[:-1]) if isinstance(node, exp.Var) and node.name.endswith("D") else Open
