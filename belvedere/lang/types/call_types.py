"""Types of function calls, from the table of functions, and of functions that take a lambda or a schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError
from belvedere.functions import spark_types as t
from belvedere.functions.argument_types import takes
from belvedere.functions.function import Kind
from belvedere.functions.function_table import BY_KEY, function_name, shown_name
from belvedere.functions.other_systems import OTHER_ARGUMENTS, OTHER_FUNCTIONS, TRUNCATED
from belvedere.functions.project_functions import OwnFunction, own_function, signature
from belvedere.functions.spark_types import Typed
from belvedere.functions.untyped import CAST_NEEDED, COUNTED
from belvedere.lang.types.operator_types import tried
from belvedere.lang.types.rounding import rounded
from belvedere.lang.types.types_in_texts import from_text, to_number, variant_get
from belvedere.lang.types.typing_scope import TypeRule, TypeScope, children
from belvedere.plan.operators.time_window import TimeWindowKind
from belvedere.syntax.wording import nearest_name


def function(scope: TypeScope, expr: exp.Expr) -> Typed:
    """Return the type of a call, by the function's name."""
    if (own := own_function(expr)) is not None:
        return _own(scope, expr, own)
    name = function_name(expr)
    if name in _BY_NAME:
        return _BY_NAME[name](scope, expr)
    if name == "bround":
        _check_taken(scope, expr, ("bround",))
        return rounded(
            scope, scope.typed(expr.expressions[0]), expr.expressions[1] if len(expr.expressions) > 1 else None
        )
    arguments = [scope.typed(a) for a in children(expr)]
    if isinstance(expr, exp.Trunc):
        raise scope.fail("B3015", "`truncate` with these arguments is not supported", expr, TRUNCATED)
    row = BY_KEY.get(name)
    if row is None or row.type is None:
        raise _unknown(scope, expr)
    found = row.type([a.type for a in arguments])
    given = _given(scope, expr, [a.type for a in arguments])
    first = given[0] if given else t.NULL
    taken = takes(row.calls or (shown_name(expr).lower(),), given) and (
        row.first is None or first == t.NULL or row.first(first)
    )
    if found is None or not taken:
        types = ", ".join(map(t.type_text, given))
        hint = OTHER_ARGUMENTS.get(name, "CAST the arguments")
        raise scope.fail("B3002", f"`{shown_name(expr)}` does not take ({types})", expr, hint)
    if row.kind is Kind.AGGREGATE:
        return Typed(found, row.over_nothing == "NULL")
    if row.kind is Kind.WINDOW:
        return Typed(found, name == "NthValue")
    return Typed(found, not row.total or any(a.nullable for a in arguments))


def _given(scope: TypeScope, expr: exp.Expr, types: list[pa.DataType]) -> list[pa.DataType]:
    """Return the types of a call's arguments as written, including a format, and a time that sqlglot parses from a
    text."""
    if isinstance(expr, exp.TimeToStr) and isinstance(expr.this, exp.TimeStrToTime):
        types = [scope.type(expr.this.this)]
    format_ = expr.args.get("format")
    if not isinstance(format_, exp.Expr) or isinstance(format_, exp.Var):
        return types
    return [*types, scope.type(format_)]


def _own(scope: TypeScope, expr: exp.Expr, own: OwnFunction) -> Typed:
    """Return the type of a project's function: its arguments are cast to its parameters if that loses nothing."""
    if scope.variables:
        hint = "explode the array, call it on the elements, and collect them again"
        raise scope.fail("B3074", f"`{own.name}` cannot be called in a lambda", expr, hint)
    types = [scope.typed(argument.this).type for argument in expr.expressions]
    if any(
        t.common_type(requested, found) != requested
        for found, (_, requested) in zip(types, own.parameters, strict=True)
    ):
        message = f"`{own.name}` does not take ({', '.join(map(t.type_text, types))})"
        raise scope.fail("B3002", message, expr, f"it is {signature(own, t.type_text)}: CAST the arguments")
    return Typed(own.result)


