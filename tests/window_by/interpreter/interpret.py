"""The plain evaluator of SQL++ expressions and queries, on Python values.

In: a syntax tree. Out: a function from an environment (variable -> value) to a value. Follows the language's rules word
by word and is meant to be right, not fast: `native` and the kernels do what they can, this does the rest. Tables are
constants of the environment (lists of objects). Windows are found by `scan`, or by bounds that a kernel has found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import partial, reduce
from typing import Any

from sqlglot import exp

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.functions.calendar import UNITS
from belvedere.functions.function_table import canonical
from belvedere.sqlpp.query_tree import MEMBER, Expr, Missing, QueryExpression, RunningAggregate
from belvedere.sqlpp.windows.boundary_classes import ARITHMETIC, OPERATORS
from tests.window_by.interpreter import paths
from tests.window_by.interpreter import values as v
from tests.window_by.interpreter.casts import cast
from tests.window_by.interpreter.functions import call, like
from tests.window_by.interpreter.scan import SO_FAR
from tests.window_by.interpreter.values import MISSING

Environment = Mapping[str, Any]
Evaluate = Callable[[Environment], Any]
GROUP = "$group"  # the environments of the group, for SUM(x) and the like


def compile_expression(node: Expr) -> Evaluate:
    """The expression as a function of the environment."""
    kind = type(node)
    if kind in ARITHMETIC:
        return _binary(node, partial(v.arithmetic, ARITHMETIC[kind]))
    if kind in OPERATORS:
        return _binary(node, partial(v.compare, OPERATORS[kind]))
    return COMPILERS[kind](node)


def _binary(node: Expr, combine: Callable[[Any, Any], Any]) -> Evaluate:
    left, right = compile_expression(node.this), compile_expression(node.expression)
    return lambda env: combine(left(env), right(env))


def _constant(value: Any) -> Evaluate:
    return lambda env: value


def _column(node: Expr) -> Evaluate:
    name = node.name
    folded = name.casefold()

    def variable(env: Environment) -> Any:
        if name in env:
            return env[name]
        return next((value for key, value in env.items() if key.casefold() == folded), MISSING)

    return variable


def _dot(node: Expr) -> Evaluate:
    base, name = node.this, node.expression.name
    if isinstance(base, exp.Bracket) and isinstance(base.expressions[0], exp.Star):
        array = compile_expression(base.this)
        return lambda env: paths.star_member(array(env), name)
    inner = compile_expression(base)
    return lambda env: paths.member(inner(env), name)


def _bracket(node: Expr) -> Evaluate:
    base, index = compile_expression(node.this), node.expressions[0]
    if isinstance(index, exp.Star):
        return lambda env: paths.star(base(env))
    if isinstance(index, exp.Slice):
        start = compile_expression(index.this) if index.this is not None else _constant(0)
        if index.expression is None:
            return lambda env: _tail(base(env), start(env))
        end = compile_expression(index.expression)
        return lambda env: paths.part(base(env), start(env), end(env))
    place = compile_expression(index)

    def look_up(env: Environment) -> Any:
        key, array = place(env), base(env)
        return paths.member(array, key) if isinstance(key, str) else paths.at(array, key)

    return look_up


def _tail(array: Any, start: Any) -> Any:
    return paths.part(array, start, len(array) if isinstance(array, list) else 0)


def _literal(node: Expr) -> Evaluate:
    text = node.name
    return _constant(text if node.is_string else int(text) if text.isdigit() else float(text))


def _interval(node: Expr) -> Evaluate:
    unit = UNITS[str(node.args["unit"]).upper().rstrip("S")]
    amount = compile_expression(node.this)

    def duration(env: Environment) -> Any:
        count = amount(env)
        return count if v.unknown(count) is not False else timedelta(microseconds=float(count) * unit)

    return duration


def _neg(node: Expr) -> Evaluate:
    inner = compile_expression(node.this)

    def negative(env: Environment) -> Any:
        value = inner(env)
        if v.unknown(value) is not False or v.rank(value) not in (3, 6):
            return value if v.unknown(value) is not False else None
        return value.copy_negate() if isinstance(value, Decimal) else -value

    return negative


def _not(node: Expr) -> Evaluate:
    inner = compile_expression(node.this)
    return lambda env: v.negation(inner(env))


def _is(node: Expr) -> Evaluate:
    inner, kind = compile_expression(node.this), node.expression
    if isinstance(kind, exp.Null):
        return lambda env: MISSING if (x := inner(env)) is MISSING else x is None
    if isinstance(kind, exp.Boolean):
        requested = bool(kind.this)
        return lambda env: inner(env) is requested
    word = kind.name.upper()
    if word == "MISSING":
        return lambda env: inner(env) is MISSING
    if word == "UNKNOWN":
        return lambda env: v.unknown(inner(env)) is not False
    return lambda env: v.unknown(inner(env)) is False


def _between(node: Expr) -> Evaluate:
    value, low, high = (compile_expression(node.args[k]) for k in ("this", "low", "high"))

    def between(env: Environment) -> Any:
        x = value(env)
        return v.both(v.compare(">=", x, low(env)), v.compare("<=", x, high(env)))

    return between


def _like(node: Expr) -> Evaluate:
    found = _binary(node, like)
    return (lambda env: v.negation(found(env))) if node.args.get("negate") else found


def _in(node: Expr) -> Evaluate:
    value = compile_expression(node.this)
    members = node.expressions
    if node.args.get("field") is not None:
        array = compile_expression(node.args["field"])
    elif len(members) == 1 and isinstance(members[0], QueryExpression):
        array = compile_expression(members[0])
    else:
        each = [compile_expression(m) for m in members]
        return lambda env: _among(value(env), [m(env) for m in each])
    return lambda env: _among(value(env), array(env))


def _among(value: Any, array: Any) -> Any:
    if v.unknown(value, array) is not False:
        return v.unknown(value, array)
    if not isinstance(array, list):
        return None
    result: Any = False
    for candidate in array:
        result = v.either(result, v.compare("=", value, candidate))
        if result is True:
            return True
    return result


def _case(node: Expr) -> Evaluate:
    subject = compile_expression(node.this) if node.this is not None else None
    branches = [(compile_expression(b.this), compile_expression(b.args["true"])) for b in node.args["ifs"]]
    default = compile_expression(node.args["default"]) if node.args.get("default") is not None else _constant(None)

    def case(env: Environment) -> Any:
        for test, result in branches:
            met = test(env) if subject is None else v.compare("=", subject(env), test(env))
            if met is True:
                return result(env)
        return default(env)

    return case


def _cast(node: Expr) -> Evaluate:
    inner, target = compile_expression(node.this), node.args["to"]
    name = target.this.name
    sizes = [int(e.name) for e in target.expressions if e.name.isdigit()]
    return lambda env: cast(inner(env), name, *sizes)


def _struct(node: Expr) -> Evaluate:
    members = [(m.this.name, compile_expression(m.expression)) for m in node.expressions]

    def make(env: Environment) -> dict[str, Any]:
        found = {name: member(env) for name, member in members}
        return {k: x for k, x in found.items() if x is not MISSING}

    return make


def _array(node: Expr) -> Evaluate:
    members = [compile_expression(m) for m in node.expressions]
    return lambda env: [m(env) for m in members]


def _exists(node: Expr) -> Evaluate:
    array = compile_expression(node.this)
    return lambda env: bool(found) if isinstance(found := array(env), list) else False


def _anonymous(node: Expr) -> Evaluate:
    name = canonical(node.name)
    if name in GROUP_AGGREGATES:
        return _group_aggregate(name, node.expressions[0])
    arguments = [compile_expression(a) for a in node.expressions]
    return lambda env: call(name, [a(env) for a in arguments])


def _group_aggregate(name: str, argument: Expr) -> Evaluate:
    each = _constant(1) if isinstance(argument, exp.Star) else compile_expression(argument)
    function = canonical(f"ARRAY_{name}")
    return lambda env: call(function, [[each(inner) for inner in env[GROUP]]])


def _running(node: RunningAggregate) -> Evaluate:
    each = _constant(1) if node.value is None else compile_expression(node.value)

    def aggregate(env: Environment) -> Any:
        members = (each({**env, MEMBER: item}) for item in env[SO_FAR])
        known = [m for m in members if v.unknown(m) is False]
        if node.function == "COUNT" or not known:
            return len(known) if node.function == "COUNT" else None
        if node.function in ("MIN", "MAX"):
            return (min if node.function == "MIN" else max)(known, key=v.order_key)
        total = reduce(partial(v.arithmetic, "+"), known)
        return total if node.function == "SUM" else v.arithmetic("/", total, len(known))

    return aggregate


def _dpipe(node: Expr) -> Evaluate:
    return _binary(node, lambda a, b: call("CONCAT", [a, b]))


COMPILERS: dict[type[Any], Callable[[Any], Evaluate]] = {
    exp.Column: _column, exp.Dot: _dot, exp.Bracket: _bracket, exp.Literal: _literal, exp.Interval: _interval,
    exp.Boolean: lambda n: _constant(bool(n.this)), exp.Null: lambda n: _constant(None),
    Missing: lambda n: _constant(MISSING),
    exp.And: lambda n: _binary(n, v.both), exp.Or: lambda n: _binary(n, v.either), exp.Not: _not, exp.Neg: _neg,
    exp.Is: _is, exp.Between: _between, exp.Like: _like, exp.In: _in, exp.Case: _case, exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Struct: _struct, exp.Array: _array, exp.Exists: _exists, exp.Anonymous: _anonymous,
    exp.DPipe: _dpipe, RunningAggregate: _running,
}  # fmt: skip
