"""Types of forms with special syntax: CAST, CASE, structs, arrays and maps, rounding, EXTRACT, OVER."""

from __future__ import annotations

import re
import sys
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.casts import castable
from belvedere.functions.function import Kind
from belvedere.functions.function_table import function_name, function_of, unwrap_aggregate
from belvedere.functions.spark_types import Typed
from belvedere.lang.types.call_types import check_unknown, date_part, is_unknown
from belvedere.lang.types.constant_checks import check_constants, number_of
from belvedere.lang.types.leaf_types import field_of
from belvedere.lang.types.operator_types import compared
from belvedere.lang.types.typing_scope import TypeRule, TypeScope, children
from belvedere.schema import TIMESTAMP, has_map


def _cast(scope: TypeScope, expr: Any) -> Typed:
    target = t.arrow_type(expr.args["to"])
    if target is None:
        hint = t.INSTEAD.get(expr.to.this, "use another type")
        raise scope.fail("B3003", f"type {expr.args['to'].sql()} is not supported", expr, hint)
    if is_unknown(scope, expr.this):
        check_unknown(scope, expr.this)
        return Typed(target, True)
    inner = scope.typed(expr.this)
    _check_literal(scope, expr, target)
    if t.is_interval(inner.type) and t.is_number(target) and isinstance(expr.this.unnest(), exp.Column):
        message = f"{t.a_type(inner.type)} has several fields, so it is not a number"
        raise scope.fail(
            "B3002", message, expr, "convert it to one unit first: CAST(CAST(i AS INTERVAL SECOND) AS BIGINT)"
        )
    if not castable(inner.type, target):
        message = f"{t.a_type(inner.type)} cannot be cast to {t.a_type(target)}"
        raise scope.fail(
            "B3002", message, expr, "compute it: `x <> 0`, date_from_unix_date(days), unix_date(date), ..."
        )
    return Typed(target, inner.nullable or isinstance(expr, exp.TryCast))


_GREATEST: dict[pa.DataType, float] = {
    **{type_: 2 ** (type_.bit_width - 1) - 1 for type_ in t.INTEGERS},
    t.FLOAT: 3.4028234663852886e38,
    t.DOUBLE: sys.float_info.max,
}


def _check_literal(scope: TypeScope, expr: Any, target: pa.DataType) -> None:
    """Reject a number out of range of its type: `128Y`, `1e50F`."""
    most = _GREATEST.get(target)
    number = None if most is None or not is_strict(expr) else number_of(expr.this)
    if most is None or number is None:
        return
    inner = expr.this.unnest()
    literal = inner.this.unnest() if isinstance(inner, exp.Neg) else inner
    exact = int(literal.this) if t.is_integer(target) and str(literal.this).isdigit() else abs(number)
    if exact > most + (t.is_integer(target) and number < 0):
        message = f"{inner.sql('spark')} is too large for {t.a_type(target)}"
        raise scope.fail("B3072", message, expr, "write a wider type: BIGINT, DOUBLE, DECIMAL(38, 0)")


def is_strict(cast: exp.Expr) -> bool:
    """Return whether a cast raises an error, instead of NULL, for an invalid value."""
    return not isinstance(cast, exp.TryCast)


def _case(scope: TypeScope, expr: Any) -> Typed:
    subject = expr.args.get("this")
    for branch in expr.args["ifs"]:
        if subject is None:
            scope.condition(branch.this)
        else:
            compared(scope, branch, [subject, branch.this])
    default = expr.args.get("default")
    found = scope.common([b.args["true"] for b in expr.args["ifs"]] + ([default] if default is not None else []))
    return Typed(found.type, found.nullable or default is None)


def _if(scope: TypeScope, expr: Any) -> Typed:
    scope.condition(expr.this, untyped=isinstance(expr.this.unnest(), exp.Null))
    results = [e for e in (expr.args.get("true"), expr.args.get("false")) if e is not None]
    found = scope.common(results)
    return Typed(found.type, found.nullable or len(results) < 2)


def _coalesce(scope: TypeScope, expr: Any) -> Typed:
    return scope.common(children(expr), null_if=all)


