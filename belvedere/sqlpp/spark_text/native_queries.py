"""Queries as values: the array of their results, computed by Spark's higher-order functions.

In: a query and an environment of `Value`s (tables in its FROM are arrays there). Out: an array. Binding tuples are
members of an array (`Tuples`): FROM creates and flattens them, WHERE filters them, GROUP BY groups them by distinct
keys, ORDER BY compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.sqlpp.query_tree import (
    Expr,
    FromTerm,
    Let,
    OrderKey,
    Query,
    QueryBlock,
    QueryExpression,
    Select,
    SourceKind,
)
from belvedere.sqlpp.spark_text.native_values import Environment, boolean, scalar, value_of
from belvedere.sqlpp.spark_text.sql_values import (
    MISSING_VALUE,
    SIMPLE,
    Object,
    SqlValue,
    Untranslatable,
    Value,
    aligned,
    any_of,
    each,
    field,
    fields_of,
    known_members,
    listed,
    mapped,
    merge,
    packed,
    reader,
    unsortable,
    variable,
)

GROUP = "$group"
"""Variable of an environment that holds the tuples of the group."""
MAX_ROWS = 2**31 - 1


@dataclass(frozen=True)
class Tuples:
    """Binding tuples: an array, and a function from a member's text to its variables."""

    sql: str
    scope: Callable[[str], dict[str, Value]]

    def kept(self, condition: Callable[[dict[str, Value]], str]) -> Tuples:
        return Tuples(each(self.sql, lambda x: condition(self.scope(x)), "filter"), self.scope)

    def extended(self, name: str, value: Callable[[dict[str, Value]], Value]) -> Tuples:
        """Return the tuples with one more variable."""
        x = variable()
        found = value(self.scope(x))
        text, read = packed(found)
        if isinstance(found, SqlValue) and SIMPLE.fullmatch(text):
            return Tuples(self.sql, lambda t: {**self.scope(t), name: value(self.scope(t))})
        made = f"transform({self.sql}, {x} -> named_struct('r', {x}, 'v', {text}))"
        return Tuples(made, lambda t: {**self.scope(f"{t}.`r`"), name: read(f"{t}.`v`")})


NO_TUPLE = Tuples("array(0)", lambda _: {})
"""One tuple without variables."""


@dataclass(frozen=True)
class GroupTuples(SqlValue):
    """The tuples of a group, as a variable of an environment."""

    tuples: Tuples = Tuples("", lambda _: {})


@dataclass(frozen=True)
class BlockResults:
    """A block's results: an array, and functions from a member's text to the result and to ORDER BY's scope."""

    sql: str
    result: Callable[[str], Value]
    seen: Callable[[str], dict[str, Value]]


def query_value(node: QueryExpression, env: Environment) -> SqlValue:
    """Return the array of a query's results."""
    query = node.query
    for let in query.bindings:
        env = {**env, let.name.text: value_of(let.value, env)}
    results = [_block(b, env) for b in query.blocks]
    if query.order:
        found = _ordered(query, results, env)
    elif len(results) == 1:
        found = mapped(results[0].sql, results[0].result)
    else:
        found = _union(results, [r.result for r in results])
    if query.limit is None and query.offset is None:
        return found
    first = _count(query.offset) if query.offset is not None else "0"
    last = _count(query.limit) if query.limit is not None else str(MAX_ROWS)
    return listed(f"slice({found.sql}, {first} + 1, {last})", reader(found))


def _count(bound: Expr) -> str:
    return f"CAST(least({scalar(bound, {}).sql}, {MAX_ROWS - 1}L) AS INT)"


def _union(results: Sequence[BlockResults], values: Sequence[Callable[[str], Value]]) -> SqlValue:
    """Return the UNION ALL of `values` of the results, converted to one type."""
    names = [variable() for _ in results]
    forms = [packed(v) for v in aligned([value(x) for value, x in zip(values, names, strict=True)])]
    parts = [f"transform({r.sql}, {x} -> {text})" for r, x, (text, _) in zip(results, names, forms, strict=True)]
    return listed(parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})", forms[0][1])


# -- ORDER BY --


def _ordered(query: Query, results: Sequence[BlockResults], env: Environment) -> SqlValue:
    names = {i.name: MISSING_VALUE for b in query.blocks for i in b.select.items if i.name is not None}

    def rows(block: BlockResults) -> Callable[[str], Value]:
        def row(x: str) -> Value:
            result = block.result(x)
            scope: Environment = {**env, **block.seen(x), **names, **fields_of(result)}
            keys = {f"k{n}": _sortable(scalar(k.expr, scope)) for n, k in enumerate(query.order)}
            return Object({"v": result, **keys})

        return row

    found = _union(results, [rows(b) for b in results])
    read = reader(found)
    a, b = variable(), variable()
    tests = [
        t for n, key in enumerate(query.order) for t in _tests(key, *(merge(field(read(x), f"k{n}")) for x in (a, b)))
    ]
    cases = " ".join(f"WHEN {one} < {other} THEN -1 WHEN {one} > {other} THEN 1" for one, other in tests)
    array = f"array_sort({found.sql}, ({a}, {b}) -> CASE {cases} ELSE 0 END)"
    return mapped(array, lambda x: field(read(x), "v"))


