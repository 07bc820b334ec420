"""Queries as text in Belvedere's dialect, for display: Spark never sees these forms.

In: sqlglot trees with Belvedere's nodes. Out: SQL text.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from belvedere.spark_sql.dialect import SparkSqlGenerator
from belvedere.syntax.forms.windowing_calls import arguments_of
from belvedere.syntax.query_tree import EmitClause, WindowByBlock, WindowCall
from belvedere.syntax.spl.window_tree import SplClause, SplPart, clause_of

WRAPPERS = {"data": "TABLE({})", "timecol": "DESCRIPTOR({})", "keys": "DESCRIPTOR({})"}
NAMES = {"keys": "key"}
"""Names of windowing-call arguments that differ from those in the tree."""


class SqrlGenerator(SparkSqlGenerator):
    """Prints Belvedere's additions, for display: Spark never sees these forms."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        # QUALIFY and UNNEST stay: Spark's equivalents have other columns for `*` and for arrays of structs
        **{form: print_ for form, print_ in SparkSqlGenerator.TRANSFORMS.items() if form is not exp.Select},
        exp.Unnest: Generator.unnest_sql,
        EmitClause: lambda self, e: self.emit_sql(e),
        WindowCall: lambda self, e: self.windowcall_sql(e),
        SplClause: lambda _, e: e.shown,
        SplPart: lambda _, e: e.shown,
        WindowByBlock: lambda self, e: self._with_emit(e, e.text_of),
    }

    def emit_sql(self, expression: EmitClause) -> str:
        after = [f"AFTER DELAY {self.sql(expression, 'delay')}"] if expression.args.get("delay") else []
        after += ["AFTER WATERMARK"] if expression.args.get("watermark") else []
        return " ".join(["EMIT", *(["STREAM"] if expression.args.get("stream") else []), " AND ".join(after)]).rstrip()

    def windowcall_sql(self, expression: WindowCall) -> str:
        """Print named arguments as in One SQL, or arguments in Flink's order, which gives the columns other names."""
        function, flink = expression.args["function"], expression.args.get("flink")
        shown = []
        for key in arguments_of(function):
            value = expression.args.get(key)
            if value and not (flink and key == "keys"):
                listed = self.expressions(sqls=value, flat=True) if isinstance(value, list) else self.sql(value)
                text = WRAPPERS.get(key, "{}").format(listed)
                if flink and key == "data" and expression.args.get("keys"):
                    text += f" PARTITION BY {self.expressions(sqls=expression.args['keys'], flat=True)}"
                shown.append(text if flink else f"{NAMES.get(key, key)} => {text}")
        return f"{function.upper()}({', '.join(shown)})"

    def order_sql(self, expression: exp.Order, flat: bool = False) -> str:
        text: str = super().order_sql(expression, flat)
        within = expression.args.get("within")
        return text if within is None else f"{text} WITHIN {self.sql(within)}"

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        length = expression.args.get("over")
        over = "" if length is None else f" OVER (RANGE {self.sql(length)} PRECEDING)"  # before the alias
        text = super().table_sql(expression, f"{over}{sep}")
        return _windowed(expression, text if expression.args.get("alias") else text + over)

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        return _windowed(expression, super().subquery_sql(expression, sep))

    def _with_emit(self, expression: exp.Expr, text: str) -> str:
        emit = expression.args.get("emit")
        return text + self.seg(self.sql(emit)) if emit is not None else text

    def select_sql(self, expression: exp.Select) -> str:
        text: str = super().select_sql(expression)
        if expression.args.get("stream"):
            text = text.replace("SELECT", "SELECT STREAM", 1)
        clauses = [f"{c.args['label'].name} : {c.shown[8:-1]}" for c in expression.args.get("spl") or ()]
        text += f" WINDOW {'; '.join(clauses)}" if clauses else ""
        return self._with_emit(expression, text)

    def set_operations(self, expression: exp.SetOperation) -> str:
        return self._with_emit(expression, super().set_operations(expression))


def _windowed(expression: exp.Expr, text: str) -> str:
    """Return the text of a FROM item with its SPL window."""
    clause = clause_of(expression)
    return text if clause is None else f"{text} {clause.shown}"