def _bracket(scope: TypeScope, expr: Any) -> Typed:
    owner = scope.typed(expr.this)
    for index in expr.expressions:
        type_ = scope.type(index)
        element_at = expr.args.get("offset") == 1
        if pa.types.is_map(owner.type) and element_at and t.plain_common_type(owner.type.key_type, type_) is None:
            message = f"a key of {t.a_type(owner.type)} is {t.a_type(owner.type.key_type)}, not {t.a_type(type_)}"
            raise scope.fail("B3002", message, index, "CAST it to the type of the keys")
        if t.is_array(owner.type) and type_ not in (
            t.INT8,
            t.INT16,
            t.INT32,
            *(() if element_at else (t.INT64, t.NULL)),
        ):
            raise scope.fail(
                "B3002",
                f"an array index must be a number, not {t.a_type(type_)}",
                index,
                "write a[0] for the first element",
            )
    if pa.types.is_map(owner.type):
        return Typed(owner.type.item_type, True)
    if t.is_array(owner.type):
        return Typed(owner.type.value_type, True)
    if pa.types.is_struct(owner.type) and isinstance(expr.expressions[0], exp.Literal):
        return field_of(scope, owner, expr.expressions[0].name, expr)
    raise scope.fail("B3002", f"{t.a_type(owner.type)} has no elements", expr)


def _struct(scope: TypeScope, expr: Any) -> Typed:
    fields = []
    for n, part in enumerate(expr.expressions):
        named = isinstance(part, (exp.PropertyEQ, exp.Alias))
        value = (part.expression if isinstance(part, exp.PropertyEQ) else part.this) if named else part
        inner = scope.typed(value)
        name = (part.this.name if isinstance(part, exp.PropertyEQ) else part.alias) if named else f"col{n + 1}"
        if not named and isinstance(part, (exp.Column, exp.Dot)):
            name = part.name
        fields.append(pa.field(name, inner.type))  # fields of a struct that may be NULL may be NULL
    return Typed(pa.struct(fields), False)


def _map(scope: TypeScope, expr: Any) -> Typed:
    keys, values = expr.args.get("keys"), expr.args.get("values")
    if isinstance(keys, exp.Array) and not keys.expressions:
        raise scope.fail(
            "B3002", "an empty map has no type", expr, "give it one, or write CAST(NULL AS MAP<STRING, INT>)"
        )
    if isinstance(keys, exp.Array) and isinstance(values, exp.Array):
        return Typed(pa.map_(scope.common(keys.expressions).type, scope.common(values.expressions).type), False)
    lists = [scope.typed(e) for e in (keys, values) if e is not None]
    if len(lists) == 2 and all(t.is_array(x.type) for x in lists):
        return Typed(pa.map_(lists[0].type.value_type, lists[1].type.value_type), any(x.nullable for x in lists))
    raise scope.fail("B3002", "a map needs keys and values", expr)


def _array(scope: TypeScope, expr: Any) -> Typed:
    return Typed(pa.list_(scope.common(expr.expressions).type), False)


def _extract(scope: TypeScope, expr: Any) -> Typed:
    return date_part(scope, expr.this, expr.expression)


