"""The plain evaluator of SQL++ queries and blocks, on Python values.

In: a `Query` or `QueryBlock`. Out: a function from an environment to its results. Tables are constants of the
environment (lists of objects); windows are found by `scan`. Importing this module lets expressions hold queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from belvedere.sqlpp.query_tree import (
    FromTerm,
    Let,
    OrderKey,
    Query,
    QueryBlock,
    QueryExpression,
    Select,
    SourceKind,
    WindowBy,
)
from tests.window_by.interpreter import values as v
from tests.window_by.interpreter.interpret import COMPILERS, GROUP, Environment, Evaluate, compile_expression
from tests.window_by.interpreter.scan import ScanBounds, find_windows, window_variables
from tests.window_by.interpreter.values import MISSING


def compile_query(query: Query) -> Evaluate:
    """The query as a function of the environment that gives the list of its results."""
    bindings = [(let.name.text, compile_expression(let.value)) for let in query.bindings]
    blocks = [compile_block(b) for b in query.blocks]
    order = compile_order(query.order) if query.order else None
    limit = compile_expression(query.limit) if query.limit is not None else None
    offset = compile_expression(query.offset) if query.offset is not None else None
    names = [i.name for b in query.blocks for i in b.select.items if i.name is not None]
    vanished = dict.fromkeys(names, MISSING)  # a MISSING field is not in its object

    def run(env: Environment) -> list[Any]:
        scope = dict(env)
        for name, value in bindings:
            scope[name] = value(scope)
        rows = [row for block in blocks for row in block(scope)]
        if order is not None:
            rows.sort(
                key=lambda row: order({**scope, **row[0], **vanished, **(row[1] if isinstance(row[1], dict) else {})})
            )
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


def compile_sources(sources: Iterable[FromTerm]) -> Callable[[Environment], Iterator[dict[str, Any]]]:
    """FROM: environment -> the binding tuples, each an environment of the block's own variables."""
    compiled = [
        (s, compile_expression(s.expr), compile_expression(s.condition) if s.condition is not None else None)
        for s in sources
    ]

    def bind(env: Environment) -> Iterator[dict[str, Any]]:
        tuples: Iterable[dict[str, Any]] = [{}]
        for source, expr, condition in compiled:
            tuples = _joined(tuples, env, source, expr, condition)
        return iter(tuples)

    return bind


def _joined(
    tuples: Iterable[dict[str, Any]], env: Environment, source: FromTerm, expr: Evaluate, condition: Evaluate | None
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


def compile_block(block: QueryBlock) -> Callable[[Environment], Iterable[tuple[dict[str, Any], Any]]]:
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
            parts = window.partitions(items, env)
            sorted_parts = [[part[i] for i in window.order_of(part, env, [])] for part in parts]
            results = [(row, result) for part in sorted_parts for _, row, result in window.evaluate(part, env)]
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


def _compile_group(
    block: QueryBlock,
) -> Callable[[Environment, Iterable[dict[str, Any]]], Iterable[dict[str, Any]]] | None:
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

    def __init__(self, block: QueryBlock):
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

    def order_of(self, items: list[Any], env: Environment, ties: list[tuple[Any, ...]]) -> list[int]:
        """Rule 3: the items' places by ORDER BY; ties by the whole item, then by `ties`, so that no order of arrival
        shows."""
        keys = [(self.order({**env, **self.tuple_of(i)}), v.order_key(i)) for i in items]
        return sorted(range(len(items)), key=lambda n: (keys[n], ties[n] if ties else n))

    def evaluate(self, items: list[Any], env: Environment) -> Iterator[tuple[ScanBounds, dict[str, Any], Any]]:
        """Rules 4 to 10 for one sorted partition: windows with their variables and results, without those that HAVING
        drops."""
        for bounds in find_windows(items, self.window, self.conditions, env):
            row = self.lets(env, window_variables(items, self.window, bounds))
            scope = {**env, **row}
            if self.having is None or self.having(scope) is True:
                yield bounds, row, self.select(scope, list(row))


def _binding_names(block: QueryBlock) -> tuple[str, ...]:
    if block.group is None:
        return names_before(block)
    names = (*(k.name for k in block.group.keys), block.group.group, *(let.name for let in block.group_lets))
    return tuple(n.text for n in names if n is not None)


COMPILERS[QueryExpression] = lambda node: compile_query(node.args["query"])


def names_before(block: QueryBlock) -> tuple[str, ...]:
    """The variables that an item of the block's WINDOW BY is made of."""
    terms = [n.text for s in block.sources for n in (s.variable, s.position) if n is not None]
    return (*terms, *(let.name.text for let in block.lets))
