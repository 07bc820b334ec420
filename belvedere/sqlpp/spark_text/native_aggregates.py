"""Aggregates over an array as Spark SQL text.

In: the array as a SQL value. Out: a SQL value that is never MISSING. Sums of whole numbers and decimals are exact. Sums
of doubles are compensated (Neumaier 1974): apart from infinities, they differ from the exact sum at most in the last
digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from belvedere.functions.function_table import WINDOW_BY
from belvedere.functions.sqlpp_functions import is_number
from belvedere.sqlpp.spark_text.native_values import null
from belvedere.sqlpp.spark_text.sql_values import SqlValue, Untranslatable, bound, each, sql_type, unsortable, variable


def aggregate(name: str, arguments: Sequence[SqlValue]) -> SqlValue:
    """Return an aggregate. ARRAY_x skips NULL and MISSING; STRICT_x is NULL if one occurs."""
    prefix, kind = name.split("_", 1)
    array = arguments[0]
    type_ = WINDOW_BY[name].result([a.type for a in arguments])
    if not pa.types.is_list(array.type) or (kind == "PERCENTILE" and not is_number(arguments[1].type)):
        return null(type_)
    member = array.type.value_type
    if kind not in ("COUNT", "MIN", "MAX") and not is_number(member):
        return null(type_)
    if kind in ("MIN", "MAX") and unsortable(member):
        raise Untranslatable("an order of maps")

    def text(a: str) -> str:
        found = _text(kind, a, member, arguments[1:], prefix == "STRICT")
        if prefix == "ARRAY" or kind == "COUNT":
            return found
        return f"IF({each(a, lambda x: f'{x} IS NULL', 'exists')}, NULL, {found})"

    return SqlValue(bound(array.sql, text), type_ or pa.null())


def _text(kind: str, array: str, member: pa.DataType, more: Sequence[SqlValue], strict: bool) -> str:
    if kind in ("MIN", "MAX"):
        return f"array_{kind.lower()}({array})"
    known = each(array, lambda x: f"{x} IS NOT NULL", "filter")
    if kind == "COUNT":
        return f"IF({array} IS NULL, NULL, CAST(size({array if strict else known}) AS BIGINT))"
    if kind == "SUM":
        return bound(known, lambda k: f"IF(size({k}) = 0, NULL, {_total(k, member)})")
    if kind == "AVG":
        return bound(known, lambda k: f"IF(size({k}) = 0, NULL, CAST({_exact(k, member)} AS DOUBLE) / size({k}))")
    reals = each(known, lambda x: f"CAST({x} AS DOUBLE)")
    if kind in ("MEDIAN", "PERCENTILE"):
        fraction = f"CAST({more[0].sql} AS DOUBLE)" if more else "0.5D"
        return bound(f"sort_array({reals})", lambda k: _percentile(k, fraction))
    return bound(reals, lambda k: _moment(kind, k))


def _total(array: str, member: pa.DataType) -> str:
    found = _exact(array, member)
    return f"CAST({found} AS BIGINT)" if pa.types.is_integer(member) else found


def _exact(array: str, member: pa.DataType) -> str:
    """Return an exact sum; for whole numbers as a decimal."""
    if pa.types.is_floating(member):
        return real_sum(each(array, lambda x: f"CAST({x} AS DOUBLE)"))
    decimal = sql_type(pa.decimal128(38, member.scale if pa.types.is_decimal(member) else 0))
    total, x = variable(), variable()
    return f"aggregate({array}, CAST(0 AS {decimal}), ({total}, {x}) -> CAST({total} + {x} AS {decimal}))"


def real_sum(array: str) -> str:
    """Return the sum of the doubles that are neither NULL nor MISSING."""
    s, x, t = variable(), variable(), variable()
    lost = f"IF(abs({s}.`s`) >= abs({x}), {s}.`s` - {t} + {x}, {x} - {t} + {s}.`s`)"
    step = f"element_at(transform(array({s}.`s` + {x}), {t} -> named_struct('s', {t}, 'c', {s}.`c` + {lost})), 1)"
    end = variable()
    finish = f"IF(isnan({end}.`c`) OR abs({end}.`c`) = CAST('inf' AS DOUBLE), {end}.`s`, {end}.`s` + {end}.`c`)"
    return f"aggregate({array}, named_struct('s', 0.0D, 'c', 0.0D), ({s}, {x}) -> {step}, {end} -> {finish})"


def _percentile(array: str, fraction: str) -> str:
    """Return the continuous percentile of sorted doubles, with linear interpolation between the two nearest ranks."""
    place = f"({fraction} * (size({array}) - 1))"
    below = f"CAST(floor({place}) AS INT)"
    left, right = f"try_element_at({array}, {below} + 1)", f"try_element_at({array}, {below} + 2)"
    between = f"IF({place} > {below}, IF({right} = {left}, 0D, ({right} - {left}) * ({place} - {below})), 0D)"
    return f"IF(size({array}) = 0 OR NOT ({fraction} >= 0 AND {fraction} <= 1), NULL, {left} + {between})"


def _moment(kind: str, array: str) -> str:
    """Return a moment of doubles, such as variance or skewness, from sums of powers of the distance from the mean."""
    first = f"try_element_at({array}, 1)"

    def about(distances: str) -> str:
        mean = f"{real_sum(distances)} / size({distances})"
        return bound(f"named_struct('d', {distances}, 'm', {mean})", moments)

    def moments(s: str) -> str:
        def power(n: int) -> str:
            return real_sum(each(f"{s}.`d`", lambda x: " * ".join([f"({x} - {s}.`m`)"] * n)))

        return MOMENTS[kind](f"size({array})", power)

    least = 2 if kind.endswith("_SAMP") else 1
    return (
        f"IF(size({array}) < {least}, NULL, "
        f"{bound(each(array, lambda x: f'IF({x} = {first}, 0D, {x} - {first})'), about)})"
    )


def _standard(variance: Callable[[str, Callable[[int], str]], str]) -> Callable[[str, Callable[[int], str]], str]:
    return lambda n, power: f"sqrt({variance(n, power)})"


def _sample(n: str, power: Callable[[int], str]) -> str:
    return f"{power(2)} / ({n} - 1)"


def _population(n: str, power: Callable[[int], str]) -> str:
    return f"{power(2)} / {n}"


def _skewness(n: str, power: Callable[[int], str]) -> str:
    return bound(power(2), lambda m: f"IF({m} = 0, NULL, sqrt({n}) * {power(3)} / power({m}, 1.5D))")


def _kurtosis(n: str, power: Callable[[int], str]) -> str:
    return bound(power(2), lambda m: f"IF({m} = 0, NULL, {n} * {power(4)} / ({m} * {m}) - 3)")


MOMENTS: dict[str, Callable[[str, Callable[[int], str]], str]] = {
    "VAR_SAMP": _sample, "VAR_POP": _population, "STDDEV_SAMP": _standard(_sample),
    "STDDEV_POP": _standard(_population),
    "SKEWNESS": _skewness, "KURTOSIS": _kurtosis,
}  # fmt: skip
