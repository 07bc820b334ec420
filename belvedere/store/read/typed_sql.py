"""Typed SQL of stored values, and the conversion of two values to forms that the store compares as Spark does.

In: SQL with Arrow types. Out: the same values as SQL in comparable forms; values without such a form are refused with
B8020.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, Diagnostic, fail
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import TIMESTAMP
from belvedere.spark_sql.dialect import SparkSql
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.read.query import BoundValue, Role
from belvedere.store.read.stored_values import microseconds

types = pa.types
EXACT_DIGITS = 15
"""Number of digits of a decimal that every database reads as the nearest double."""


CLOCK = "e.clock"
"""SQL of the epoch's clock in a read, which is a query of the epoch's row `e`."""


@dataclass(frozen=True)
class TypedSql:
    """SQL and the type of its value. A bare NULL has the type None."""

    sql: str
    type: pa.DataType | None
    bound: BoundValue | None = None
    """The request's value behind this SQL, if any."""


@dataclass(frozen=True)
class NameBindings:
    """Bindings of names in an expression: `column` returns SQL and type, `arguments` those of a template."""

    dialect: Dialect
    column: Callable[[exp.Column], tuple[str, pa.DataType]]
    arguments: Mapping[str, TypedSql] = field(default_factory=dict)
    aggregates: bool = False
    bind: Callable[[BoundValue], str] | None = None
    """Function that returns the SQL of a request's value; None if an expression is only checked."""
    clock: str = CLOCK
    """SQL of the epoch's clock in its stored form."""

    def in_role(self, argument: TypedSql, role: Role) -> str:
        """Return an argument as a value of another role."""
        if self.bind is None or argument.bound is None:
            return argument.sql
        return self.bind(replace(argument.bound, role=role))


_HINT = "compute the value in a view and use its column here"
_FOLDED = (
    "compare it with ILIKE, or compute it in a view and use its column here: databases fold letters outside A "
    "to Z differently"
)
_HINTS: dict[type[Expr], str] = {exp.Lower: _FOLDED, exp.Upper: _FOLDED}


class RefusedExpression(BelvedereError):
    """An expression that the store cannot compute exactly as Spark does (B8020)."""

    def __init__(self, tree: Expr, why: str):
        self.tree, self.why = tree, why
        super().__init__(self._diagnostic(tree))

    def _diagnostic(self, tree: Expr) -> Diagnostic:
        text = tree.sql(SparkSql).replace("`", "")
        message = f"`{text}` cannot be computed at read time{': ' + self.why if self.why else ''}"
        return Diagnostic("B8020", message, hint=_HINTS.get(type(tree), _HINT))

    def with_table(self, alias: str, name: str) -> Diagnostic:
        """Return the diagnostic with the columns of the table `alias` shown as those of `name`."""
        tree = self.tree.copy()
        for column in tree.find_all(exp.Column):
            if column.table == alias:
                column.set("table", exp.to_identifier(name))
        return self._diagnostic(tree)


def refused(tree: Expr, why: str = "") -> RefusedExpression:
    """Return the error for an expression that the store cannot compute exactly."""
    return RefusedExpression(tree, why)


def alike(tree: Expr, left: TypedSql, right: TypedSql, scope: NameBindings) -> tuple[TypedSql, TypedSql]:
    """Return both sides in forms that the store compares as Spark compares the values."""
    forms = scope.dialect
    if left.type is None or right.type is None:
        return left, right
    left, right = _as_time(left, right, scope), _as_time(right, left, scope)
    left, right = _as_double(tree.this, left, right), _as_double(tree.args.get("expression"), right, left)
    a, b = left.type, right.type
    assert a is not None
    assert b is not None
    if types.is_nested(a) or types.is_nested(b):
        raise refused(tree, "nested values cannot be compared")
    if types.is_decimal(a) or types.is_decimal(b):
        return _alike_decimals(tree, left, right, scope)
    if _is_number(a) and _is_number(b):
        if types.is_floating(a) != types.is_floating(b) and (_is_long(a) or _is_long(b)):
            raise refused(tree, "a BIGINT cannot be compared with a DOUBLE")
        return left, right
    if _family(a) != _family(b):
        raise refused(tree, f"{a} cannot be compared with {b}")
    return TypedSql(forms.column(left.sql, a), a), TypedSql(forms.column(right.sql, b), b)


def _as_time(value: TypedSql, other: TypedSql, scope: NameBindings) -> TypedSql:
    """Convert a string literal beside a timestamp to a timestamp."""
    assert other.type is not None
    if types.is_timestamp(other.type) and value.type == pa.string() and value.sql.startswith("'"):
        return timestamp_literal(value.sql[1:-1], scope)
    return value


def _as_double(written: Expr | None, value: TypedSql, other: TypedSql) -> TypedSql:
    """Return a decimal literal next to a DOUBLE as a DOUBLE, as in Spark.

    Databases read only a limited number of digits exactly.
    """
    inner = written.this if isinstance(written, exp.Neg) else written
    is_exact = value.type is not None and types.is_decimal(value.type) and value.type.precision <= EXACT_DIGITS
    if not (is_exact and other.type == pa.float64() and isinstance(inner, exp.Literal)):
        return value
    number = float(inner.this)
    return TypedSql(f"({-number!r})" if inner is not written else repr(number), pa.float64())


def timestamp_literal(text: str, scope: NameBindings) -> TypedSql:
    try:
        value = microseconds(text)
    except ValueError as error:
        raise fail("B8020", str(error), hint="write TIMESTAMP '2020-01-01 08:07:00'") from None
    return TypedSql(scope.dialect.instant(value), TIMESTAMP)


def _alike_decimals(tree: Expr, left: TypedSql, right: TypedSql, scope: NameBindings) -> tuple[TypedSql, TypedSql]:
    a, b = left.type, right.type
    assert a is not None
    assert b is not None
    if types.is_floating(a) or types.is_floating(b) or not (_is_number(a) and _is_number(b)):
        raise refused(tree, f"{a} cannot be compared with {b}")
    if a == b:
        return left, right
    scale = max(_scale(a), _scale(b))
    digits = max(_precision(t) - _scale(t) for t in (a, b)) + scale
    comparable = scope.dialect.comparable_decimal
    return TypedSql(comparable(left.sql, a, digits, scale), a), TypedSql(comparable(right.sql, b, digits, scale), b)


def _scale(type_: pa.DataType) -> int:
    return int(type_.scale) if types.is_decimal(type_) else 0


def _precision(type_: pa.DataType) -> int:
    if types.is_decimal(type_):
        return int(type_.precision)
    return {8: 3, 16: 5, 32: 10}.get(type_.bit_width, 19)


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _is_long(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) and type_.bit_width == 64)


def _family(type_: pa.DataType) -> str:
    if types.is_timestamp(type_):
        return "timestamp"
    if types.is_string(type_) or types.is_large_string(type_):
        return "string"
    return str(type_)
