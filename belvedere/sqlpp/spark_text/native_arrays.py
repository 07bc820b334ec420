"""Arrays of SQL++ as Spark SQL text: members, slices, `[*]`, IN, EXISTS, constructors and functions of arrays.

In: nodes and environments of `Value`s. Out: `Value`s; members that may be MISSING keep their flags (`Array`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.sqlpp.query_tree import Expr
from belvedere.sqlpp.spark_text.native_operators import among, compared
from belvedere.sqlpp.spark_text.native_values import Environment, scalar, value_of
from belvedere.sqlpp.spark_text.sql_values import (
    Object,
    SqlValue,
    Untranslatable,
    Value,
    aligned,
    any_of,
    each,
    field,
    is_known,
    known_members,
    listed,
    mapped,
    may_miss,
    merge,
    packed,
    reader,
    unsortable,
    variable,
    visible,
    with_missing,
)


def whole_number(node: Expr) -> int | None:
    """Return the value of a literal with or without sign; None for other nodes."""
    if isinstance(node, exp.Neg):
        inner = whole_number(node.this)
        return None if inner is None else -inner
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def dot(node: Expr, env: Environment) -> Value:
    """Return a field of an object, or for `array[*]` the array of the members' fields."""
    base, name = node.this, node.expression.name
    if isinstance(base, exp.Bracket) and isinstance(base.expressions[0], exp.Star):
        return star_field(value_of(base.this, env), name)
    return field(value_of(base, env), name)


def bracket(node: Expr, env: Environment) -> Value:
    """Translate `array[index]`, `array[first:end]`, `array[*]` and `object['field']`."""
    base, index = value_of(node.this, env), node.expressions[0]
    if isinstance(index, exp.Star):
        return star(base)
    if isinstance(index, exp.Slice):
        start = scalar(index.this, env) if index.this is not None else SqlValue("0L", pa.int64())
        return part(base, start, None if index.expression is None else scalar(index.expression, env))
    if isinstance(index, exp.Literal) and index.is_string:
        return field(base, index.name)
    key = scalar(index, env)
    if pa.types.is_string(key.type):
        return _dynamic(base, key)
    return at(base, key)


def _dynamic(base: Value, key: SqlValue) -> Value:
    if isinstance(base, Object) or pa.types.is_struct(base.type) or pa.types.is_map(base.type):
        raise Untranslatable("a field whose name is computed")
    return _nowhere(base, key)


def _nowhere(base: Value, *others: SqlValue) -> SqlValue:
    """Return NULL or MISSING if an operand is; else MISSING."""
    operands = [merge(base), *others]
    there = " AND ".join(f"{o.sql} IS NOT NULL" for o in operands)
    return SqlValue("NULL", pa.null(), any_of(*(o.missing for o in operands), f"({there})"))


def at(base: Value, index: SqlValue) -> Value:
    """Return the member at an index (from 0, or backwards from -1); MISSING if out of range."""
    if pa.types.is_null(base.type) or pa.types.is_null(index.type):
        return SqlValue("NULL", pa.null(), any_of(base.missing, index.missing))
    if isinstance(base, Object) or not pa.types.is_list(base.type) or not pa.types.is_integer(index.type):
        return _nowhere(base, index)
    place = whole_number_text(index.sql)
    if place is not None:
        number = str(place + 1 if place >= 0 else place)
        beyond = f"({base.sql} IS NOT NULL AND size({base.sql}) < {abs(int(number))})"
    else:
        number = f"try_cast(IF({index.sql} >= 0, {index.sql} + 1, {index.sql}) AS INT)"
        inside = f"{index.sql} >= - size({base.sql}) AND {index.sql} < size({base.sql})"
        beyond = f"({base.sql} IS NOT NULL AND {index.sql} IS NOT NULL AND NOT ({inside}))"
    found = reader(base)(f"try_element_at({base.sql}, {number})")
    missing = any_of(base.missing, index.missing, beyond)
    if found.missing is not None:
        found = replace(found, missing=f"coalesce({found.missing}, FALSE)")
    return with_missing(found, missing) if not isinstance(found, Object) else _object_at(found, base, index, missing)


def _object_at(found: Object, base: SqlValue, index: SqlValue, missing: str | None) -> Value:
    """Return an object read from an array. If array or index is NULL, the result is one NULL text, not an `Object`."""
    if (
        base.missing is None
        and index.missing is None
        and _never_null(base.sql)
        and whole_number_text(index.sql) is not None
    ):
        return with_missing(found, missing)
    whole = merge(found)
    text = f"IF({base.sql} IS NULL OR {index.sql} IS NULL OR {missing or 'FALSE'}, NULL, {whole.sql})"
    return SqlValue(text, whole.type, any_of(found.missing, missing))


def _never_null(text: str) -> bool:
    return text.startswith(("transform(", "filter(", "array("))


