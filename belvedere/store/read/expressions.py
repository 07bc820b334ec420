"""Scalar expressions over stored rows, for relationships and query templates.

In: a sqlglot tree of the catalog and a scope that finds columns and arguments. Out: SQL of the store's dialect and the
value's Arrow type. It prints only expressions that the store computes exactly as Spark does, and refuses the others
with B8020.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.function_table import function_of
from belvedere.functions.spark_types import DAY_INTERVAL
from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import TIMESTAMP
from belvedere.store.dialects.dialect import MEAN_DIGITS, literal
from belvedere.store.read.query import BoundValue, Operator, Role
from belvedere.store.read.stored_values import converter
from belvedere.store.read.typed_sql import NameBindings, TypedSql, alike, refused, timestamp_literal

types = pa.types

_COMPARISONS: dict[type[Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_ARITHMETIC: dict[type[Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def print_expression(tree: Expr, scope: NameBindings) -> TypedSql:
    """Return the expression as typed SQL of the scope's dialect.

    Raises B8020 if the store cannot compute it exactly.
    """
    for kinds, printer in _PRINTERS:
        if isinstance(tree, kinds):
            return printer(tree, scope)
    return _function(tree, scope)


def _function(tree: Expr, scope: NameBindings) -> TypedSql:
    """Print a call of a function that has SQL for this dialect in the function table."""
    row = function_of(tree)
    sql = row.stored.sql.get(scope.dialect.name) if row is not None and row.stored is not None else None
    if row is None or row.stored is None or row.type is None or sql is None:
        raise refused(tree)
    arguments = [print_expression(a, scope) for a in tree.iter_expressions()]
    known = [a.type for a in arguments if a.type is not None]
    type_ = row.type(known) if len(known) == len(arguments) else None
    if row.stored.converts and known == [type_]:
        return arguments[0]
    if type_ is None or not all(map(row.stored.accepts, known)):
        raise refused(tree)
    text = sql.format(*(a.sql for a in arguments))
    return TypedSql(scope.dialect.whole(text, type_) if types.is_integer(type_) else text, type_)


def _column(tree: Expr, scope: NameBindings) -> TypedSql:
    assert isinstance(tree, exp.Column)
    sql, type_ = scope.column(tree)
    return TypedSql(sql, type_)


def _member(tree: Expr, scope: NameBindings) -> TypedSql:
    """Print a member of the object in a column, such as `_old.tenant`."""
    owner, name = tree.this, tree.expression.name
    if not isinstance(owner, exp.Column):
        raise refused(tree)
    sql, type_ = scope.column(owner)
    place = type_.get_field_index(name) if types.is_struct(type_) else -1
    found = None if place < 0 else scope.dialect.member_value(sql, name, type_.field(place).type)
    if found is None:
        raise refused(tree)
    return TypedSql(found, type_.field(place).type)


def _literal(tree: Expr, scope: NameBindings) -> TypedSql:
    assert isinstance(tree, exp.Literal)
    if tree.is_string:
        return TypedSql(literal(_storable(tree, tree.this)), pa.string())
    if tree.is_int:
        return _integer(tree, int(tree.this))
    if "e" in tree.this.lower():
        return TypedSql(repr(float(tree.this)), pa.float64())
    digits = tree.this.replace(".", "")
    if len(digits) > 38:
        raise refused(tree, "more than 38 digits")
    type_ = pa.decimal128(max(len(digits), 1), len(tree.this.partition(".")[2]))
    return TypedSql(scope.dialect.decimal(int(digits), type_), type_)


def _storable(tree: Expr, text: str) -> str:
    """Check that a statement can hold the text.

    A statement ends at U+0000, and Postgres stores U+0000 and U+0001 in another form.
    """
    if "\x00" in text or "\x01" in text:
        raise refused(tree, "a text with U+0000 or U+0001")
    return text


def _integer(tree: Expr, value: int) -> TypedSql:
    if not -(2**63) <= value < 2**63:
        raise refused(tree, "more than 64 bits")
    return TypedSql(str(value), pa.int32() if -(2**31) <= value < 2**31 else pa.int64())


def _interval(tree: Expr, scope: NameBindings) -> TypedSql:
    """Print an interval literal, which is stored as microseconds."""
    length = interval_length(tree)
    if length is None:
        raise refused(tree, "only intervals of a fixed length, WEEK or shorter")
    return TypedSql(str(length), DAY_INTERVAL)


def _negative(tree: Expr, scope: NameBindings) -> TypedSql:
    inner = print_expression(tree.this, scope)
    if inner.type is None or not isinstance(tree.this, exp.Literal):
        raise refused(tree, "only a literal may be negated")
    return TypedSql(f"(-{inner.sql})", inner.type)


def _boolean(tree: Expr, scope: NameBindings) -> TypedSql:
    return TypedSql(scope.dialect.boolean(bool(tree.this)), pa.bool_())


def _null(tree: Expr, scope: NameBindings) -> TypedSql:
    return TypedSql("NULL", None)


def _placeholder(tree: Expr, scope: NameBindings) -> TypedSql:
    found = scope.arguments.get(tree.name)
    if found is None:
        raise refused(tree, "no such parameter")
    return found


def _paren(tree: Expr, scope: NameBindings) -> TypedSql:
    inner = print_expression(tree.this, scope)
    return TypedSql(f"({inner.sql})", inner.type)


def _comparison(tree: Expr, scope: NameBindings) -> TypedSql:
    left, right = alike(tree, print_expression(tree.this, scope), print_expression(tree.expression, scope), scope)
    return TypedSql(f"({left.sql}{_COMPARISONS[type(tree)]}{right.sql})", pa.bool_())


def _same(tree: Expr, scope: NameBindings) -> TypedSql:
    left, right = alike(tree, print_expression(tree.this, scope), print_expression(tree.expression, scope), scope)
    return TypedSql(f"({scope.dialect.same(left.sql, right.sql)})", pa.bool_())


def _logical(tree: Expr, scope: NameBindings) -> TypedSql:
    left, right = print_expression(tree.this, scope), print_expression(tree.expression, scope)
    return TypedSql(f"({left.sql} {'AND' if isinstance(tree, exp.And) else 'OR'} {right.sql})", pa.bool_())


def _not(tree: Expr, scope: NameBindings) -> TypedSql:
    return TypedSql(f"(NOT {print_expression(tree.this, scope).sql})", pa.bool_())


def _is(tree: Expr, scope: NameBindings) -> TypedSql:
    if not isinstance(tree.expression, exp.Null | exp.Boolean):
        raise refused(tree)
    right = print_expression(tree.expression, scope).sql
    return TypedSql(f"({print_expression(tree.this, scope).sql} IS {right})", pa.bool_())


def _in(tree: Expr, scope: NameBindings) -> TypedSql:
    assert isinstance(tree, exp.In)
    if not tree.expressions:
        raise refused(tree)
    return print_expression(
        _any_of([exp.EQ(this=tree.this.copy(), expression=e.copy()) for e in tree.expressions]), scope
    )


def _any_of(parts: list[exp.EQ]) -> Expr:
    result: Expr = parts[0]
    for part in parts[1:]:
        result = exp.Or(this=result, expression=part)
    return result


def _like(tree: Expr, scope: NameBindings) -> TypedSql:
    pattern, text = tree.expression, print_expression(tree.this, scope)
    given = scope.arguments.get(pattern.name) if isinstance(pattern, exp.Placeholder) else None
    written = isinstance(pattern, exp.Literal) and pattern.is_string
    if (
        text.type is None
        or not types.is_string(text.type)
        or not (written or (given is not None and given.type == text.type))
    ):
        raise refused(tree, "a pattern must be a literal or a parameter")
    role, operator = (Role.ILIKE, Operator.ILIKE) if isinstance(tree, exp.ILike) else (Role.LIKE, Operator.LIKE)
    if given is not None:
        value = scope.in_role(given, role)
    else:
        try:
            value = literal(converter(BoundValue(0, pa.string(), role), scope.dialect)(_storable(tree, pattern.this)))
        except ValueError as error:
            raise refused(tree, str(error)) from None
    negation = "NOT " if tree.args.get("negate") else ""
    return TypedSql(f"({negation}{scope.dialect.compare(operator, text.sql, value)})", pa.bool_())


def _between(tree: Expr, scope: NameBindings) -> TypedSql:
    low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
    high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
    return print_expression(exp.And(this=low, expression=high), scope)


def _arithmetic(tree: Expr, scope: NameBindings) -> TypedSql:
    operator = _ARITHMETIC[type(tree)]
    if operator != "*" and isinstance(tree.expression, exp.Interval):
        return _shifted(tree, tree.this, tree.expression, operator, scope)
    if operator == "+" and isinstance(tree.this, exp.Interval):
        return _shifted(tree, tree.expression, tree.this, operator, scope)
    left, right = print_expression(tree.this, scope), print_expression(tree.expression, scope)
    if left.type is None or right.type is None or not (types.is_integer(left.type) and types.is_integer(right.type)):
        raise refused(tree, "only whole numbers can be added, subtracted and multiplied here")
    type_ = left.type if left.type.bit_width >= right.type.bit_width else right.type
    return TypedSql(scope.dialect.whole(f"({left.sql}{operator}{right.sql})", type_), type_)


def _shifted(tree: Expr, time: Expr, interval: Expr, operator: str, scope: NameBindings) -> TypedSql:
    inner = print_expression(time, scope)
    if inner.type is None or not types.is_timestamp(inner.type):
        raise refused(tree, "an interval can only be added to timestamps")
    amount = interval_length(interval)
    if amount is None:
        raise refused(tree, "only intervals of a fixed length, WEEK or shorter")
    return TypedSql(scope.dialect.shifted(inner.sql, operator, amount), inner.type)


def _clock(tree: Expr, scope: NameBindings) -> TypedSql:
    return TypedSql(scope.dialect.clock.format(scope.clock), TIMESTAMP)


def _cast(tree: Expr, scope: NameBindings) -> TypedSql:
    assert isinstance(tree, exp.Cast)
    target, source = tree.to.this, tree.this
    if target in _TIMESTAMPS and isinstance(source, exp.Literal) and source.is_string:
        return timestamp_literal(source.this, scope)
    if target is exp.DataType.Type.DATE and isinstance(source, exp.Literal) and source.is_string:
        return _date_literal(tree, source.this, scope)
    if target is exp.DataType.Type.DECIMAL and isinstance(source, exp.Literal) and not source.is_string:
        return _decimal_literal(tree, source.this, scope)
    inner = print_expression(source, scope)
    if inner.type is None:
        raise refused(tree)
    if target in _TIMESTAMPS and types.is_timestamp(inner.type):
        return inner
    if target is exp.DataType.Type.DOUBLE and types.is_floating(inner.type):
        return TypedSql(inner.sql, pa.float64())
    if target is exp.DataType.Type.DOUBLE and types.is_integer(inner.type):
        return TypedSql(scope.dialect.widened(inner.sql, pa.float64()), pa.float64())
    wider = _INTEGERS.get(target)
    if wider is not None and types.is_integer(inner.type) and wider.bit_width >= inner.type.bit_width:
        return TypedSql(scope.dialect.widened(inner.sql, wider), wider)
    if target in _TEXTS and types.is_string(inner.type):
        return inner
    raise refused(tree)


def _date_literal(tree: Expr, text: str, scope: NameBindings) -> TypedSql:
    """Print a date literal such as `DATE '2024-02-29'`."""
    try:
        days = (date.fromisoformat(text.strip()) - date(1970, 1, 1)).days
    except ValueError:
        raise refused(tree, "write a date as DATE '2024-02-29'") from None
    return TypedSql(scope.dialect.day(days), pa.date32())


_TIMESTAMPS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_TEXTS = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)
_INTEGERS = {exp.DataType.Type.INT: pa.int32(), exp.DataType.Type.BIGINT: pa.int64()}


def _decimal_literal(tree: exp.Cast, text: str, scope: NameBindings) -> TypedSql:
    """Print a number literal as a decimal, if no digit is rounded."""
    size = [int(p.this.this) for p in tree.to.expressions] or [10, 0]
    precision, scale = size[0], size[1] if len(size) > 1 else 0
    scaled = Decimal(text).scaleb(scale)
    if scaled != int(scaled) or abs(scaled) >= 10**precision:
        raise refused(tree, "the literal does not fit exactly")
    type_ = pa.decimal128(precision, scale)
    return TypedSql(scope.dialect.decimal(int(scaled), type_), type_)


def _coalesce(tree: Expr, scope: NameBindings) -> TypedSql:
    parts = [print_expression(e, scope) for e in (tree.this, *tree.expressions)]
    known = {p.type for p in parts if p.type is not None}
    if len(known) != 1:
        raise refused(tree, "its parts have different types")
    return TypedSql(f"coalesce({','.join(p.sql for p in parts)},NULL)", known.pop())


def _case(tree: Expr, scope: NameBindings) -> TypedSql:
    if tree.args.get("this") is not None:
        raise refused(tree, "write CASE WHEN condition")
    default = tree.args.get("default")
    branches = [(print_expression(i.this, scope), print_expression(i.args["true"], scope)) for i in tree.args["ifs"]]
    otherwise = TypedSql("NULL", None) if default is None else print_expression(default, scope)
    known = {t.type for t in (*(v for _, v in branches), otherwise) if t.type is not None}
    if len(known) != 1:
        raise refused(tree, "its branches have different types")
    text = " ".join(f"WHEN {c.sql} THEN {v.sql}" for c, v in branches)
    return TypedSql(f"CASE {text} ELSE {otherwise.sql} END", known.pop())


def _if(tree: Expr, scope: NameBindings) -> TypedSql:
    default = tree.args.get("false")
    branch = exp.If(this=tree.this.copy(), true=tree.args["true"].copy())
    return _case(exp.Case(ifs=[branch], default=None if default is None else default.copy()), scope)


def _null_if(tree: Expr, scope: NameBindings) -> TypedSql:
    value = print_expression(tree.this, scope)
    left, right = alike(tree, value, print_expression(tree.expression, scope), scope)
    return TypedSql(f"CASE WHEN {left.sql}={right.sql} THEN NULL ELSE {value.sql} END", value.type)


def _concat(tree: Expr, scope: NameBindings) -> TypedSql:
    written = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
    parts = [print_expression(e, scope) for e in written]
    if not parts or not all(p.type is not None and types.is_string(p.type) for p in parts):
        raise refused(tree, "only strings can be concatenated here")
    return TypedSql(f"({'||'.join(p.sql for p in parts)})", pa.string())


def _trim(tree: Expr, scope: NameBindings) -> TypedSql:
    inner, side = print_expression(tree.this, scope), str(tree.args.get("position") or "BOTH").upper()
    if (
        tree.args.get("expression") is not None
        or inner.type is None
        or not types.is_string(inner.type)
        or side not in _TRIMS
    ):
        raise refused(tree, "only spaces around a string can be trimmed here")
    return TypedSql(f"{_TRIMS[side]}({inner.sql},' ')", pa.string())


_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _count(tree: Expr, scope: NameBindings) -> TypedSql:
    _aggregate(tree, scope)
    if isinstance(tree.this, exp.Star) or tree.this is None:
        return TypedSql("count(*)", pa.int64())
    inner, distinct = tree.this, ""
    if isinstance(inner, exp.Distinct):
        if len(inner.expressions) != 1:
            raise refused(tree)
        inner, distinct = inner.expressions[0], "DISTINCT "
    return TypedSql(f"count({distinct}{print_expression(inner, scope).sql})", pa.int64())


def _extreme(tree: Expr, scope: NameBindings) -> TypedSql:
    _aggregate(tree, scope)
    inner = print_expression(tree.this, scope)
    if inner.type is None or types.is_nested(inner.type) or types.is_boolean(inner.type):
        raise refused(tree)
    name = "min" if isinstance(tree, exp.Min) else "max"
    return TypedSql(f"{name}({scope.dialect.column(inner.sql, inner.type)})", inner.type)


SUMMED_DIGITS = 18
"""Maximum number of digits of decimals that are integers in SQLite. It rejects a sum beyond 64 bits."""


AVERAGED_DIGITS = SUMMED_DIGITS - MEAN_DIGITS
"""Maximum number of digits of decimals whose average is an integer in SQLite."""


def _sum(tree: Expr, scope: NameBindings) -> TypedSql:
    _aggregate(tree, scope)
    inner = print_expression(tree.this, scope)
    average = isinstance(tree, exp.Avg)
    if inner.type is not None and types.is_decimal(inner.type) and average and inner.type.precision <= AVERAGED_DIGITS:
        mean = pa.decimal128(inner.type.precision + MEAN_DIGITS, inner.type.scale + MEAN_DIGITS)  # as in Spark
        return TypedSql(scope.dialect.mean(inner.sql, inner.type), mean)
    if (
        inner.type is not None
        and types.is_decimal(inner.type)
        and not average
        and inner.type.precision <= SUMMED_DIGITS
    ):
        total = pa.decimal128(inner.type.precision + 10, inner.type.scale)  # as in Spark
        return TypedSql(scope.dialect.total("sum", inner.sql, inner.type), total)
    if inner.type is None or not (types.is_integer(inner.type) or types.is_floating(inner.type)):
        most = AVERAGED_DIGITS if average else SUMMED_DIGITS
        what = "averages" if average else "sums"
        raise refused(tree, f"{what} only take whole numbers, doubles, and DECIMALs of up to {most} digits")
    type_ = pa.float64() if average or types.is_floating(inner.type) else pa.int64()
    return TypedSql(scope.dialect.total("avg" if average else "sum", inner.sql, inner.type), type_)


def _aggregate(tree: Expr, scope: NameBindings) -> None:
    if not scope.aggregates:
        raise refused(tree, "an aggregate is only allowed in a SELECT list")


Printer = Callable[[Expr, NameBindings], TypedSql]
_PRINTERS: tuple[tuple[type[Expr] | tuple[type[Expr], ...], Printer], ...] = (
    (exp.Column, _column),
    (exp.Dot, _member),
    (exp.Literal, _literal),
    (exp.Interval, _interval),
    (exp.Neg, _negative),
    (exp.Boolean, _boolean),
    (exp.Null, _null),
    (exp.Placeholder, _placeholder),
    (exp.Paren, _paren),
    (tuple(_COMPARISONS), _comparison),
    (exp.NullSafeEQ, _same),
    ((exp.And, exp.Or), _logical),
    (exp.Not, _not),
    (exp.Is, _is),
    (exp.In, _in),
    (exp.Between, _between),
    ((exp.Like, exp.ILike), _like),
    (tuple(_ARITHMETIC), _arithmetic),
    (exp.CurrentTimestamp, _clock),
    (exp.Cast, _cast),
    (exp.Coalesce, _coalesce),
    (exp.Case, _case),
    (exp.If, _if),
    (exp.Nullif, _null_if),
    ((exp.Concat, exp.DPipe), _concat),
    (exp.Trim, _trim),
    (exp.Count, _count),
    ((exp.Min, exp.Max), _extreme),
    ((exp.Sum, exp.Avg), _sum),
)
