"""The plain evaluator of SQL++ expressions and queries, on Python values.

In: a syntax tree. Out: a function from an environment (variable -> value) to a value. Follows the language's rules word
by word and is meant to be right, not fast: `native` and the kernels do what they can, this does the rest. Tables are
constants of the environment (lists of objects). Windows are found by `scan`, or by bounds that a kernel has found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from sqlglot import exp

from belvedere.lang.window_by import (
    Block,
    Expr,
    Let,
    Missing,
    OrderKey,
    Query,
    QueryExpression,
    Select,
    Source,
    SourceKind,
    WindowBy,
)
from belvedere.lang.window_by_functions import AGGREGATES, canonical
from belvedere.spark.window_by import values as v
from belvedere.spark.window_by.functions import call, cast, like
from belvedere.spark.window_by.scan import find_windows, window_variables
from belvedere.spark.window_by.values import MISSING

Environment = Mapping[str, Any]
Evaluate = Callable[[Environment], Any]
GROUP = "$group"  # the environments of the group, for SUM(x) and the like
ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%"}
COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
UNITS = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1, "MILLISECOND": 1e-3, "MICROSECOND": 1e-6}


def compile_expression(node: Expr) -> Evaluate:
    """The expression as a function of the environment."""
    kind = type(node)
    if kind in ARITHMETIC:
        return _binary(node, partial(v.arithmetic, ARITHMETIC[kind]))
    if kind in COMPARISONS:
        return _binary(node, partial(v.compare, COMPARISONS[kind]))
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
        return next(value for key, value in env.items() if key.casefold() == folded)

    return variable


def _dot(node: Expr) -> Evaluate:
    base, name = node.this, node.expression.name
    if isinstance(base, exp.Bracket) and isinstance(base.expressions[0], exp.Star):
        array = compile_expression(base.this)
        return lambda env: v.star_member(array(env), name)
    inner = compile_expression(base)
    return lambda env: v.member(inner(env), name)


def _bracket(node: Expr) -> Evaluate:
    base, index = compile_expression(node.this), node.expressions[0]
    if isinstance(index, exp.Star):
        return lambda env: v.star(base(env))
    if isinstance(index, exp.Slice):
        start = compile_expression(index.this) if index.this is not None else _constant(0)
        if index.expression is None:
            return lambda env: _tail(base(env), start(env))
        end = compile_expression(index.expression)
        return lambda env: v.part(base(env), start(env), end(env))
    place = compile_expression(index)

    def look_up(env: Environment) -> Any:
        key, array = place(env), base(env)
        return v.member(array, key) if isinstance(key, str) else v.at(array, key)

    return look_up


def _tail(array: Any, start: Any) -> Any:
    return v.part(array, start, len(array) if isinstance(array, list) else 0)


def _literal(node: Expr) -> Evaluate:
    text = node.name
    return _constant(text if node.is_string else int(text) if text.isdigit() else float(text))


def _interval(node: Expr) -> Evaluate:
    unit = UNITS[str(node.args["unit"]).upper().rstrip("S")]
    amount = compile_expression(node.this)

    def duration(env: Environment) -> Any:
        count = amount(env)
        return count if v.unknown(count) is not False else timedelta(seconds=float(count) * unit)

    return duration


def _neg(node: Expr) -> Evaluate:
    inner = compile_expression(node.this)

    def negative(env: Environment) -> Any:
        value = inner(env)
        return value if v.unknown(value) is not False else -value if v.rank(value) in (3, 6) else None

    return negative


def _not(node: Expr) -> Evaluate:
    inner = compile_expression(node.this)
    return lambda env: v.negation(inner(env))


def _is(node: Expr) -> Evaluate:
    inner, kind = compile_expression(node.this), node.expression
    if isinstance(kind, exp.Null):
        return lambda env: MISSING if (x := inner(env)) is MISSING else x is None
    if isinstance(kind, exp.Boolean):
        wanted = bool(kind.this)
        return lambda env: inner(env) is wanted
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
    scale = int(target.expressions[1].name) if len(target.expressions) > 1 else 0
    return lambda env: cast(inner(env), name, scale)


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


def _query(node: Expr) -> Evaluate:
    return compile_query(node.args["query"])


def _anonymous(node: Expr) -> Evaluate:
    name = canonical(node.name)
    if name in AGGREGATES:
        return _group_aggregate(name, node.expressions[0])
    arguments = [compile_expression(a) for a in node.expressions]
    return lambda env: call(name, [a(env) for a in arguments])


def _group_aggregate(name: str, argument: Expr) -> Evaluate:
    each = _constant(1) if isinstance(argument, exp.Star) else compile_expression(argument)
    function = canonical(f"ARRAY_{name}")
    return lambda env: call(function, [[each(inner) for inner in env[GROUP]]])


def _dpipe(node: Expr) -> Evaluate:
    return _binary(node, lambda a, b: call("CONCAT", [a, b]))


COMPILERS: dict[type[Any], Callable[[Any], Evaluate]] = {
    exp.Column: _column, exp.Dot: _dot, exp.Bracket: _bracket, exp.Literal: _literal, exp.Interval: _interval,
    exp.Boolean: lambda n: _constant(bool(n.this)), exp.Null: lambda n: _constant(None), Missing: lambda n: _constant(MISSING),
    exp.And: lambda n: _binary(n, v.both), exp.Or: lambda n: _binary(n, v.either), exp.Not: _not, exp.Neg: _neg,
    exp.Is: _is, exp.Between: _between, exp.Like: _like, exp.In: _in, exp.Case: _case, exp.Cast: _cast, exp.TryCast: _cast,
    exp.Struct: _struct, exp.Array: _array, exp.Exists: _exists, QueryExpression: _query, exp.Anonymous: _anonymous,
    exp.DPipe: _dpipe,
}  # fmt: skip


# -- queries --


def compile_query(query: Query) -> Evaluate:
    """The query as a function of the environment that gives the list of its results."""
    bindings = [(let.name.text, compile_expression(let.value)) for let in query.bindings]
    blocks = [compile_block(b) for b in query.blocks]
    order = compile_order(query.order) if query.order else None
    limit = compile_expression(query.limit) if query.limit is not None else None
    offset = compile_expression(query.offset) if query.offset is not None else None

    def run(env: Environment) -> list[Any]:
        scope = dict(env)
        for name, value in bindings:
            scope[name] = value(scope)
        rows = [row for block in blocks for row in block(scope)]
        if order is not None:
            rows.sort(key=lambda row: order({**row[0], **(row[1] if isinstance(row[1], dict) else {})}))
        first = offset(env) if offset is not None else 0
        last = first + limit(env) if limit is not None else None
        return [result for _, result in rows[first:last]]

    return run


class Descending:
    """Turns a key's order around."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]):
        self.key = key

    def __lt__(self, other: Descending) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.key == other.key