def whole_number_text(text: str) -> int | None:
    """Return the whole number that a literal's text holds; None for other texts."""
    plain = text.strip("()").replace(" ", "").removesuffix("L")
    return int(plain) if plain.removeprefix("-").isdigit() else None


def part(base: Value, start: SqlValue, end: SqlValue | None) -> Value:
    """Return `array[start:end]`, half open; MISSING if out of range."""
    operands = [start] if end is None else [start, end]
    if any(pa.types.is_null(o.type) for o in (base, *operands)):
        return SqlValue("NULL", pa.null(), any_of(base.missing, *(o.missing for o in operands)))
    if (
        isinstance(base, Object)
        or not pa.types.is_list(base.type)
        or not all(pa.types.is_integer(o.type) for o in operands)
    ):
        return _nowhere(base, *operands)
    size = f"size({base.sql})"
    low = _from_end(start, size)
    high = size if end is None else _from_end(end, size)
    outside = f"NOT (0 <= {low} AND {low} <= {high} AND {high} <= {size})"
    known = " AND ".join(f"{o.sql} IS NOT NULL" for o in (base, *operands))
    beyond = f"({known} AND {outside})"
    text = (
        f"IF({known} AND NOT ({outside}), slice({base.sql}, CAST({low} AS INT) + 1, CAST({high} - {low} AS INT)), NULL)"
    )
    return listed(text, reader(base), any_of(base.missing, *(o.missing for o in operands), beyond))


def _from_end(index: SqlValue, size: str) -> str:
    known = whole_number_text(index.sql)
    if known is not None:
        return f"{known}" if known >= 0 else f"({size} - {-known})"
    return f"IF({index.sql} < 0, {index.sql} + {size}, {index.sql})"


# -- [*] --


def star_field(base: Value, name: str) -> Value:
    """Return `array[*].name`: the array of that field, with NULL for objects without it; MISSING for an array without
    objects."""
    known = _starred(base)
    if not isinstance(known, str):
        return known
    assert isinstance(base, SqlValue)
    read, missing = reader(base), any_of(base.missing, known)

    def one(x: str) -> Value:
        found = field(read(x), name)
        return SqlValue(merge(found).sql, found.type) if isinstance(found, Object) else replace(found, missing=None)

    return listed(f"IF({known}, NULL, {mapped(base.sql, one).sql})", reader(mapped(base.sql, one)), missing)


def _starred(base: Value) -> str | Value:
    """Return the condition that an array has no object; for other values the result of `[*]`."""
    if pa.types.is_null(base.type):
        return base
    member = reader(base)("x") if isinstance(base, SqlValue) and pa.types.is_list(base.type) else None
    if isinstance(base, Object) or member is None or not pa.types.is_struct(member.type):
        return _nowhere(base)
    read = reader(base)
    return f"({base.sql} IS NOT NULL AND NOT {each(base.sql, lambda x: is_known(read(x)), 'exists')})"


def star(base: Value) -> Value:
    """Return `array[*]`: an array of objects as an object of arrays."""
    known = _starred(base)
    if not isinstance(known, str):
        return known
    assert isinstance(base, SqlValue)
    member, read = reader(base)("x"), reader(base)
    fields: dict[str, Value] = {}
    for name in [f.name for f in member.type]:
        found = star_field(base, name)
        if isinstance(member, Object) and member.fields[name].missing is not None:
            absent = each(
                base.sql,
                lambda x, n=name: f"coalesce(NOT {field(read(x), n).missing}, FALSE)",  # type: ignore[misc]
                "exists",
            )
            found = with_missing(found, f"(NOT {absent})")
        fields[name] = found
    made = Object(fields, any_of(base.missing, known))
    if _never_null(base.sql):
        return made
    whole = merge(made)
    return SqlValue(f"IF({base.sql} IS NULL, NULL, {whole.sql})", whole.type, made.missing)


# -- IN, EXISTS, constructors --


def contained(node: Expr, env: Environment) -> Value:
    """Translate IN: TRUE if any comparison is, else NULL if any is, else MISSING if any is."""
    found = among(node, env)
    if found is not None:
        return found
    value = scalar(node.this, env)
    given = node.args.get("field")
    array = value_of(given if given is not None else node.expressions[0], env)
    missing = any_of(value.missing, array.missing)
    if isinstance(array, Object) or not pa.types.is_list(array.type):
        return SqlValue("CAST(NULL AS BOOLEAN)", pa.bool_(), missing)
    read = reader(array)
    test = each(array.sql, lambda x: compared("=", value, merge(read(x))).sql, "exists")
    if read("x").missing is not None:
        nulls = each(array.sql, lambda x: f"NOT {read(x).missing} AND {merge(read(x)).sql} IS NULL", "exists")
        missing = any_of(
            missing, f"({value.sql} IS NOT NULL AND {array.sql} IS NOT NULL AND {test} IS NULL AND NOT {nulls})"
        )
    return SqlValue(f"IF({value.sql} IS NULL, NULL, {test})", pa.bool_(), missing)


