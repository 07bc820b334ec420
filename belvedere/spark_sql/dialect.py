"""Dialect that prints trees for Spark, and parses Belvedere's own texts.

In: trees, or text. Out: text that Spark parses to the same tree, with everything that was written; or trees.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from belvedere.spark_sql.brackets import bracketed
from belvedere.spark_sql.operators import WRITTEN, OperatorParser
from belvedere.spark_sql.time_patterns import PRINTERS


class SparkSqlGenerator(SparkGenerator):
    """Prints brackets where they preserve the shape of the tree, and every argument."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkGenerator.TRANSFORMS,
        **PRINTERS,
        exp.UnixDate: lambda self, e: self.func("UNIX_DATE", e.this),
        exp.Log: lambda self, e: (
            self.func(e.meta[WRITTEN], e.expression) if WRITTEN in e.meta else self.function_fallback_sql(e)
        ),
        exp.BitwiseLeftShift: lambda self, e: self.binary(e, "<<"),
        # after array(...), map(...) or struct(...) Spark's parser reads `>>` as the ends of two types
        exp.BitwiseRightShift: lambda self, e: self.func("SHIFTRIGHT", e.this, e.expression),
    }

    def preprocess(self, expression: exp.Expr) -> exp.Expr:
        return bracketed(super().preprocess(expression))

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        return expression.args.get(WRITTEN) or super().cast_sql(expression, safe_prefix)


class SparkSql(Spark):
    """Spark SQL dialect."""

    Parser = OperatorParser
    Generator = SparkSqlGenerator
