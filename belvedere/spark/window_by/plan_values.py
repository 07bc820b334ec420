"""Small steps of planning: renamed variables, constants as the kernels hold them."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from sqlglot import exp

from belvedere.lang.window_by.tree import Expr
from belvedere.spark.window_by.values import MISSING, instant

EPOCH = instant(date(1970, 1, 1))


def renamed(expr: Expr, old: str, new: str) -> Expr:
    """The expression with one variable renamed."""

    def change(node: Any) -> Any:
        return exp.Column(this=exp.to_identifier(new)) if isinstance(node, exp.Column) and node.name == old else node

    result: Expr = expr.transform(change)
    return result


def plain_constant(value: Any) -> Any:
    """A constant as the kernels compare it: times and durations as microseconds."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date):
        return (instant(value) - EPOCH) // timedelta(microseconds=1)
    return None if value is MISSING else value