def exists(node: Expr, env: Environment) -> Value:
    """Return whether an array has members."""
    array = value_of(node.this, env)
    if isinstance(array, Object) or not pa.types.is_list(array.type):
        return SqlValue("FALSE", pa.bool_())
    return SqlValue(f"coalesce(size({array.sql}) > 0, FALSE)", pa.bool_())


def array(node: Expr, env: Environment) -> Value:
    """Translate `[a, b]`."""
    members = aligned([value_of(e, env) for e in node.expressions]) if node.expressions else []
    if not members:
        return SqlValue("CAST(array() AS ARRAY<STRING>)", pa.list_(pa.null()))
    texts = [packed(m) for m in members]
    return listed("array(" + ", ".join(t for t, _ in texts) + ")", texts[0][1])


def struct(node: Expr, env: Environment) -> Value:
    """Translate `{"a": 1}`."""
    return Object({m.this.name: value_of(m.expression, env) for m in node.expressions})


# -- functions of known values; None for other types --

ArrayFunction = Callable[[SqlValue], SqlValue]


def _length(values: Sequence[Value]) -> SqlValue | None:
    value = visible(values[0]) if pa.types.is_struct(values[0].type) else values[0]
    if isinstance(value, Object):
        parts = ["1L" if f.missing is None else f"IF({f.missing}, 0L, 1L)" for f in value.fields.values()]
        total = "(" + " + ".join(["0L", *parts]) + ")"
        return SqlValue(total if value.missing is None else f"IF({value.missing}, NULL, {total})", pa.int64())
    if pa.types.is_struct(value.type):
        return SqlValue(f"IF({value.sql} IS NULL, NULL, {value.type.num_fields}L)", pa.int64())
    return None


def _of_array(change: ArrayFunction) -> Callable[[Sequence[Any]], SqlValue | None]:
    return lambda values: change(values[0]) if pa.types.is_list(values[0].type) else None


def _distinct(value: SqlValue) -> SqlValue:
    """Return each member once, in the order of last occurrence."""
    return listed(f"reverse(array_distinct(reverse({value.sql})))", reader(value))


def _sorted(value: SqlValue) -> SqlValue:
    whole, read = merge(value), reader(value)
    if unsortable(whole.type):
        raise Untranslatable("an order of maps")
    if not may_miss(value):
        return SqlValue(f"sort_array({whole.sql})", whole.type)
    if isinstance(read("x"), Object):
        raise Untranslatable("an order of objects with fields that may be MISSING")
    first = each(value.sql, lambda x: read(x).missing or "FALSE", "filter")  # MISSING comes before NULL
    rest = each(value.sql, lambda x: f"NOT {read(x).missing or 'FALSE'}", "filter")
    return listed(f"concat({first}, {_order(rest, read)})", read)


def _order(array: str, read: Callable[[str], Value]) -> str:
    """Return the members that are not MISSING, sorted."""
    a, b = variable(), variable()
    one, other = merge(read(a)).sql, merge(read(b)).sql
    tests = f"WHEN {one} IS NULL AND {other} IS NOT NULL THEN -1 WHEN {one} IS NOT NULL AND {other} IS NULL THEN 1"
    return (
        f"array_sort({array}, ({a}, {b}) -> CASE {tests} WHEN {one} < {other} THEN -1 WHEN {one} > {other} "
        "THEN 1 ELSE 0 END)"
    )


def _contains(values: Sequence[Value]) -> SqlValue | None:
    array, value = values[0], merge(values[1])
    if pa.types.is_string(array.type):
        raise Untranslatable("ARRAY_CONTAINS of a string")
    if isinstance(array, Object) or not pa.types.is_list(array.type):
        return None
    read = reader(array)
    test = each(array.sql, lambda x: f"coalesce({compared('=', merge(read(x)), value).sql}, FALSE)", "exists")
    return SqlValue(f"IF({value.sql} IS NULL, NULL, {test})", pa.bool_())


ARRAY_FUNCTIONS: dict[str, Callable[[Sequence[Any]], SqlValue | None]] = {
    "LEN": _length, "ARRAY_LENGTH": _length, "LENGTH": _length, "ARRAY_DISTINCT": _of_array(_distinct),
    "ARRAY_SORT": _of_array(_sorted),
    "ARRAY_CONTAINS": _contains, "ARRAY_AGG": _of_array(lambda a: listed(known_members(a.sql, reader(a)), reader(a))),
    "ARRAY_REVERSE": _of_array(lambda a: listed(f"reverse({a.sql})", reader(a))),
}  # fmt: skip