def _sortable(key: SqlValue) -> SqlValue:
    if unsortable(key.type):
        raise Untranslatable("an order of maps")
    return key


def _tests(key: OrderKey, one: SqlValue, other: SqlValue) -> list[tuple[str, str]]:
    """Return the comparisons for a key, in sequence: MISSING < NULL < values ascending; NULLS FIRST|LAST moves both."""
    blank, known = ("0", "1") if key.nulls_come_first else ("1", "0")
    pairs = [tuple(f"IF({v.sql} IS NULL, {blank}, {known})" for v in (one, other))]
    turned = [tuple(f"IF({v.missing}, 0, 1)" for v in (one, other))] if one.missing is not None else []
    turned += [(one.sql, other.sql)]
    pairs += [(b, a) if key.descending else (a, b) for a, b in turned]
    return [(a, b) for a, b in pairs]


# -- blocks --


def _block(block: QueryBlock, env: Environment) -> BlockResults:
    if block.window is not None:
        raise Untranslatable("WINDOW BY in a query within an expression")
    tuples = _lets(_sources(block.sources, env), block.lets, env)
    if block.where is not None:
        tuples = _filtered(tuples, block.where, env)
    if block.group is not None:
        tuples = _lets(_grouped(tuples, block, env), block.group_lets, env)
        if block.having is not None:
            tuples = _filtered(tuples, block.having, env)

    def result(x: str) -> Value:
        own = tuples.scope(x)
        return _selected(block.select, {**env, **own}, {n: v for n, v in own.items() if n != GROUP})

    if not block.select.distinct:
        return BlockResults(tuples.sql, result, tuples.scope)
    return _distinct(tuples, result)


def _distinct(tuples: Tuples, result: Callable[[str], Value]) -> BlockResults:
    """Return each result once, with the first tuple that gives it."""
    x = variable()
    text, read = packed(result(x))
    rows = f"transform({tuples.sql}, {x} -> named_struct('r', {x}, 'v', {text}))"
    y, place, z = variable(), variable(), variable()
    all_ = f"transform({rows}, {z} -> named_struct('v', {z}.`v`))"
    array = f"filter({rows}, ({y}, {place}) -> array_position({all_}, named_struct('v', {y}.`v`)) = {place} + 1)"
    return BlockResults(array, lambda t: read(f"{t}.`v`"), lambda t: tuples.scope(f"{t}.`r`"))


def _lets(tuples: Tuples, lets: Sequence[Let], env: Environment) -> Tuples:
    for let in lets:
        tuples = tuples.extended(
            let.name.text,
            lambda own, let=let: value_of(let.value, {**env, **own}),  # type: ignore[misc]
        )
    return tuples


def _filtered(tuples: Tuples, condition: Expr, env: Environment) -> Tuples:
    return tuples.kept(lambda own: boolean(condition, {**env, **own}).sql)


# -- FROM --


def _sources(sources: Sequence[FromTerm], env: Environment) -> Tuples:
    tuples: Tuples | None = None
    for source in sources:
        tuples = _first(source, env) if tuples is None else _joined(tuples, source, env)
    return tuples or NO_TUPLE


def _first(source: FromTerm, env: Environment) -> Tuples:
    if source.kind in (SourceKind.LEFT, SourceKind.LEFT_UNNEST) or source.condition is not None:
        return _joined(NO_TUPLE, source, env)
    return _members(source, env)


def _members(source: FromTerm, env: Environment) -> Tuples:
    """Return the tuples of one term alone."""
    array = collection(value_of(source.expr, env))
    read, variable_ = reader(array), source.variable.text
    if source.position is None:
        return Tuples(array.sql, lambda x: {variable_: read(x)})
    position = source.position.text
    x, n = variable(), variable()
    placed = f"transform({array.sql}, ({x}, {n}) -> named_struct('e', {x}, 'p', CAST({n} + 1 AS BIGINT)))"
    return Tuples(placed, lambda t: {variable_: read(f"{t}.`e`"), position: SqlValue(f"{t}.`p`", pa.int64())})


