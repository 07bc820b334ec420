"""The type of a resolved expression, as Spark 4.3 computes it in ANSI mode.

In: a sqlglot tree whose columns are resolved, and the columns that it may read. Out: `Typed` (Arrow type and nullability; where
in doubt nullable). Raises a diagnostic (B3xxx) at the place that has no type. Nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError

from belvedere.errors import BelvedereError, fail
from belvedere.lang import types as t
from belvedere.lang.aggregates import AGGREGATES, COUNTING, EMPTY_ARRAY, WINDOW_FUNCTIONS, WRAPPERS, function_name
from belvedere.lang.functions import NEVER_NULL, NONDETERMINISTIC, RULES
from belvedere.lang.names import did_you_mean
from belvedere.lang.statements import span_of
from belvedere.lang.types import Typed
from belvedere.schema import TIMESTAMP

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
PREDICATES = (exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.SimilarTo)
OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
MONTH_UNITS = ("YEAR", "QUARTER", "MONTH")
LONG_FIELDS = frozenset(("SECOND",))


class SubqueryValue(exp.Expression):
    """The value of a subquery that lowering has yet to join in: `meta["typed"]` is its type, `expressions` are the outer values."""

    arg_types: ClassVar[dict[str, bool]] = {"index": True, "expressions": False}


class Inference:
    """Types of expressions over known columns and parameters; `variables` are those of the lambdas around."""

    def __init__(
        self,
        columns: Mapping[str, Typed],
        *,
        file: str = "",
        parameters: Mapping[str, Typed] | None = None,
    ):
        self.columns = columns
        self.file = file
        self.parameters = parameters or {}
        self.variables: dict[str, Typed] = {}

    def typed(self, expr: exp.Expr) -> Typed:
        """Type and nullability of an expression."""
        for class_ in type(expr).__mro__:
            rule = self._rules.get(class_)
            if rule is not None:
                return rule(self, expr)
        if isinstance(expr, exp.Func):
            return self._function(expr)
        raise self._fail("B3001", f"`{expr.sql('spark')}` is not an expression that has a value", expr)

    def type(self, expr: exp.Expr) -> pa.DataType:
        """The Arrow type alone."""
        return self.typed(expr).type

    # -- leaves -------------------------------------------------------------------------------------------------------

    def _column(self, expr: Any) -> Typed:
        found = self.columns.get(expr.name) or self.variables.get(expr.name.casefold())
        if found is None:
            raise self._fail("B2002", f"column `{expr.name}` is not known here", expr, did_you_mean(expr.name, self.columns))
        return found

    def _variable(self, expr: Any) -> Typed:
        found = self.variables.get(expr.name.casefold())
        if found is None:
            raise self._fail("B2002", f"name `{expr.name}` is not known here", expr)
        return found

    def _literal(self, expr: Any) -> Typed:
        if expr.is_string:
            return Typed(t.STRING, False)
        text: str = expr.this
        if "e" in text.lower():
            return Typed(t.DOUBLE, False)
        if "." in text:
            return Typed(t.literal_decimal(text), False)
        value = int(text)
        if value < 2**31:
            return Typed(t.INT32, False)
        return Typed(t.INT64 if value < 2**63 else pa.decimal128(min(len(text), t.MAX_PRECISION), 0), False)

    def _parameter(self, expr: Any) -> Typed:
        name = parameter_name(expr)
        found = self.parameters.get(name)
        if found is None:
            raise self._fail("B3004", f"parameter `{name}` has no type", expr, "compare it with a column, or declare its type")
        return found

    def _interval(self, expr: Any) -> Typed:
        unit = expr.args.get("unit")
        words = unit.sql().upper() if unit is not None else str(expr.this).upper()
        inner = self.typed(expr.this) if isinstance(expr.this, exp.Expr) and not isinstance(expr.this, exp.Literal) else None
        months = any(u in words for u in MONTH_UNITS)
        return Typed(t.MONTH_INTERVAL if months else t.DAY_INTERVAL, inner.nullable if inner else False)

    def _dot(self, expr: Any) -> Typed:
        owner = self.typed(expr.this)
        return self._field(owner, expr.expression.name, expr)

    def _field(self, owner: Typed, name: str, expr: exp.Expr) -> Typed:
        type_, wrap = owner.type, False
        if t.is_array_of_struct(type_):
            type_, wrap = type_.value_type, True
        if not pa.types.is_struct(type_):
            raise self._fail("B3002", f"`{name}` is not a field of {t.a_type(owner.type)}", expr)
        for field in type_:
            if field.name.casefold() == name.casefold():
                inner = pa.list_(field.type) if wrap else field.type
                return Typed(inner, owner.nullable or field.nullable)
        raise self._fail("B2002", f"there is no field `{name}`", expr, did_you_mean(name, [f.name for f in type_]))

    # -- operators ----------------------------------------------------------------------------------------------------

    def _inner(self, expr: Any) -> Typed:
        return self.typed(expr.this)

    def _boolean(self, expr: Any) -> Typed:
        """AND, OR, NOT, LIKE ...: NULL where a part may be."""
        parts = [self.typed(c) for c in children(expr)]
        return Typed(t.BOOLEAN, any(p.nullable for p in parts))

    def _logical(self, expr: Any) -> Typed:
        parts = [(c, self.typed(c)) for c in children(expr)]
        for child, part in parts:
            if part.type not in (t.BOOLEAN, t.NULL):
                raise self._fail("B3002", f"a condition is needed here, not {t.a_type(part.type)}", child)
        return Typed(t.BOOLEAN, any(p.nullable for _, p in parts))

    def _comparison(self, expr: Any) -> Typed:
        left, right = self.typed(expr.this), self.typed(expr.expression)
        self._comparable(left, right, expr)
        return Typed(t.BOOLEAN, left.nullable or right.nullable)

    def _comparable(self, left: Typed, right: Typed, expr: exp.Expr) -> None:
        if not t.same_kind(left.type, right.type):
            message = f"{t.a_type(left.type)} cannot be compared with {t.a_type(right.type)}"
            raise self._fail("B3002", message, expr, "CAST one side to the type of the other")

    def _never_null(self, expr: Any) -> Typed:
        for child in children(expr):
            self.typed(child)
        return Typed(t.BOOLEAN, False)

    def _between(self, expr: Any) -> Typed:
        parts = [self.typed(expr.args[k]) for k in ("this", "low", "high")]
        for part in parts[1:]:
            self._comparable(parts[0], part, expr)
        return Typed(t.BOOLEAN, any(p.nullable for p in parts))

    def _in(self, expr: Any) -> Typed:
        left = self.typed(expr.this)
        parts = [self.typed(e) for e in expr.expressions]
        for part, written in zip(parts, expr.expressions, strict=True):
            self._comparable(left, part, written)
        return Typed(t.BOOLEAN, left.nullable or any(p.nullable for p in parts))

    def _arithmetic(self, expr: Any) -> Typed:
        left, right = self.typed(expr.this), self.typed(expr.expression)
        operator = OPERATORS[type(expr)]
        found = self._arithmetic_type(operator, left.type, right.type, expr)
        if found == TIMESTAMP and t.DATE in (left.type, right.type) and _whole_days(expr):
            found = t.DATE
        if found is None:
            message = f"{t.type_text(left.type)} {operator} {t.type_text(right.type)} has no meaning"
            raise self._fail("B3002", message, expr, "CAST one side to the type of the other")
        return Typed(found, left.nullable or right.nullable)

    def _arithmetic_type(self, operator: str, left: pa.DataType, right: pa.DataType, expr: Any) -> pa.DataType | None:
        if t.NULL in (left, right):
            left, right = (right, right) if left == t.NULL else (left, left)
            if left == t.NULL:
                return t.DOUBLE
        if t.is_number(left) and t.is_number(right):
            return self._number_type(operator, left, right, expr)
        if t.STRING in (left, right) and (t.is_number(left) or t.is_number(right) or left == right):
            other = right if left == t.STRING else left
            whole = t.is_integer(other) and operator != "/"
            return t.INT64 if whole else t.DOUBLE
        return _time_arithmetic(operator, left, right)

    def _number_type(self, operator: str, left: pa.DataType, right: pa.DataType, expr: Any) -> pa.DataType:
        decimals = t.is_decimal(left), t.is_decimal(right)
        if any(decimals) and not {left, right} & {t.FLOAT, t.DOUBLE}:
            a = left if decimals[0] else self._integer_as_decimal(expr.this, left)
            b = right if decimals[1] else self._integer_as_decimal(expr.expression, right)
            return t.arithmetic_decimal(operator, a, b)
        if operator == "/" or any(decimals):
            return t.DOUBLE
        if t.FLOAT in (left, right) and left != right:
            return t.DOUBLE
        return max(left, right, key=t.WIDTHS.index)

    @staticmethod
    def _integer_as_decimal(expr: exp.Expr, type_: pa.DataType) -> pa.DataType:
        """An integer literal beside a decimal has just its own digits."""
        inner = expr.unnest()
        literal = inner.this if isinstance(inner, exp.Neg) else inner
        if isinstance(literal, exp.Literal) and not literal.is_string:
            return pa.decimal128(len(literal.this.lstrip("0")) or 1, 0)
        return t.as_decimal(type_)

    def _integer_division(self, expr: Any) -> Typed:
        left, right = self.typed(expr.this), self.typed(expr.expression)
        return Typed(t.INT64, left.nullable or right.nullable)

    def _shift(self, expr: Any) -> Typed:
        value, count = self.typed(expr.this), self.typed(expr.expression)
        return Typed(value.type if value.type == t.INT64 else t.INT32, value.nullable or count.nullable)

    def _bitwise(self, expr: Any) -> Typed:
        left, right = self.typed(expr.this), self.typed(expr.expression)
        common = t.common_type(left.type, right.type)
        if common is None or not (t.is_integer(common) or common == t.BOOLEAN):
            raise self._fail("B3002", "bitwise operators need integers", expr)
        return Typed(common, left.nullable or right.nullable)

    def _negative(self, expr: Any) -> Typed:
        inner = self.typed(expr.this)
        if not (t.is_number(inner.type) or t.is_interval(inner.type) or inner.type == t.NULL):
            raise self._fail("B3002", f"{t.a_type(inner.type)} has no negative", expr)
        return inner

    def _pipe(self, expr: Any) -> Typed:
        left, right = self.typed(expr.this), self.typed(expr.expression)
        arrays = t.is_array(left.type) and t.is_array(right.type)
        type_ = t.common_type(left.type, right.type) if arrays else t.STRING
        return Typed(type_ or t.STRING, left.nullable or right.nullable)

    # -- forms of their own -------------------------------------------------------------------------------------------

    def _cast(self, expr: Any) -> Typed:
        target = t.arrow_type(expr.args["to"])
        if target is None:
            raise self._fail("B3003", f"type {expr.args['to'].sql('spark')} is not supported", expr, "use another type")
        if self._is_unknown_function(expr.this):
            for argument in children(expr.this):
                self.typed(argument)
            return Typed(target, True)
        inner = self.typed(expr.this)
        if isinstance(expr.args["to"].this, exp.Interval):
            target = self._interval_type(expr.args["to"].this)
        return Typed(target, inner.nullable or isinstance(expr, exp.TryCast))

    @staticmethod
    def _is_unknown_function(expr: exp.Expr) -> bool:
        """A function that only Spark knows: the CAST around it says its type."""
        name = function_name(expr)
        known = (AGGREGATES, WINDOW_FUNCTIONS, RULES, NONDETERMINISTIC, _ANONYMOUS_LAMBDAS)
        return isinstance(expr, exp.Func) and type(expr) not in Inference._rules and not any(name in k for k in known)

    @staticmethod
    def _interval_type(interval: exp.Interval) -> pa.DataType:
        words = interval.sql().upper()
        return t.MONTH_INTERVAL if any(u in words for u in MONTH_UNITS) else t.DAY_INTERVAL

    def _case(self, expr: Any) -> Typed:
        subject = expr.args.get("this")
        if subject is not None:
            self.typed(subject)
        results = []
        for branch in expr.args["ifs"]:
            self.typed(branch.this)
            results.append((branch.args["true"], self.typed(branch.args["true"])))
        default = expr.args.get("default")
        if default is not None:
            results.append((default, self.typed(default)))
        nullable = default is None or any(r.nullable for _, r in results)
        return Typed(self._common(results, expr), nullable)

    def _if(self, expr: Any) -> Typed:
        self.typed(expr.this)
        results = [(e, self.typed(e)) for e in (expr.args.get("true"), expr.args.get("false")) if e is not None]
        nullable = len(results) < 2 or any(r.nullable for _, r in results)
        return Typed(self._common(results, expr), nullable)

    def _common(self, parts: list[tuple[exp.Expr, Typed]], expr: exp.Expr) -> pa.DataType:
        result: pa.DataType = t.NULL
        for written, part in parts:
            common = t.common_type(result, part.type)
            if common is None:
                message = f"{t.type_text(result)} and {t.type_text(part.type)} have no common type"
                raise self._fail("B3002", message, written, "CAST one of them to the type of the other")
            result = common
        return result

    def _coalesce(self, expr: Any) -> Typed:
        parts = [(e, self.typed(e)) for e in children(expr)]
        return Typed(self._common(parts, expr), all(p.nullable for _, p in parts))

    def _bracket(self, expr: Any) -> Typed:
        owner = self.typed(expr.this)
        for index in expr.expressions:
            self.typed(index)
        if pa.types.is_map(owner.type):
            return Typed(owner.type.item_type, True)
        if t.is_array(owner.type):
            return Typed(owner.type.value_type, True)
        if pa.types.is_struct(owner.type) and isinstance(expr.expressions[0], exp.Literal):
            return self._field(owner, expr.expressions[0].name, expr)
        raise self._fail("B3002", f"{t.a_type(owner.type)} has no elements", expr)

    def _struct(self, expr: Any) -> Typed:
        fields = []
        for n, part in enumerate(expr.expressions):
            named = isinstance(part, (exp.PropertyEQ, exp.Alias))
            value = (part.expression if isinstance(part, exp.PropertyEQ) else part.this) if named else part
            inner = self.typed(value)
            name = (part.this.name if isinstance(part, exp.PropertyEQ) else part.alias) if named else f"col{n + 1}"
            if not named and isinstance(part, (exp.Column, exp.Dot)):
                name = part.name
            fields.append(pa.field(name, inner.type, inner.nullable))
        return Typed(pa.struct(fields), False)

    def _map(self, expr: Any) -> Typed:
        keys, values = expr.args.get("keys"), expr.args.get("values")
        if isinstance(keys, exp.Array) and isinstance(values, exp.Array):
            key = self._common([(e, self.typed(e)) for e in keys.expressions], expr)
            value = self._common([(e, self.typed(e)) for e in values.expressions], expr)
            return Typed(pa.map_(key, value), False)
        lists = [self.typed(e) for e in (keys, values) if e is not None]
        if len(lists) == 2 and all(t.is_array(x.type) for x in lists):
            return Typed(pa.map_(lists[0].type.value_type, lists[1].type.value_type), any(x.nullable for x in lists))
        raise self._fail("B3002", "a map needs keys and values", expr)

    def _array(self, expr: Any) -> Typed:
        parts = [(e, self.typed(e)) for e in expr.expressions]
        return Typed(pa.list_(self._common(parts, expr)), False)

    def _round(self, expr: Any) -> Typed:
        inner = self.typed(expr.this)
        return self._rounded(inner, expr.args.get("decimals"))

    def _rounded(self, inner: Typed, places: exp.Expr | None) -> Typed:
        if not t.is_decimal(inner.type):
            return Typed(inner.type if t.is_number(inner.type) else t.DOUBLE, inner.nullable)
        count = _integer_value(places) if places is not None else 0
        scale = min(inner.type.scale, max(count, 0))
        whole = inner.type.precision - inner.type.scale + 1
        if count < 0:
            return Typed(pa.decimal128(min(t.MAX_PRECISION, max(whole, -count + 1)), 0), inner.nullable)
        return Typed(t.bounded_decimal(whole + scale, scale), inner.nullable)

    def _ceiling(self, expr: Any) -> Typed:
        inner, places = self.typed(expr.this), expr.args.get("decimals")
        if places is None:
            found = RULES[type(expr).__name__]([inner.type])
            return Typed(found or t.INT64, inner.nullable)
        type_ = inner.type if t.is_decimal(inner.type) else None
        if type_ is None:
            digits = t.INTEGER_DIGITS.get(inner.type)
            type_ = (
                pa.decimal128(digits, 0)
                if digits
                else pa.decimal128(30, 15)
                if inner.type == t.DOUBLE
                else pa.decimal128(14, 7)
            )
        scale = min(type_.scale, max(_integer_value(places), 0))
        return Typed(t.bounded_decimal(type_.precision - type_.scale + 1 + scale, scale), inner.nullable)

    def _extract(self, expr: Any) -> Typed:
        inner = self.typed(expr.expression)
        field = expr.this.name.upper() if expr.this is not None else ""
        seconds = field in ("SECOND", "SECONDS", "S", "SEC", "SECS")
        return Typed(pa.decimal128(8, 6) if seconds else t.INT32, inner.nullable)

    def _lambda_function(self, expr: Any) -> Typed:
        owner = self.typed(expr.this)
        body = expr.args.get("expression")
        result = self._lambda(body, self._lambda_arguments(owner.type, body, expr))
        if isinstance(expr, exp.ArrayFilter):
            return Typed(owner.type, owner.nullable)
        if isinstance(expr, exp.Transform):
            return Typed(pa.list_(result.type), owner.nullable)
        return Typed(t.BOOLEAN, True)

    def _lambda_arguments(self, type_: pa.DataType, body: Any, expr: exp.Expr) -> list[Typed]:
        if not t.is_array(type_):
            raise self._fail("B3002", f"an array is needed here, not {t.a_type(type_)}", expr)
        return [Typed(type_.value_type), Typed(t.INT32, False)]

    def _lambda(self, body: Any, arguments: list[Typed]) -> Typed:
        if not isinstance(body, exp.Lambda):
            raise self._fail("B3002", "a lambda `x -> ...` is needed here", body)
        before = dict(self.variables)
        self.variables.update({p.name.casefold(): a for p, a in zip(body.expressions, arguments, strict=False)})
        try:
            return self.typed(body.this)
        finally:
            self.variables = before

    def _reduce(self, expr: Any) -> Typed:
        owner, start = self.typed(expr.this), self.typed(expr.args["initial"])
        element = self._lambda_arguments(owner.type, None, expr)[0]
        merged = self._lambda(expr.args["merge"], [start, element])
        finish = expr.args.get("finish")
        return self._lambda(finish, [merged]) if finish is not None else Typed(merged.type, True)

    def _window(self, expr: Any) -> Typed:
        for child in (*(expr.args.get("partition_by") or ()), *_order_parts(expr.args.get("order"))):
            self.typed(child)
        call = expr.this
        while isinstance(call, WRAPPERS):
            call = call.this
        name = function_name(call)
        if name in ("Lag", "Lead"):
            return self._shifted(call)
        inner = self.typed(expr.this)
        return Typed(inner.type, name not in WINDOW_FUNCTIONS and name not in COUNTING)

    def _shifted(self, call: Any) -> Typed:
        parts = [(call.this, self.typed(call.this))]
        default = call.args.get("default")
        if default is not None:
            parts.append((default, self.typed(default)))
        return Typed(self._common(parts, call), default is None or any(p.nullable for _, p in parts))

    def _distinct(self, expr: Any) -> Typed:
        parts = [self.typed(e) for e in expr.expressions]
        return parts[0]

    # -- functions ----------------------------------------------------------------------------------------------------

    def _function(self, expr: exp.Expr) -> Typed:
        name = function_name(expr)
        if name in NONDETERMINISTIC:
            message = f"`{expr.sql('spark')}` gives another answer each time: a view must follow from its input alone"
            raise self._fail("B3006", message, expr, "use `now()` for the time, `_uid` for a number of its own per row")
        if name in _ANONYMOUS_LAMBDAS:
            return _ANONYMOUS_LAMBDAS[name](self, expr)
        if name == "bround":
            return self._rounded(self.typed(expr.expressions[0]), expr.expressions[1] if len(expr.expressions) > 1 else None)
        arguments = [self.typed(a) for a in children(expr)]
        rule = AGGREGATES.get(name) or WINDOW_FUNCTIONS.get(name) or RULES.get(name)
        if rule is None:
            raise self._unknown(expr)
        found = rule([a.type for a in arguments])
        if found is None:
            types = ", ".join(t.type_text(a.type) for a in arguments)
            raise self._fail("B3002", f"`{_shown(expr)}` does not take ({types})", expr, "CAST the arguments")
        if name in AGGREGATES:
            return Typed(found, name not in COUNTING and name not in EMPTY_ARRAY)
        if name in WINDOW_FUNCTIONS:
            return Typed(found, name == "NthValue")
        return Typed(found, name not in NEVER_NULL or any(a.nullable for a in arguments))

    def _unknown(self, expr: exp.Expr) -> BelvedereError:
        shown = _shown(expr)
        known = [n.lower() for n in (*RULES, *AGGREGATES, *WINDOW_FUNCTIONS)]
        near = did_you_mean(shown, known, shown=0)
        hint = (
            near
            if near is not None and near.startswith("did")
            else f"if Spark knows it, say its type: CAST({shown}(...) AS STRING)"
        )
        return self._fail("B3005", f"function `{shown}` is not known", expr, hint)

    def _count(self, expr: Any) -> Typed:
        inner = expr.this
        parts = inner.expressions if isinstance(inner, exp.Distinct) else [inner, *expr.expressions]
        for part in parts:
            if part is not None and not isinstance(part, exp.Star):
                self.typed(part)
        return Typed(t.INT64, False)

    def _filtered(self, expr: Any) -> Typed:
        self.typed(expr.expression.this if isinstance(expr.expression, exp.Where) else expr.expression)
        return self.typed(expr.this)

    def _fail(self, code: str, message: str, expr: Any, hint: str | None = None) -> BelvedereError:
        place = span_of(expr, self.file) if isinstance(expr, exp.Expr) else None
        return fail(code, message, span=place, hint=hint)

    _rules: ClassVar[dict[Any, Callable[[Inference, Any], Typed]]] = {}


def _whole_days(expr: exp.Expr) -> bool:
    """A date and an interval of days: a date again."""
    intervals = [e.unnest() for e in (expr.this, expr.expression)]
    units = [
        i.args["unit"].name.upper()
        for i in intervals
        if isinstance(i, exp.Interval) and isinstance(i.args.get("unit"), exp.Var)
    ]
    return bool(units) and all(u in ("DAY", "WEEK", "DAYS", "WEEKS") for u in units)


def _time_arithmetic(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if operator == "-" and t.is_time(left) and t.is_time(right):
        return t.DAY_INTERVAL
    if operator == "+" and (t.is_interval(left) or t.is_integer(left)) and t.is_time(right):
        left, right = right, left
    if operator in "+-" and t.is_time(left):
        if left == t.DATE and (t.is_integer(right) or right == t.MONTH_INTERVAL):
            return t.DATE
        if t.is_interval(right):
            return TIMESTAMP if left == t.DATE else left
        return None
    if operator in "+-" and left == right and t.is_interval(left):
        return left
    if operator == "*" and t.is_interval(right) and t.is_number(left):
        return right
    return left if operator in "*/" and t.is_interval(left) and t.is_number(right) else None


def _array_lambda(self: Inference, expr: Any, result: str) -> Typed:
    owner = self.typed(expr.expressions[0])
    if pa.types.is_map(owner.type):
        arguments = [Typed(owner.type.key_type, False), Typed(owner.type.item_type)]
    else:
        arguments = self._lambda_arguments(owner.type, None, expr)
    inner = self._lambda(expr.expressions[1], arguments)
    types = {
        "boolean": lambda: t.BOOLEAN,
        "same": lambda: owner.type,
        "keys": lambda: pa.map_(inner.type, owner.type.item_type),
        "values": lambda: pa.map_(owner.type.key_type, inner.type),
    }
    return Typed(types[result](), True)


def _from_json(self: Inference, expr: Any) -> Typed:
    """`from_json(text, 'a INT, b STRING')`: the type is in the text of the schema."""
    arguments = children(expr)
    schema = arguments[1] if len(arguments) > 1 else None
    self.typed(arguments[0])
    if isinstance(schema, exp.Literal) and schema.is_string:
        for text in (schema.name, f"STRUCT<{schema.name}>"):
            try:
                found = t.arrow_type(exp.DataType.build(text, dialect="spark"))
            except (ParseError, ValueError):
                continue
            if found is not None:
                return Typed(found, True)
    raise self._fail("B3003", "from_json needs a schema that can be read here", expr, "write from_json(x, 'a INT, b STRING')")


def _date_part(self: Inference, expr: Any) -> Typed:
    field, value = expr.expressions[0], self.typed(expr.expressions[1])
    seconds = field.name.upper() in ("SECOND", "SECONDS", "S", "SEC", "SECS")
    return Typed(pa.decimal128(8, 6) if seconds else t.INT32, value.nullable)


def _zip_with(self: Inference, expr: Any) -> Typed:
    left, right = self.typed(expr.expressions[0]), self.typed(expr.expressions[1])
    elements = [self._lambda_arguments(x.type, None, expr)[0] for x in (left, right)]
    return Typed(pa.list_(self._lambda(expr.expressions[2], elements).type), True)


_ANONYMOUS_LAMBDAS: dict[str, Callable[[Inference, Any], Typed]] = {
    "forall": lambda self, e: _array_lambda(self, e, "boolean"),
    "exists": lambda self, e: _array_lambda(self, e, "boolean"),
    "map_filter": lambda self, e: _array_lambda(self, e, "same"),
    "transform_keys": lambda self, e: _array_lambda(self, e, "keys"),
    "transform_values": lambda self, e: _array_lambda(self, e, "values"),
    "zip_with": _zip_with,
    "FromJson": _from_json,
    "from_json": _from_json,
    "date_part": _date_part,
    "datepart": _date_part,
}


def children(expr: exp.Expr) -> list[exp.Expr]:
    """The argument expressions of a node, in the order of its class's arguments; names and options left out."""
    found: list[exp.Expr] = []
    for name in expr.arg_types:
        value = expr.args.get(name)
        if name in ("unit", "format", "kind", "zone") and not (name == "zone" and isinstance(value, exp.Column)):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr) and not isinstance(part, (exp.Var, exp.Star, exp.DataType, exp.JSONPath)):
                found.append(part)
    return found