TABLE_FUNCTIONS = (*(kind.upper() for kind in TimeWindowKind), "SESSION_WINDOW")


def _unknown(scope: TypeScope, expr: exp.Expr) -> BelvedereError:
    shown = shown_name(expr)
    known = [n for row in BY_KEY.values() for n in row.calls]
    if shown.upper() in TABLE_FUNCTIONS:
        hint = f"use windows in FROM: {shown}(data => TABLE(T), timecol => DESCRIPTOR(ts), ...), then GROUP BY wend"
    elif _elsewhere(expr, shown) in OTHER_FUNCTIONS:
        hint = OTHER_FUNCTIONS[_elsewhere(expr, shown)]
    elif shown.lower() in CAST_NEEDED:
        hint = f"Belvedere does not know its type: write CAST({shown}(...) AS STRING)"
    elif shown.lower() in COUNTED:
        hint = "no view that uses this Spark function can be maintained: write the query without it"
    else:
        near = nearest_name(shown, [*known, *CAST_NEEDED])
        hint = f"did you mean `{near}`?" if near else "Spark SQL has no function of this or a similar name"
    return scope.fail("B3005", f"function `{shown}` is not known", expr, hint)


def _elsewhere(expr: exp.Expr, shown: str) -> str:
    """Return the name of a function in other systems; their function that joins arrays is printed as another one."""
    return "ARRAY_CONCAT" if isinstance(expr, exp.ArrayConcat) else shown.upper()


def is_unknown(scope: TypeScope, expr: exp.Expr) -> bool:
    """Return whether only Spark knows a function: the CAST around it gives its type."""
    if not isinstance(expr, exp.Func) or scope.has_rule(expr):
        return False
    name = function_name(expr)
    return name not in BY_KEY and name not in _BY_NAME and shown_name(expr).lower() in CAST_NEEDED


def check_unknown(scope: TypeScope, expr: exp.Expr) -> None:
    """Reject arguments that such a function does not accept: Spark would fail at the first row."""
    _check_taken(scope, expr, (shown_name(expr).lower(),))


def _check_taken(scope: TypeScope, expr: exp.Expr, names: tuple[str, ...]) -> None:
    types, name = [scope.typed(a).type for a in children(expr)], names[0]
    if not takes(names, types):
        raise scope.fail(
            "B3002", f"`{name}` does not take ({', '.join(map(t.type_text, types))})", expr, "CAST the arguments"
        )


def _lambda_function(scope: TypeScope, expr: Any) -> Typed:
    owner = scope.typed(expr.this)
    body = expr.args.get("expression")
    result = _lambda(scope, body, _lambda_arguments(scope, owner.type, expr))
    if isinstance(expr, exp.ArrayFilter):
        return Typed(owner.type, owner.nullable)
    if isinstance(expr, exp.Transform):
        return Typed(pa.list_(result.type), owner.nullable)
    return Typed(t.BOOLEAN, True)


def _lambda_arguments(scope: TypeScope, type_: pa.DataType, expr: exp.Expr) -> list[Typed]:
    if not t.is_array(type_):
        raise scope.fail("B3002", f"an array is needed here, not {t.a_type(type_)}", expr)
    return [Typed(type_.value_type), Typed(t.INT32, False)]


def _lambda(scope: TypeScope, body: Any, arguments: list[Typed]) -> Typed:
    if not isinstance(body, exp.Lambda):
        raise scope.fail("B3002", "a lambda `x -> ...` is needed here", body)
    before = dict(scope.variables)
    scope.variables.update({p.name.casefold(): a for p, a in zip(body.expressions, arguments, strict=False)})
    try:
        return scope.typed(body.this)
    finally:
        scope.variables = before


