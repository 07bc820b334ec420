"""Constant arguments: rejected if they depend on the row, or are out of range.

In: a call in a resolved tree. Out: a diagnostic (B3071), or nothing. Expressions beyond a literal with its sign are
left to Spark.
"""

from __future__ import annotations

from math import inf
from typing import Any

from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.constant_arguments import CONSTANTS, Constant
from belvedere.functions.function_table import function_name, is_aggregate, shown_name
from belvedere.lang.types.typing_scope import SubqueryValue, TypeScope, children

_OF_A_ROW = (exp.Column, exp.Identifier, SubqueryValue, exp.Subquery, exp.Window)


def check_constants(scope: TypeScope, call: exp.Expr) -> None:
    """Reject arguments of a call that Spark would reject because of their values."""
    for rule in CONSTANTS.get(function_name(call), ()):
        value = _argument(call, rule.argument)
        if value is not None and (rule.of is None or rule.of(scope.type(children(call)[0]))):
            _check(scope, call, rule, value)


def _argument(call: exp.Expr, name: str) -> Any:
    key, _, place = name.partition(".")
    found = call.args.get(key)
    if not place:
        return found
    return found[int(place)] if found and int(place) < len(found) else None


def _check(scope: TypeScope, call: exp.Expr, rule: Constant, value: exp.Expr) -> None:
    if not is_constant(value):
        hint = "write a literal, or an expression of literals: it must be the same for all rows"
        raise scope.fail("B3071", f"`{shown_name(call)}` takes a constant here", value, hint)
    if rule.is_whole and not t.is_integer(scope.type(value)) and not isinstance(value.unnest(), exp.Null):
        message = f"`{shown_name(call)}` takes a whole number here, not {t.a_type(scope.type(value))}"
        raise scope.fail("B3071", message, value, "write a number without a point")
    if rule.is_int and scope.type(value) == t.INT64:
        raise scope.fail(
            "B3071", f"`{shown_name(call)}` takes an INT here, not a BIGINT", value, "write CAST(... AS INT)"
        )
    inner = value.unnest()
    for part in inner.expressions if rule.many and isinstance(inner, exp.Array) else [inner]:
        _check_value(scope, call, rule, part)


def _check_value(scope: TypeScope, call: exp.Expr, rule: Constant, value: exp.Expr) -> None:
    if isinstance(value, exp.Null) and not rule.takes_null:
        raise scope.fail("B3071", f"`{shown_name(call)}` does not take NULL here", value, _between(rule))
    number = number_of(value)
    if number is not None and not rule.least <= number <= rule.most:
        raise scope.fail(
            "B3071", f"{value.sql('spark')} is out of range for `{shown_name(call)}`", value, _between(rule)
        )


def _between(rule: Constant) -> str:
    if rule.most == 1:
        return "write a number from 0 to 1"
    return "write a number" if rule.least == -inf else f"write a number of at least {rule.least:g}"


def is_constant(value: exp.Expr) -> bool:
    """Return whether an expression has the same value for all rows."""
    return not any(isinstance(node, _OF_A_ROW) or is_aggregate(node) for node in _nodes(value))


def _nodes(value: exp.Expr) -> Any:
    return value.walk(prune=lambda node: isinstance(node, (exp.DataType, exp.Interval)))


def number_of(value: exp.Expr) -> float | None:
    """Return the value of a number literal with its sign; None for every other expression."""
    inner = value.unnest()
    if isinstance(inner, exp.Neg):
        found = number_of(inner.this)
        return None if found is None else -found
    return float(inner.this) if isinstance(inner, exp.Literal) and not inner.is_string else None
