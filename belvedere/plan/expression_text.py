"""Expressions as text for display."""

from __future__ import annotations

from belvedere.plan.expressions import Expr
from belvedere.spark_sql.dialect import SparkSql


def expression_text(expr: Expr) -> str:
    """Return an expression as text, without quotes around plain names."""
    text: str = expr.sql(dialect=SparkSql, comments=False)
    return text.replace("`", "")