def _reduce(scope: TypeScope, expr: Any) -> Typed:
    owner, start = scope.typed(expr.this), scope.typed(expr.args["initial"])
    element = _lambda_arguments(scope, owner.type, expr)[0]
    merged = _lambda(scope, expr.args["merge"], [start, element])
    if start.type == t.NULL or merged.type not in (start.type, t.NULL):
        message = f"the start is {t.a_type(start.type)}, and what follows {t.a_type(merged.type)}"
        raise scope.fail("B3002", message, expr, f"write CAST(... AS {t.type_text(merged.type)}) for the start")
    merged = Typed(start.type, True)
    finish = expr.args.get("finish")
    return _lambda(scope, finish, [merged]) if finish is not None else Typed(merged.type, True)


def _array_lambda(scope: TypeScope, expr: Any, result: str) -> Typed:
    owner = scope.typed(expr.expressions[0])
    if pa.types.is_map(owner.type):
        arguments = [Typed(owner.type.key_type, False), Typed(owner.type.item_type)]
    else:
        arguments = _lambda_arguments(scope, owner.type, expr)
    inner = _lambda(scope, expr.expressions[1], arguments)
    types = {
        "boolean": lambda: t.BOOLEAN,
        "same": lambda: owner.type,
        "keys": lambda: pa.map_(inner.type, owner.type.item_type),
        "values": lambda: pa.map_(owner.type.key_type, inner.type),
    }
    return Typed(types[result](), True)


_SECONDS = frozenset("SECOND SECONDS S SEC SECS".split())
_FIELDS = _SECONDS | frozenset(
    "YEAR Y YEARS YR YRS YEAROFWEEK QUARTER QTR MONTH MON MONS MONTHS WEEK W WEEKS DAY D DAYS DAYOFWEEK DOW "
    "DAYOFWEEK_ISO DOW_ISO "
    "DOY HOUR H HOURS HR HRS MINUTE M MIN MINS MINUTES".split()
)
"""Fields that Spark extracts; `epoch` is rewritten to another expression."""


def date_part(scope: TypeScope, field: exp.Expr, value: exp.Expr) -> Typed:
    """Return the type of a field of a time: seconds have fractions."""
    name, found = field.name.upper(), scope.typed(value)
    if name not in _FIELDS:
        hint = "write YEAR, QUARTER, MONTH, WEEK, DAY, DOW, DOY, HOUR, MINUTE, SECOND or EPOCH"
        raise scope.fail(
            "B3048", f"times have no field `{field.name}`", field if "start" in field.meta else value, hint
        )
    if t.is_number(found.type) or found.type in (t.BOOLEAN, t.BINARY) or pa.types.is_nested(found.type):
        raise scope.fail("B3002", f"{t.a_type(found.type)} has no time fields", value, "CAST it to TIMESTAMP")
    _check_interval_field(scope, name, found.type, value)
    if t.is_interval(found.type) and name not in _SECONDS and not name.startswith(("Y", "D")):
        return Typed(t.INT8, found.nullable)  # hours, minutes and months of an interval
    return Typed(pa.decimal128(8, 6) if name in _SECONDS else t.INT32, found.nullable)


def _check_interval_field(scope: TypeScope, name: str, type_: pa.DataType, value: exp.Expr) -> None:
    """Reject days of a year-month interval and months of a day-time one."""
    is_month = name.startswith(("YEAR", "Y", "MON"))
    if (type_ == t.MONTH_INTERVAL and not is_month) or (type_ == t.DAY_INTERVAL and is_month):
        fields = "YEAR and MONTH" if type_ == t.MONTH_INTERVAL else "DAY, HOUR, MINUTE and SECOND"
        raise scope.fail("B3048", f"{t.a_type(type_)} has no field `{name}`", value, f"it has {fields}")


