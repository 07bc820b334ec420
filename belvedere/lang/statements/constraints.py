"""DEFAULT and CHECK of CREATE STREAM and CREATE TABLE, which apply to incoming rows.

In: the clauses as written, and the columns. Out: the value of a missing field, in its input form; a condition over the
columns. `belvedere.store.row_checks` decides whether a database can compute the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import InvalidOperation
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.inputs import Check
from belvedere.errors import fail
from belvedere.functions import spark_types as t
from belvedere.functions.function_table import is_aggregate
from belvedere.functions.spark_types import Typed
from belvedere.lang.types.infer import Inference
from belvedere.plan.expressions import column
from belvedere.schema import Column, find_named
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.query_tree import span_of
from belvedere.syntax.statement_tree import CheckClause
from belvedere.syntax.wording import did_you_mean
from belvedere.values.input_rows import convert

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_CASTS = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.DECIMAL)


def read_default(written: exp.Expr, of: Column, file: str) -> Any:
    """Return the value of `DEFAULT value`. Raises B4043 if it is not a constant of the column's type."""
    hint = (
        "write a literal; for the time of arrival use METADATA FROM 'timestamp', for a computed value `name AS "
        "expression`"
    )
    try:
        value = convert(_literal(written), of.type)
    except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException):
        message = f"DEFAULT of `{of.name}` is not a constant of type {t.type_text(of.type)}"
        raise fail("B4043", message, span=span_of(written, file), hint=hint) from None
    if value is None and not of.nullable:
        raise fail(
            "B4043",
            f"DEFAULT of `{of.name}` is NULL, but the column is NOT NULL",
            span=span_of(written, file),
            hint=hint,
        )
    return value


def _literal(written: exp.Expr) -> Any:
    match written:
        case exp.Paren():
            return _literal(written.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(written.this)
        case exp.Literal():
            return written.this if written.is_string else _number(written.this)
        case exp.Neg(this=exp.Literal(is_string=False)):
            return _number(f"-{written.this.this}")
        case exp.Cast() if written.to.this in _CASTS and isinstance(written.this, exp.Literal):
            return written.this.this
        case exp.Array(expressions=[]):
            return []
    raise ValueError(written)


def _number(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else text


def read_check(clause: CheckClause, columns: Sequence[Column], file: str) -> Check:
    """Return the check of `CHECK (condition)` over the columns of one row."""
    for node in clause.condition.walk():
        if isinstance(node, (exp.Query, exp.Window, exp.CurrentTimestamp)) or is_aggregate(node):
            message = "CHECK can only compare the columns of one row"
            raise fail(
                "B4044", message, span=clause.span, hint="write a view that filters the rows, or joins the other table"
            )
    condition = clause.condition.transform(lambda n: _named(n, columns, file) if isinstance(n, exp.Column) else n)
    inference = Inference({c.name: Typed(c.type, c.nullable) for c in columns}, file=file)
    inference.condition(condition, clause.condition)
    for number in list(condition.find_all(exp.Literal)):
        if not number.is_string and not number.is_int and _beside_double(number, inference):
            number.replace(exp.Literal.number(f"{number.this}E0"))  # as Spark reads it in this position
    text = clause.condition.sql(SparkSql).replace("`", "")
    return Check(clause.name or text, text, condition, clause.span)


def _beside_double(number: exp.Literal, inference: Inference) -> bool:
    """Return whether a number with a decimal point is compared with a DOUBLE or a FLOAT."""
    place = number.parent if not isinstance(number.parent, (exp.Neg, exp.Paren)) else number.parent.parent
    if not isinstance(place, (*COMPARED, exp.Between, exp.In)):
        return False
    return inference.type(place.this) in (t.FLOAT, t.DOUBLE) or (
        isinstance(place, COMPARED) and inference.type(place.expression) in (t.FLOAT, t.DOUBLE)
    )


def _named(written: exp.Column, columns: Sequence[Column], file: str) -> exp.Expr:
    found = find_named(columns, written.name)
    if found is None:
        hint = did_you_mean(written.name, [c.name for c in columns if not c.hidden])
        raise fail("B2002", f"column `{written.name}` is not defined", span=span_of(written, file), hint=hint)
    named = column(found.name)
    named.meta.update(written.meta)
    return named