def compile_order(keys: Iterable[OrderKey]) -> Evaluate:
    """ORDER BY as a function from the environment to a sortable key."""
    compiled = [(compile_expression(k.expr), k.descending, k.nulls_come_first) for k in keys]

    def key(env: Environment) -> tuple[Any, ...]:
        parts: list[Any] = []
        for value, descending, nulls_first in compiled:
            found = value(env)
            inner = v.order_key(found)
            blank = found is None or found is MISSING
            parts += [blank != nulls_first, Descending(inner) if descending else inner]
        return tuple(parts)

    return key


def compile_sources(sources: Iterable[Source]) -> Callable[[Environment], Iterator[dict[str, Any]]]:
    """FROM: environment -> the binding tuples, each an environment of the block's own variables."""
    compiled = [
        (s, compile_expression(s.expr), compile_expression(s.condition) if s.condition is not None else None) for s in sources
    ]

    def bind(env: Environment) -> Iterator[dict[str, Any]]:
        tuples: Iterable[dict[str, Any]] = [{}]
        for source, expr, condition in compiled:
            tuples = _joined(tuples, env, source, expr, condition)
        return iter(tuples)

    return bind


def _joined(
    tuples: Iterable[dict[str, Any]], env: Environment, source: Source, expr: Evaluate, condition: Evaluate | None
) -> Iterator[dict[str, Any]]:
    optional = source.kind in (SourceKind.LEFT, SourceKind.LEFT_UNNEST)
    for left in tuples:
        matched = False
        for place, value in enumerate(_collection(expr({**env, **left})), 1):
            row = {**left, source.variable.text: value}
            if source.position is not None:
                row[source.position.text] = place
            if condition is None or condition({**env, **row}) is True:
                matched = True
                yield row
        if optional and not matched:
            row = {**left, source.variable.text: MISSING}
            if source.position is not None:
                row[source.position.text] = MISSING
            yield row