def parameter_name(expr: exp.Expr) -> str:
    """The name of a template's parameter: as written, or `p1`, `p2`, ... for the question marks."""
    written = expr.args.get("this")
    return expr.name if written else f"p{int(expr.meta.get('index', 0)) + 1}"


def _order_parts(order: exp.Expr | None) -> list[exp.Expr]:
    return [o.this if isinstance(o, exp.Ordered) else o for o in order.expressions] if order is not None else []


def _integer_value(expr: exp.Expr) -> int:
    inner = expr.unnest()
    if isinstance(inner, exp.Neg):
        return -_integer_value(inner.this)
    return int(inner.this) if isinstance(inner, exp.Literal) and str(inner.this).isdigit() else 0


def _shown(expr: exp.Expr) -> str:
    if isinstance(expr, exp.Anonymous):
        return expr.name
    text: str = expr.sql("spark")
    return text.partition("(")[0].lower()


RULES_BY_CLASS: dict[Any, Callable[[Inference, Any], Typed]] = {
    SubqueryValue: lambda self, e: e.meta["typed"],
    exp.Column: Inference._column,
    exp.Identifier: Inference._variable,
    exp.Literal: Inference._literal,
    exp.Null: lambda self, e: Typed(t.NULL, True),
    exp.Boolean: lambda self, e: Typed(t.BOOLEAN, False),
    exp.HexString: lambda self, e: Typed(t.BINARY, False),
    exp.RawString: lambda self, e: Typed(t.STRING, False),
    exp.Placeholder: Inference._parameter,
    exp.Parameter: Inference._parameter,
    exp.Interval: Inference._interval,
    exp.Dot: Inference._dot,
    exp.Paren: Inference._inner,
    exp.And: Inference._logical,
    exp.Or: Inference._logical,
    exp.Not: Inference._logical,
    exp.Is: Inference._never_null,
    exp.NullSafeEQ: Inference._never_null,
    exp.NullSafeNEQ: Inference._never_null,
    exp.Between: Inference._between,
    exp.In: Inference._in,
    exp.Add: Inference._arithmetic,
    exp.Sub: Inference._arithmetic,
    exp.Mul: Inference._arithmetic,
    exp.Div: Inference._arithmetic,
    exp.Mod: Inference._arithmetic,
    exp.IntDiv: Inference._integer_division,
    exp.BitwiseAnd: Inference._bitwise,
    exp.BitwiseOr: Inference._bitwise,
    exp.BitwiseXor: Inference._bitwise,
    exp.Neg: Inference._negative,
    exp.BitwiseNot: Inference._inner,
    exp.BitwiseLeftShift: Inference._shift,
    exp.BitwiseRightShift: Inference._shift,
    exp.TimeStrToTime: lambda self, e: Typed(TIMESTAMP, True),
    exp.TsOrDsToTimestamp: lambda self, e: Typed(TIMESTAMP, True),
    exp.TsOrDsToDate: lambda self, e: Typed(t.DATE, self.typed(e.this).nullable or self.type(e.this) == t.STRING),
    exp.DPipe: Inference._pipe,
    exp.Cast: Inference._cast,
    exp.Case: Inference._case,
    exp.If: Inference._if,
    exp.Coalesce: Inference._coalesce,
    exp.Bracket: Inference._bracket,
    exp.Struct: Inference._struct,
    exp.Map: Inference._map,
    exp.VarMap: Inference._map,
    exp.Array: Inference._array,
    exp.Round: Inference._round,
    exp.Ceil: Inference._ceiling,
    exp.Floor: Inference._ceiling,
    exp.Extract: Inference._extract,
    exp.Transform: Inference._lambda_function,
    exp.Exists: Inference._lambda_function,
    exp.ArrayFilter: Inference._lambda_function,
    exp.Reduce: Inference._reduce,
    exp.Window: Inference._window,
    exp.Distinct: Inference._distinct,
    exp.Count: Inference._count,
    exp.Filter: Inference._filtered,
    exp.IgnoreNulls: Inference._inner,
    exp.RespectNulls: Inference._inner,
    exp.Ordered: Inference._inner,
    **dict.fromkeys(COMPARISONS, Inference._comparison),
    **dict.fromkeys(PREDICATES, Inference._boolean),
    exp.Alias: Inference._inner,
}
Inference._rules.update(RULES_BY_CLASS)