def _sorted_by(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `array_sort(array, (a, b) -> ...)`: the comparison returns an integer."""
    compare = expr.args.get("expression")
    if not isinstance(compare, exp.Lambda):
        return function(scope, expr)
    owner = scope.typed(expr.this)
    element = _lambda_arguments(scope, owner.type, expr)[0]
    found = _lambda(scope, compare, [element, element])
    if found.type not in (t.INT32, t.NULL):
        hint = "write CASE WHEN a < b THEN -1 WHEN a > b THEN 1 ELSE 0 END"
        raise scope.fail("B3002", f"an INT is needed here, not {t.a_type(found.type)}", compare, hint)
    return owner


def _map_zip_with(scope: TypeScope, expr: Any) -> Typed:
    left, right = (scope.type(e) for e in expr.expressions[:2])
    for written, type_ in zip(expr.expressions, (left, right), strict=False):
        if not pa.types.is_map(type_):
            raise scope.fail("B3002", f"a map is needed here, not {t.a_type(type_)}", written)
    key = t.common_type(left.key_type, right.key_type)
    if key is None:
        raise scope.fail("B3002", f"{t.a_type(left)} and {t.a_type(right)} have no common keys", expr)
    found = _lambda(scope, expr.expressions[2], [Typed(key, False), Typed(left.item_type), Typed(right.item_type)])
    return Typed(pa.map_(key, found.type), True)


def _zip_with(scope: TypeScope, expr: Any) -> Typed:
    left, right = scope.typed(expr.expressions[0]), scope.typed(expr.expressions[1])
    elements = [_lambda_arguments(scope, x.type, expr)[0] for x in (left, right)]
    return Typed(pa.list_(_lambda(scope, expr.expressions[2], elements).type), True)


_BY_NAME: dict[str, Callable[[TypeScope, Any], Typed]] = {
    "forall": lambda scope, e: _array_lambda(scope, e, "boolean"),
    "exists": lambda scope, e: _array_lambda(scope, e, "boolean"),
    "map_filter": lambda scope, e: _array_lambda(scope, e, "same"),
    "transform_keys": lambda scope, e: _array_lambda(scope, e, "keys"),
    "transform_values": lambda scope, e: _array_lambda(scope, e, "values"),
    "zip_with": _zip_with,
    **dict.fromkeys(("FromJson", "from_json", "from_csv", "from_xml"), from_text),
    **dict.fromkeys(("to_number", "try_to_number"), to_number),
    **dict.fromkeys(("variant_get", "try_variant_get"), variant_get),
    "map_zip_with": _map_zip_with,
    "date_part": lambda scope, e: date_part(scope, *e.expressions),
    "datepart": lambda scope, e: date_part(scope, *e.expressions),
    "SafeAdd": partial(tried, operator=exp.Add),
    "SafeSubtract": partial(tried, operator=exp.Sub),
    "SafeMultiply": partial(tried, operator=exp.Mul),
    "SafeDivide": partial(tried, operator=exp.Div),
    "try_mod": partial(tried, operator=exp.Mod),
}


_DATE_UNITS = frozenset("YEAR YYYY YY QUARTER MONTH MM MON WEEK".split())
_UNITS = {
    exp.DateTrunc: _DATE_UNITS,
    exp.TimestampTrunc: _DATE_UNITS | frozenset("DAY DD HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()),
}


def _truncated(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `date_trunc` and `trunc`: their unit is a name, and for an unknown one Spark returns NULL."""
    unit = expr.args["unit"].name
    if unit.upper() not in _UNITS[type(expr)]:
        message = f"`{unit}` is not a unit to round down to" if unit else "the unit to round down to must be a name"
        raise scope.fail(
            "B3048", message, expr, "write one as text: 'MONTH', 'WEEK', and for times 'DAY', 'HOUR', 'MINUTE', ..."
        )
    return function(scope, expr)


RULES: dict[type[exp.Expr], TypeRule] = {
    **dict.fromkeys(_UNITS, _truncated),
    **dict.fromkeys((exp.Transform, exp.Exists, exp.ArrayFilter), _lambda_function),
    exp.Reduce: _reduce,
    exp.ArraySort: _sorted_by,
}