def _collection(value: Any) -> list[Any]:
    if value is MISSING or value is None:
        return []
    return value if isinstance(value, list) else [value]


def compile_lets(lets: Iterable[Let]) -> Callable[[Environment, dict[str, Any]], dict[str, Any]]:
    """LET: adds its variables to a binding tuple."""
    compiled = [(let.name.text, compile_expression(let.value)) for let in lets]

    def extend(env: Environment, row: dict[str, Any]) -> dict[str, Any]:
        for name, value in compiled:
            row[name] = value({**env, **row})
        return row

    return extend


def compile_block(block: Block) -> Callable[[Environment], Iterable[tuple[dict[str, Any], Any]]]:
    """A block: environment -> pairs of the last variables (for ORDER BY) and the result."""
    sources, lets = compile_sources(block.sources), compile_lets(block.lets)
    where = compile_expression(block.where) if block.where is not None else None
    group = _compile_group(block)
    window = WindowStage(block) if block.window is not None else None
    select = compile_select(block.select)

    def run(env: Environment) -> Iterable[tuple[dict[str, Any], Any]]:
        rows: Iterable[dict[str, Any]] = (lets(env, row) for row in sources(env))
        if where is not None:
            rows = (row for row in rows if where({**env, **row}) is True)
        if group is not None:
            rows = group(env, rows)
        if window is not None:
            items = [item_of(row) for row in rows]
            results = [pair for part in window.partitions(items, env) for pair in window.evaluate(part, env)]
        else:
            results = [(row, select({**env, **row}, [k for k in row if k != GROUP])) for row in rows]
        return _distinct(results) if block.select.distinct else results

    return run


def _distinct(results: list[tuple[dict[str, Any], Any]]) -> list[tuple[dict[str, Any], Any]]:
    seen: dict[Any, tuple[dict[str, Any], Any]] = {}
    for pair in results:
        seen.setdefault(v.order_key(pair[1]), pair)
    return list(seen.values())


def item_of(row: Mapping[str, Any]) -> Any:
    """A binding tuple as an item: the value of its one variable, or an object of all (as GROUP AS makes it)."""
    own = {k: x for k, x in row.items() if k != GROUP}
    return next(iter(own.values())) if len(own) == 1 else {k: x for k, x in own.items() if x is not MISSING}