def _in_zone(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `from_utc_timestamp`, `to_utc_timestamp` and AT TIME ZONE: an instant with the fields of a
    zone as UTC fields, or back."""
    inner, zone = scope.typed(expr.this), expr.args["zone"]
    if inner.type not in (TIMESTAMP, t.NULL):
        hint = "CAST it to TIMESTAMP"
        raise scope.fail("B3002", f"a TIMESTAMP is needed here, not {t.a_type(inner.type)}", expr, hint)
    if scope.type(zone) not in (t.STRING, t.NULL):
        raise scope.fail("B3002", "write the time zone as a string", expr, "write 'Europe/Berlin' or '+02:00'")
    if isinstance(zone, exp.Literal) and not is_zone(zone.name):
        hint = "write a region as 'Europe/Berlin', or an offset from UTC as '+02:00'"
        raise scope.fail("B3002", f"`{zone.name}` is not a time zone", expr, hint)
    return Typed(TIMESTAMP, True)


def is_zone(name: str) -> bool:
    if re.fullmatch(r"(UTC|GMT|UT)?([+-]\d{1,2}(:\d{1,2}){0,2})?|Z", name):
        return bool(name)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _window(scope: TypeScope, expr: Any) -> Typed:
    for child in (*(expr.args.get("partition_by") or ()), *_order_parts(expr.args.get("order"))):
        type_ = scope.type(child)
        if has_map(type_):
            hint = "write map_entries(...), or one of its values"
            raise scope.fail("B3002", f"{t.a_type(type_)} is not allowed in OVER: it has no order", child, hint)
    _check_distances(scope, expr)
    call = unwrap_aggregate(expr.this)
    name = function_name(call)
    if name in ("Lag", "Lead"):
        check_constants(scope, call)
        return _shifted(scope, call)
    inner = scope.typed(expr.this)
    row = function_of(call)
    numbering = row is not None and row.kind is Kind.WINDOW and name != "NthValue"  # a frame may have too few rows
    return Typed(inner.type, not numbering and (row is None or row.over_nothing != "0"))


def _check_distances(scope: TypeScope, expr: Any) -> None:
    """Check the distances of a frame. ROWS needs an INT. RANGE measures along a number or a time, by numbers or
    intervals; dates also by days."""
    spec, keys = expr.args.get("spec"), _order_parts(expr.args.get("order"))
    bounds = (
        [b for b in (spec.args.get("start"), spec.args.get("end")) if isinstance(b, exp.Expr)]
        if spec is not None
        else []
    )
    if spec is None or spec.args["kind"].upper() != "RANGE":
        other = next((b for b in bounds if scope.type(b) != t.INT32), None)
        if other is not None:
            message = f"ROWS takes an INT, not {t.a_type(scope.type(other))}"
            raise scope.fail("B3015", message, expr, "write ROWS 2 PRECEDING")
        return
    if len(keys) != 1:
        return
    key = scope.type(keys[0])
    for bound in bounds:
        distance = scope.type(bound)
        if t.is_interval(distance):
            fits = t.is_interval(key) or (
                t.is_time(key) and (key != t.DATE or distance == t.MONTH_INTERVAL or _is_of_days(bound))
            )
        else:
            fits = t.is_number(key) or (key == t.DATE and distance == t.INT32)
        if not fits:
            message = f"a frame over {t.a_type(key)} cannot have the distance {t.a_type(distance)}"
            hint = "order by a number with a number, by a time with an interval, or write ROWS"
            raise scope.fail("B3015", message, keys[0], hint)


def _is_of_days(length: exp.Expr) -> bool:
    """Return whether Spark accepts a length as one of days: written in days, without hours, and not multiplied."""
    units = {str(i.args.get("unit")).upper().removesuffix("S") for i in length.find_all(exp.Interval)}
    return bool(units) and units <= {"DAY", "WEEK"} and length.find(exp.Mul, exp.Div) is None


def _shifted(scope: TypeScope, call: Any) -> Typed:
    """Return the type of the value, to which Spark casts the default."""
    default, found = call.args.get("default"), scope.typed(call.this)
    if default is None:
        return Typed(found.type, True)
    given = scope.typed(default)
    if not castable(given.type, found.type):
        message = f"{t.a_type(given.type)} cannot replace {t.a_type(found.type)}"
        raise scope.fail("B3002", message, default, "CAST it to the type of the value")
    return Typed(found.type, found.nullable or given.nullable)


_OF_DATES = (exp.DateDiff, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.UnixDate)
"""Functions whose arguments sqlglot converts to dates."""


def _to_date(scope: TypeScope, expr: Any) -> Typed:
    inner = scope.typed(expr.this)
    format_ = expr.args.get("format")
    given = [inner.type, *([scope.type(format_)] if format_ is not None else [])]
    if any(map(pa.types.is_nested, given)):
        message = f"`to_date` does not take ({', '.join(map(t.type_text, given))})"
        raise scope.fail("B3002", message, expr, "CAST the arguments")
    if isinstance(expr.parent, _OF_DATES) and not (t.is_time(inner.type) or inner.type in (t.STRING, t.NULL)):
        raise scope.fail("B3002", f"a DATE is needed here, not {t.a_type(inner.type)}", expr.this, "CAST it to DATE")
    return Typed(t.DATE, inner.nullable or inner.type == t.STRING)


def _distinct(scope: TypeScope, expr: Any) -> Typed:
    first, *_ = (scope.typed(e) for e in expr.expressions)
    if isinstance(expr.parent, exp.ArrayAgg) and has_map(first.type):
        hint = "map_entries(m) makes an array of it, which has an order"
        raise scope.fail(
            "B3002", f"a list of different values is sorted, and {t.a_type(first.type)} has no order", expr, hint
        )
    return first


def _count(scope: TypeScope, expr: Any) -> Typed:
    inner = expr.this
    parts = inner.expressions if isinstance(inner, exp.Distinct) else [inner, *expr.expressions]
    for part in parts:
        if part is not None and not isinstance(part, exp.Star):
            scope.typed(part)
    return Typed(t.INT64, False)


def _filtered(scope: TypeScope, expr: Any) -> Typed:
    scope.condition(expr.expression.this if isinstance(expr.expression, exp.Where) else expr.expression)
    return scope.typed(expr.this)


def _order_parts(order: exp.Expr | None) -> list[exp.Expr]:
    return [o.this if isinstance(o, exp.Ordered) else o for o in order.expressions] if order is not None else []


RULES: dict[type[exp.Expr], TypeRule] = {
    exp.Cast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Bracket: _bracket,
    exp.Struct: _struct,
    **dict.fromkeys((exp.Map, exp.VarMap), _map),
    exp.Array: _array,
    exp.Extract: _extract,
    exp.TsOrDsToDate: _to_date,
    exp.Window: _window,
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), _in_zone),
    exp.Distinct: _distinct,
    exp.Count: _count,
    exp.Filter: _filtered,
}
