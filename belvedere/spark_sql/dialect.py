"""The dialect in which trees are printed for Spark, and read from texts of our own.

In: trees, or text. Out: text that Spark reads as the same tree, with all that was written; or trees.
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
    """Prints brackets where shape matters, and every argument."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkGenerator.TRANSFORMS,
        **PRINTERS,
        exp.UnixDate: lambda self, e: self.func("UNIX_DATE", e.this),
        exp.Log: lambda self, e: (
            self.func(e.meta[WRITTEN], e.expression) if WRITTEN in e.meta else self.function_fallback_sql(e)
        ),
        exp.BitwiseLeftShift: lambda self, e: self.binary(e, "<<"),
        # behind array(...), map(...) or struct(...) Spark's parser takes `>>` for the ends of two types
        exp.BitwiseRightShift: lambda self, e: self.func("SHIFTRIGHT", e.this, e.expression),
    }

    def preprocess(self, expression: exp.Expr) -> exp.Expr:
        return bracketed(super().preprocess(expression))

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        return expression.args.get(WRITTEN) or super().cast_sql(expression, safe_prefix)


class SparkSql(Spark):
    """Spark's SQL."""

    Parser = OperatorParser
    Generator = SparkSqlGenerator