def _compile_group(block: Block) -> Callable[[Environment, Iterable[dict[str, Any]]], Iterable[dict[str, Any]]] | None:
    if block.group is None:
        return None
    keys = [(k.name.text, compile_expression(k.value)) for k in block.group.keys]
    name = block.group.group.text if block.group.group is not None else None
    lets = compile_lets(block.group_lets)
    having = compile_expression(block.having) if block.having is not None else None

    def run(env: Environment, rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        groups: dict[Any, tuple[list[Any], list[dict[str, Any]]]] = {}
        for row in rows:
            found = [value({**env, **row}) for _, value in keys]
            groups.setdefault(v.order_key(found), (found, []))[1].append(row)
        for found, members in groups.values():
            result = {key: value for (key, _), value in zip(keys, found, strict=True)}
            if name is not None:
                result[name] = [{k: x for k, x in m.items() if x is not MISSING} for m in members]
            result[GROUP] = [{**env, **m} for m in members]
            result = lets(env, result)
            if having is None or having({**env, **result}) is True:
                yield result

    return run


def compile_select(select: Select) -> Callable[[Environment, Iterable[str]], Any]:
    """SELECT: environment and the names of the block's own variables -> the result."""
    if select.value is not None:
        value = compile_expression(select.value)
        return lambda env, own: value(env)
    members = [
        (s.name or f"${n}", s.star, compile_expression(s.expr) if s.expr is not None else None)
        for n, s in enumerate(select.items, 1)
    ]

    def make(env: Environment, own: Iterable[str]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, star, value in members:
            if not star and value is not None:
                result[name] = value(env)
            elif value is None:
                result.update({k: env[k] for k in own})
            elif isinstance(found := value(env), dict):
                result.update(found)
        return {k: x for k, x in result.items() if x is not MISSING}

    return make


class WindowStage:
    """A block's WINDOW BY and what follows it, over items."""

    def __init__(self, block: Block):
        assert block.window is not None
        self.window: WindowBy = block.window
        names = _binding_names(block)
        self.names = names
        self.keys = [compile_expression(p) for p in self.window.partition]
        self.order = compile_order(self.window.order)
        self.conditions = {role: compile_expression(b.when) for role, b in self.window.boundaries if b.when is not None}
        self.lets = compile_lets(block.window_lets)
        self.having = compile_expression(block.window_having) if block.window_having is not None else None
        self.select = compile_select(block.select)

    def tuple_of(self, item: Any) -> dict[str, Any]:
        """The variables that an item was made of."""
        if len(self.names) == 1:
            return {self.names[0]: item}
        return {n: item.get(n, MISSING) for n in self.names}

    def partitions(self, items: list[Any], env: Environment) -> list[list[Any]]:
        """Rule 2: the items by PARTITION BY, in the order of the keys."""
        parts: dict[Any, list[Any]] = {}
        for item in items:
            scope = {**env, **self.tuple_of(item)}
            parts.setdefault(tuple(v.order_key(k(scope)) for k in self.keys), []).append(item)
        return [parts[k] for k in sorted(parts)]

    def sort(self, items: list[Any], env: Environment) -> list[Any]:
        """Rule 3: by ORDER BY; ties by the whole item, so that no order of arrival shows."""
        return sorted(items, key=lambda i: (self.order({**env, **self.tuple_of(i)}), v.order_key(i)))

    def evaluate(self, items: list[Any], env: Environment, ordered: bool = False) -> Iterator[tuple[dict[str, Any], Any]]:
        """Rules 3 to 10 for one partition: pairs of the window's variables and the result."""
        items = items if ordered else self.sort(items, env)
        for bounds in find_windows(items, self.window, self.conditions, env):
            yield from self.result(items, bounds, env)

    def result(self, items: list[Any], bounds: Any, env: Environment) -> Iterator[tuple[dict[str, Any], Any]]:
        """What comes after WINDOW BY for one window: nothing where HAVING does not hold."""
        row = self.lets(env, window_variables(items, self.window, bounds))
        scope = {**env, **row}
        if self.having is None or self.having(scope) is True:
            yield row, self.select(scope, list(row))


def _binding_names(block: Block) -> list[str]:
    if block.group is not None:
        names = [k.name.text for k in block.group.keys]
        names += [block.group.group.text] if block.group.group is not None else []
        return names + [let.name.text for let in block.group_lets]
    names = []
    for source in block.sources:
        names.append(source.variable.text)
        names += [source.position.text] if source.position is not None else []
    return names + [let.name.text for let in block.lets]
