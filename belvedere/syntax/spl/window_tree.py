"""SPL's window clause as written: nodes of the query's tree.

In: nothing. Out: `SplClause` at `args["spl"]` of a table or subquery of FROM. In SPL's own spelling a clause has the
label of a table; these are a list at `args["spl"]` of the select. Nothing is checked here.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp

from belvedere.spark_sql.dialect import SparkSql


class SplPart(exp.Expression):
    """One part of a clause: a word, optionally with arguments (`called`). `this` is the word as written."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "called": False, "value": False}

    @property
    def word(self) -> str:
        """Return the word in lower case."""
        return str(self.args["this"]).lower()

    @property
    def shown(self) -> str:
        """Return the part as users write it."""
        arguments = ", ".join(a.sql(SparkSql).replace("`", "") for a in self.expressions)
        return f"{self.args['this']}({arguments})" if self.args.get("called") else str(self.args["this"])


class SplClause(exp.Expression):
    """A whole clause: the label of SPL's spelling, the parts in order, and the partition keys."""

    arg_types: ClassVar[dict[str, bool]] = {"label": False, "expressions": True, "keys": False}

    @property
    def keys(self) -> list[Any]:
        """Return the expressions of PARTITION BY."""
        return self.args.get("keys") or []

    @property
    def shown(self) -> str:
        """Return the clause in the form that follows a table."""
        by = ", ".join(k.sql(SparkSql) for k in self.keys)
        parts = [f"{p.shown} BY {by}" if by and p.word == "partitioned" else p.shown for p in self.expressions]
        return f"WINDOW ({', '.join(parts)})"


def clause_of(item: exp.Expr) -> SplClause | None:
    """Return the window of a table or subquery of FROM, or None."""
    found = item.args.get("spl")
    return found if isinstance(found, SplClause) else None