def _joined(tuples: Tuples, source: FromTerm, env: Environment) -> Tuples:
    """Join the tuples with those of one more term, which may use the variables before it."""
    r = variable()
    outer: Environment = {**env, **tuples.scope(r)}
    inner = _members(source, outer)
    scope = inner.scope
    condition = source.condition
    if condition is not None:
        inner = inner.kept(lambda own: boolean(condition, {**outer, **own}).sql)
    optional = source.kind in (SourceKind.LEFT, SourceKind.LEFT_UNNEST)
    e = variable()
    pairs = f"transform({inner.sql}, {e} -> named_struct('l', {r}, 'r', {e}{', ' + _THERE if optional else ''}))"
    if optional:
        nothing = f"array(named_struct('l', {r}, 'r', try_element_at({inner.sql}, 1), 'm', TRUE))"
        pairs = f"IF(size({inner.sql}) = 0, {nothing}, {pairs})"

    def both(x: str) -> dict[str, Value]:
        own = scope(f"{x}.`r`")
        if optional:
            own = {n: _absent(v, f"{x}.`m`") for n, v in own.items()}
        return {**tuples.scope(f"{x}.`l`"), **own}

    return Tuples(f"flatten(transform({tuples.sql}, {r} -> {pairs}))", both)


_THERE = "'m', FALSE"


def _absent(value: Value, missing: str) -> Value:
    own = None if value.missing is None else f"coalesce({value.missing}, FALSE)"
    return replace(value, missing=any_of(missing, own))


def collection(value: Value) -> SqlValue:
    """Return the collection that FROM iterates: an array, a single value as an array of it, or empty for NULL and
    MISSING."""
    if isinstance(value, SqlValue) and pa.types.is_list(value.type):
        return listed(f"coalesce({value.sql}, array())", reader(value))
    if pa.types.is_null(value.type):
        return SqlValue("CAST(array() AS ARRAY<STRING>)", pa.list_(pa.null()))
    text, read = packed(value)
    is_there = isinstance(value, Object) and value.missing is None
    array = f"array({text})" if is_there else known_members(f"array({text})", read)
    return listed(array, lambda t: replace(read(t), missing=None))


# -- GROUP BY and SELECT --


def _grouped(tuples: Tuples, block: QueryBlock, env: Environment) -> Tuples:
    """Return one tuple for each key, in the order of first occurrence."""
    assert block.group is not None
    group, keys = block.group, block.group.keys

    def key(x: str) -> tuple[str, Callable[[str], Value]]:
        own: Environment = {**env, **tuples.scope(x)}
        return (
            packed(Object({k.name.text: value_of(k.value, own) for k in keys}))
            if keys
            else ("TRUE", lambda t: Object({}))
        )

    read = key("x")[1]
    distinct = f"array_distinct({each(tuples.sql, lambda x: key(x)[0])})" if keys else "array(TRUE)"
    k = variable()
    members = each(tuples.sql, lambda x: f"{key(x)[0]} <=> {k}", "filter")
    groups = f"transform({distinct}, {k} -> named_struct('k', {k}, 'g', {members}))"
    if not keys:
        groups = each(groups, lambda x: f"size({x}.`g`) > 0", "filter")

    def scope(t: str) -> dict[str, Value]:
        found = {n.name.text: field(read(f"{t}.`k`"), n.name.text) for n in keys}
        rows = Tuples(f"{t}.`g`", tuples.scope)
        if group.group is not None:
            found[group.group.text] = mapped(rows.sql, lambda x: Object(_own(tuples.scope(x))))
        return {**found, GROUP: GroupTuples(rows.sql, pa.null(), None, rows)}

    return Tuples(groups, scope)


def _own(scope: Mapping[str, Value]) -> dict[str, Value]:
    return {n: v for n, v in scope.items() if n != GROUP}


def of_group(argument: Expr, env: Environment) -> SqlValue:
    """Return the array of an aggregate's argument over the tuples of the group."""
    group: Any = env.get(GROUP)
    if not isinstance(group, GroupTuples):
        raise Untranslatable("an aggregate without a group")
    tuples = group.tuples
    if isinstance(argument, exp.Star):
        return mapped(tuples.sql, lambda _: SqlValue("1L", pa.int64()))
    return merge(mapped(tuples.sql, lambda x: value_of(argument, {**env, **tuples.scope(x)})))


def _selected(select: Select, env: Environment, own: Mapping[str, Value]) -> Value:
    if select.value is not None:
        return value_of(select.value, env)
    fields: dict[str, Value] = {}
    for number, item in enumerate(select.items, 1):
        if item.expr is None:
            fields |= own
        elif not item.star:
            fields[item.name or f"${number}"] = value_of(item.expr, env)
        else:
            fields |= _spread(value_of(item.expr, env))
    return Object(fields)


def _spread(value: Value) -> dict[str, Value]:
    """Return the fields of `e.*`; they are MISSING if `e` is not an object."""
    if isinstance(value, Object):
        return {n: replace(f, missing=any_of(f.missing, value.missing)) for n, f in value.fields.items()}
    if not pa.types.is_struct(value.type):
        return {}
    return {n: replace(f, missing=any_of(f.missing, f"({value.sql} IS NULL)")) for n, f in fields_of(value).items()}
