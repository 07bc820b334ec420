"""Function calls and CAST as Spark SQL text.

In: calls and environments of `Value`s. Out: `Value`s. A function with the same meaning in Spark for some types has its
text in the table of functions (`SqlppFunction.natives`). This module has the functions that handle MISSING and NULL
themselves, or need more than a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.functions.function_table import WINDOW_AGGREGATES, WINDOW_BY, canonical
from belvedere.functions.project_functions import OwnFunction, own_function
from belvedere.functions.sqlpp_functions import DURATION, Native, SqlppFunction, is_number, unify, window_by
from belvedere.schema import TIMESTAMP
from belvedere.sqlpp.query_tree import Expr
from belvedere.sqlpp.spark_text import iso_texts
from belvedere.sqlpp.spark_text.native_aggregates import aggregate
from belvedere.sqlpp.spark_text.native_arrays import ARRAY_FUNCTIONS
from belvedere.sqlpp.spark_text.native_operators import compared
from belvedere.sqlpp.spark_text.native_queries import of_group
from belvedere.sqlpp.spark_text.native_values import Environment, null, scalar, value_of
from belvedere.sqlpp.spark_text.sql_values import (
    DAY,
    Object,
    SqlValue,
    Untranslatable,
    Value,
    any_of,
    bound,
    chosen,
    converted,
    merge,
    micros,
    sql_type,
    with_missing,
)
from belvedere.sqlpp.type_rules import cast_type

CONVERSIONS = {
    pa.int64(): "TO_BIGINT", pa.float64(): "TO_DOUBLE", pa.string(): "TO_STRING", pa.date32(): "DATE",
    TIMESTAMP: "DATETIME",
}  # fmt: skip
_WORD = "CASE WHEN lower(trim({0})) = 'true' THEN TRUE WHEN lower(trim({0})) = 'false' THEN FALSE END"
BOOLEAN = window_by(
    "BOOLEAN:1",
    pa.bool_(),
    (
        Native("{0}", pa.types.is_boolean),
        Native(_WORD, pa.types.is_string, pa.bool_()),
        Native("({0} <> 0)", lambda t: is_number(t) or t == DURATION, pa.bool_()),
        Native("(size({0}) > 0)", lambda t: pa.types.is_list(t) or pa.types.is_map(t), pa.bool_()),
        Native("IF({0} IS NULL, NULL, FALSE)", lambda t: pa.types.is_struct(t) and not t.num_fields, pa.bool_()),
        Native("IF({0} IS NULL, NULL, TRUE)", lambda t: True, pa.bool_()),
    ),
)
"""BOOLEAN(x): parses 'true' and 'false'; for other values whether they are not zero or empty."""


def anonymous(node: Expr, env: Environment) -> Value:
    """Translate a function call by its name."""
    own = own_function(node)
    if own is not None:
        return _own(own, [scalar(a, env) for a in node.expressions])
    name = canonical(node.name)
    if name in GROUP_AGGREGATES:
        return aggregate(canonical(f"ARRAY_{name}"), [of_group(node.expressions[0], env)])
    if name not in WINDOW_BY:
        raise Untranslatable(f"the function {name}")
    values = [value_of(a, env) for a in node.expressions]
    if name in WINDOW_AGGREGATES:
        return aggregate(name, [merge(v) for v in values])
    return TOLERANT[name](values) if name in TOLERANT else strict(WINDOW_BY[name], values)


def _own(own: OwnFunction, arguments: Sequence[SqlValue]) -> SqlValue:
    """Translate a call of a project function: MISSING if an argument is; NULL is passed like other values."""
    texts = (f"CAST({a.sql} AS {sql_type(type_)})" for a, (_, type_) in zip(arguments, own.parameters, strict=True))
    return SqlValue(f"{own.registered}({', '.join(texts)})", own.result, any_of(*(a.missing for a in arguments)))


def cast(node: Expr, env: Environment) -> Value:
    """Translate CAST and TRY_CAST: NULL if the value cannot be converted."""
    value, target = scalar(node.this, env), cast_type(node)
    if target is None:
        raise Untranslatable(f"CAST to {node.args['to'].sql('spark')}")
    if pa.types.is_decimal(target):
        text = Native(f"try_cast({{0}} AS {sql_type(target)})", lambda t: is_number(t) or pa.types.is_string(t), target)
        return strict(window_by("DECIMAL:1", target, text), [value])
    return strict(BOOLEAN if pa.types.is_boolean(target) else WINDOW_BY[CONVERSIONS[target]], [value])


def strict(form: SqlppFunction, values: Sequence[Value]) -> SqlValue:
    """Translate a function of known values: MISSING if an argument is, else NULL if one is NULL or of another type."""
    missing = any_of(*(v.missing for v in values))
    found = None
    if not any(pa.types.is_null(v.type) for v in values):
        found = STRICT[form.name](values) if form.name in STRICT else None
        found = _by_rule(form, [merge(v) if isinstance(v, Object) else v for v in values]) if found is None else found
    return null(form.result([v.type for v in values]), missing) if found is None else replace(found, missing=missing)


def _by_rule(form: SqlppFunction, arguments: Sequence[SqlValue]) -> SqlValue | None:
    """Translate a function by its text in the table; None for other types."""
    rule = next((r for r in form.natives if all(r.accepts(a.type) for a in arguments)), None)
    if rule is None:
        return None
    read = {"day": _day_of, "micros": micros}.get(rule.reads, lambda a: a.sql)
    text = rule.text.format(*map(read, arguments))
    if len(arguments) > 1:
        text = _unless_null(arguments, text)
    return SqlValue(text, rule.type or arguments[0].type)


def _unless_null(values: Sequence[SqlValue], text: str) -> str:
    return f"IF({' OR '.join(f'{v.sql} IS NULL' for v in values)}, NULL, {text})"


def _day_of(value: SqlValue) -> str:
    """Return the DATE of a date, or of an instant in UTC."""
    if pa.types.is_date(value.type):
        return value.sql
    return bound(micros(value), lambda m: f"date_from_unix_date(CAST(({m} - pmod({m}, {DAY}L)) DIV {DAY}L AS INT))")


# -- functions that handle MISSING and NULL themselves --


def _known(value: Value) -> str:
    """Return the condition that the value is neither NULL nor MISSING."""
    if isinstance(value, Object):
        return "TRUE" if value.missing is None else f"(NOT {value.missing})"
    return f"({value.sql} IS NOT NULL)"


def _there(value: Value) -> str:
    return "TRUE" if value.missing is None else f"(NOT {value.missing})"


def _if_missing_or_null(values: Sequence[Value]) -> Value:
    return chosen([_known(v) for v in values], [_present(v) for v in values])


def _present(value: Value) -> Value:
    """Return the value with MISSING replaced by NULL."""
    if isinstance(value, Object) and value.missing is not None:
        return SqlValue(merge(value).sql, value.type)
    return Object(value.fields) if isinstance(value, Object) else SqlValue(merge(value).sql, value.type)


def _if_null(values: Sequence[Value]) -> Value:
    tests = [_known(v) if v.missing is None else f"({_known(v)} OR {v.missing})" for v in values]
    return chosen(tests, [*values, null(None)])


def _if_missing(values: Sequence[Value]) -> Value:
    return chosen([_there(v) for v in values], values)


def _equal(values: Sequence[Value]) -> str:
    return f"coalesce({compared('=', merge(values[0]), merge(values[1])).sql}, FALSE)"


def _null_if(values: Sequence[Value]) -> Value:
    value = merge(values[0])
    return SqlValue(f"IF({_equal(values)}, NULL, {value.sql})", value.type, value.missing)


def _missing_if(values: Sequence[Value]) -> Value:
    equal, value = _equal(values), merge(values[0])
    return with_missing(SqlValue(f"IF({equal}, NULL, {value.sql})", value.type, value.missing), equal)


def concatenated(values: Sequence[Value]) -> Value:
    """Translate CONCAT and || for values that convert to text."""
    texts = [strict(WINDOW_BY["TO_STRING"], [v]) for v in values]
    return SqlValue(f"concat({', '.join(t.sql for t in texts)})", pa.string(), any_of(*(t.missing for t in texts)))


TOLERANT: dict[str, Callable[[Sequence[Value]], Value]] = {
    "COALESCE": _if_missing_or_null,
    "IF_MISSING_OR_NULL": _if_missing_or_null,
    "IF_NULL": _if_null,
    "IF_MISSING": _if_missing,
    "NULL_IF": _null_if,
    "MISSING_IF": _missing_if,
    "CONCAT": concatenated,
}


# -- functions that are more than a text --


def _round(arguments: Sequence[Value]) -> SqlValue | None:
    """Translate ROUND to digits, half away from zero; NULL if the digits are not a whole number."""
    value, digits = (merge(a) for a in (*arguments, SqlValue("0L", pa.int64()))[:2])
    if not is_number(value.type) or not pa.types.is_integer(digits.type):
        return null(value.type) if is_number(value.type) else None
    known = digits.sql.strip("()L").replace(" ", "")
    if known.lstrip("-").isdigit():
        return SqlValue(_rounded(value, int(known)), value.type)
    cases = " ".join(f"WHEN {digits.sql} = {n} THEN {_rounded(value, n)}" for n in range(-40, 21))
    text = (
        f"CASE WHEN {digits.sql} IS NULL THEN NULL {cases} ELSE IF({digits.sql} > 0, {value.sql}, 0 * {value.sql}) END"
    )
    return SqlValue(text, value.type)


def _rounded(value: SqlValue, digits: int) -> str:
    if pa.types.is_floating(value.type):
        whole = f"abs({value.sql}) >= {1 << 53}D OR {value.sql} IS NULL"
        text = f"round({value.sql}, {digits})"
        return value.sql if digits > 20 else f"IF({whole}, {value.sql}, {text})" if digits >= 0 else text
    if digits >= (value.type.scale if pa.types.is_decimal(value.type) else 0):
        return value.sql
    if digits < -38:
        return f"(0 * {value.sql})"
    return f"CAST(round({value.sql}, {digits}) AS {sql_type(value.type)})"


def _substring(arguments: Sequence[Value]) -> SqlValue | None:
    """Translate SUBSTR(text, start, length), from 0 or backwards from -1.

    The result is NULL for a start beyond the text or a negative length.
    """
    value, start, *more = map(merge, arguments)
    if not pa.types.is_string(value.type) or not all(pa.types.is_integer(a.type) for a in (start, *more)):
        return None
    length = more[0].sql if more else None

    def taken(text: str) -> str:
        begin = f"IF({start.sql} >= 0, {start.sql}, length({text}) + {start.sql})"
        beyond = f"({begin} < 0 OR {begin} > length({text}){f' OR {length} < 0' if length else ''})"
        count = f"CAST(least({length}, length({text})) AS INT)" if length else f"length({text})"
        blank = "".join(f" OR {a.sql} IS NULL" for a in (start, *more))
        return f"IF({beyond}{blank}, NULL, substring({text}, CAST({begin} AS INT) + 1, {count}))"

    return SqlValue(bound(value.sql, taken), pa.string())


def _extreme(function: str) -> Callable[[Sequence[Value]], SqlValue]:
    def pick(arguments: Sequence[Value]) -> SqlValue:
        type_ = unify([a.type for a in arguments])
        if type_ is None:
            raise Untranslatable(f"{function.upper()} of several types")
        values = [SqlValue(converted(merge(a), type_), type_) for a in arguments]
        text = f"{function}({', '.join(v.sql for v in values)})"
        return SqlValue(_unless_null(values, text), type_) if len(values) > 1 else values[0]

    return pick


def _absolute(arguments: Sequence[Value]) -> None:
    if pa.types.is_boolean(arguments[0].type):
        raise Untranslatable("ABS of a boolean")


STRICT: dict[str, Callable[[Sequence[Any]], SqlValue | None]] = {
    **ARRAY_FUNCTIONS, "ABS": _absolute, "ROUND": _round, "SUBSTR": _substring, "GREATEST": _extreme("greatest"),
    "LEAST": _extreme("least"), "DATETIME": lambda values: iso_texts.instant(values[0]),
    "DURATION": lambda values: iso_texts.duration(values[0]),
}  # fmt: skip
"""Functions of known values by name; None if the text comes from the table of functions, or Spark has none."""
