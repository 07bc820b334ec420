"""Calls of functions as Spark SQL text.

In: calls and environments of `Value`s. Out: `Value`s. A function that Spark has in the same sense for some types has its text in the table
of functions (`SqlppFunction.natives`); those that look at MISSING and NULL themselves, or are more than a text, are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.functions.function_table import WINDOW_AGGREGATES, WINDOW_BY, canonical
from belvedere.functions.project_functions import OwnFunction, own_function
from belvedere.functions.sqlpp_functions import DURATION, Native, SqlppFunction, is_number, unify
from belvedere.sqlpp.query_tree import Expr
from belvedere.sqlpp.spark_text.native_aggregates import aggregate
from belvedere.sqlpp.spark_text.native_arrays import ARRAY_FUNCTIONS
from belvedere.sqlpp.spark_text.native_casts import day_of, to_date, to_duration, to_instant, to_real, to_text, to_whole
from belvedere.sqlpp.spark_text.native_operators import compared
from belvedere.sqlpp.spark_text.native_queries import of_group
from belvedere.sqlpp.spark_text.native_values import Environment, null, value_of
from belvedere.sqlpp.spark_text.sql_values import (
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

LENGTHS = ("LEN", "ARRAY_LENGTH", "LENGTH")


def anonymous(node: Expr, env: Environment) -> Value:
    """A call of a function by its name."""
    own = own_function(node)
    if own is not None:
        return _own(own, [merge(value_of(a, env)) for a in node.expressions])
    name = canonical(node.name)
    if name in GROUP_AGGREGATES:
        return aggregate(canonical(f"ARRAY_{name}"), [of_group(node.expressions[0], env)])
    form = WINDOW_BY.get(name)
    if form is None:
        raise Untranslatable(f"the function {name}")
    values = [value_of(a, env) for a in node.expressions]
    if name in WINDOW_AGGREGATES:
        return aggregate(name, [merge(v) for v in values])
    if name in TOLERANT:
        return TOLERANT[name](values)
    arguments = [v if isinstance(v, SqlValue) else merge(v) for v in values]
    missing = any_of(*(a.missing for a in arguments))
    if any(pa.types.is_null(a.type) for a in arguments):
        return null(form.result([a.type for a in arguments]), missing)
    if name in ARRAY_FUNCTIONS:
        return ARRAY_FUNCTIONS[name](values if name in LENGTHS else arguments)
    if name in PLAIN:
        return PLAIN[name](arguments)
    return _by_rule(form, [merge(a) for a in arguments])


def _own(own: OwnFunction, arguments: Sequence[SqlValue]) -> SqlValue:
    """A function of the project: MISSING where an argument is; it sees NULL as other values."""
    texts = (f"CAST({a.sql} AS {sql_type(type_)})" for a, (_, type_) in zip(arguments, own.parameters, strict=True))
    return SqlValue(f"{own.registered}({', '.join(texts)})", own.result, any_of(*(a.missing for a in arguments)))


def _by_rule(form: SqlppFunction, arguments: Sequence[SqlValue]) -> SqlValue:
    """The function by its text in the table; NULL for types that it does not know."""
    missing = any_of(*(a.missing for a in arguments))
    rule = next((r for r in form.natives if all(r.accepts(a.type) for a in arguments)), None)
    if rule is None:
        return null(form.result([a.type for a in arguments]), missing)
    texts = [_read(rule, a) for a in arguments]
    text = rule.text.format(*texts, all=", ".join(texts))
    if len(arguments) > 1:
        blank = " OR ".join(f"{a.sql} IS NULL" for a in arguments)
        text = f"IF({blank}, NULL, {text})"
    return SqlValue(text, rule.type or arguments[0].type, missing)


def _read(rule: Native, value: SqlValue) -> str:
    return day_of(value) if rule.reads == "day" else micros(value) if rule.reads == "micros" else value.sql


# -- functions that look at MISSING and NULL themselves --


def _known(value: Value) -> str:
    """Whether the value is neither NULL nor MISSING."""
    if isinstance(value, Object):
        return "TRUE" if value.missing is None else f"(NOT {value.missing})"
    return f"({value.sql} IS NOT NULL)"


def _there(value: Value) -> str:
    return "TRUE" if value.missing is None else f"(NOT {value.missing})"


def _if_missing_or_null(values: Sequence[Value]) -> Value:
    return chosen([_known(v) for v in values], [_present(v) for v in values])


def _present(value: Value) -> Value:
    """The value, NULL where it is MISSING."""
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
    """CONCAT and ||: of values that have a text."""
    texts = [to_text(merge(v)) for v in values]
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


def _round(arguments: Sequence[SqlValue]) -> SqlValue:
    """ROUND to digits, half away from zero; NULL for digits that are no whole number."""
    value, missing = merge(arguments[0]), any_of(*(a.missing for a in arguments))
    digits = arguments[1] if len(arguments) > 1 else SqlValue("0L", pa.int64())
    if not is_number(value.type) or not pa.types.is_integer(digits.type):
        return null(value.type if is_number(value.type) else None, missing)
    known = digits.sql.strip("()L").replace(" ", "")
    if known.lstrip("-").isdigit():
        text = _rounded(value, int(known))
    else:
        cases = " ".join(f"WHEN {digits.sql} = {n} THEN {_rounded(value, n)}" for n in range(-40, 21))
        text = f"CASE WHEN {digits.sql} IS NULL THEN NULL {cases} ELSE IF({digits.sql} > 0, {value.sql}, 0 * {value.sql}) END"
    return SqlValue(text, value.type, missing)


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


def _substring(arguments: Sequence[SqlValue]) -> SqlValue:
    """SUBSTR(text, start, length): from 0, or from -1 backwards; NULL for a start beyond the text or a negative length."""
    missing = any_of(*(a.missing for a in arguments))
    if not pa.types.is_string(arguments[0].type) or not all(pa.types.is_integer(a.type) for a in arguments[1:]):
        return null(pa.string(), missing)
    length = arguments[2].sql if len(arguments) > 2 else None

    def taken(text: str) -> str:
        begin = f"IF({arguments[1].sql} >= 0, {arguments[1].sql}, length({text}) + {arguments[1].sql})"
        beyond = f"({begin} < 0 OR {begin} > length({text}){f' OR {length} < 0' if length else ''})"
        count = f"CAST(least({length}, length({text})) AS INT)" if length else f"length({text})"
        blank = "".join(f" OR {a.sql} IS NULL" for a in arguments[1:])
        return f"IF({beyond}{blank}, NULL, substring({text}, CAST({begin} AS INT) + 1, {count}))"

    return SqlValue(bound(arguments[0].sql, taken), pa.string(), missing)


def _extreme(function: str) -> Callable[[Sequence[SqlValue]], SqlValue]:
    def pick(arguments: Sequence[SqlValue]) -> SqlValue:
        missing, values = any_of(*(a.missing for a in arguments)), [merge(a) for a in arguments]
        type_ = unify([v.type for v in values])
        if type_ is None:
            raise Untranslatable(f"{function.upper()} of several types")
        texts = [converted(v, type_) for v in values]
        blank = " OR ".join(f"{t} IS NULL" for t in texts)
        text = f"IF({blank}, NULL, {function}({', '.join(texts)}))" if len(texts) > 1 else texts[0]
        return SqlValue(text, type_, missing)

    return pick


def _absolute(arguments: Sequence[SqlValue]) -> SqlValue:
    value = arguments[0]
    if not is_number(value.type) and value.type != DURATION:
        if pa.types.is_boolean(value.type):
            raise Untranslatable("ABS of a boolean")
        return null(None, value.missing)
    return SqlValue(f"abs({value.sql})", value.type, value.missing)


def _one(function: Callable[[SqlValue], SqlValue]) -> Callable[[Sequence[SqlValue]], SqlValue]:
    return lambda arguments: function(merge(arguments[0]))


PLAIN: dict[str, Callable[[Sequence[SqlValue]], SqlValue]] = {
    "ABS": _absolute, "ROUND": _round, "SUBSTR": _substring, "GREATEST": _extreme("greatest"), "LEAST": _extreme("least"),
    "TO_STRING": _one(to_text), "TO_BIGINT": _one(to_whole), "TO_DOUBLE": _one(to_real), "TO_NUMBER": _one(to_real),
    "DATE": _one(to_date), "DATETIME": _one(to_instant), "DURATION": _one(to_duration),
}  # fmt: skip
