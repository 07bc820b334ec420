"""Relations of the plan, and the mapping of their columns to SQL++ values.

In: plan nodes, `Value`s. Out: `Bindings` (variables over columns) and `Result` (the output of a query). Columns have
fresh names inside, so joins have no name conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from belvedere.errors import fail
from belvedere.functions.spark_types import is_array_of_struct
from belvedere.functions.sqlpp_functions import DURATION, holds_duration
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Item, Node, Order, Project
from belvedere.plan.operators.project import item_of
from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.sqlpp.query_tree import OrderKey
from belvedere.sqlpp.spark_text.sql_text import is_column, parsed
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Value, fields_of, merge, name

NO_NAMES = str.maketrans("`.", "__")
"""Translation of characters that PySpark interprets as a path in a column name."""


@dataclass(frozen=True)
class Bindings:
    """The binding tuples of a block: a relation and the value of each variable; `order` sorts the rows (rule 10).

    `sorted`: the operator that finds windows returns the rows in that order. `outside` has the values of outer names.
    """

    node: Node
    variables: Mapping[str, Value]
    order: tuple[Order, ...] = ()
    sorted: bool = False
    outside: Mapping[str, Value] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    """For a query within an expression: columns that identify the outer tuple for which it is evaluated."""

    @property
    def environment(self) -> dict[str, Value]:
        return {**self.outside, **self.variables}


@dataclass(frozen=True)
class Result:
    """The results of a query, one row each. `order`, `sorted` and `apart` are as in `Bindings`."""

    node: Node
    value: Value
    order: tuple[Order, ...] = ()
    sorted: bool = False
    apart: tuple[str, ...] = ()


class Names:
    """Generator of column names that are unique within one query."""

    def __init__(self) -> None:
        self._numbers = count()
        self._taken: set[str] = set()

    def named(self, text: str) -> str:
        """Return a new name that contains `text`."""
        requested, number = text.translate(NO_NAMES), 1
        while (found := requested if number == 1 else f"{requested}_{number}").casefold() in self._taken:
            number += 1
        self._taken.add(found.casefold())
        return found

    def fresh(self, prefix: str = "c") -> str:
        return self.named(f"_{prefix}{next(self._numbers)}")

    def pin(self, node: Node, values: Sequence[Value]) -> tuple[Node, list[Value]]:
        """Add a column to the plan for every SQL text in the values.

        Return the plan and the values over these columns.
        """
        added: list[Item] = []
        made: dict[str, str] = {}

        def pinned(text: str, type_: pa.DataType) -> str:
            if is_column(text):
                return text
            if text not in made:
                item = Item(self.fresh(), parsed(text), type_)
                made[text] = name(item.name)
                added.append(item)
            return made[text]

        def walk(value: Value) -> Value:
            missing = None if value.missing is None else pinned(value.missing, pa.bool_())
            if isinstance(value, Object):
                return Object({n: walk(f) for n, f in value.fields.items()}, missing)
            text = "CAST(NULL AS STRING)" if pa.types.is_null(value.type) else value.sql
            return replace(value, sql=pinned(text, stored_type(value.type)), missing=missing)

        found = [walk(v) for v in values]
        return (with_items(node, added) if added else node), found

    def load(self, node: Node, variable: str, utc: bool = True) -> Result:
        """Return a table under fresh column names.

        Rows are objects, and every row has all of the table's columns (rule 0). `utc`: the session's time zone is UTC.
        """

        def own(c: Column) -> str:
            return self.named(f"{variable}${c.name}")

        fields: dict[str, Value] = {}
        items = [item_of(node.schema[k], own(node.schema[k])) for k in node.schema.key or () if node.schema[k].hidden]
        for c in members(node.schema):
            expr, type_ = column(c.name), c.type
            if pa.types.is_timestamp(type_) and type_.tz is None and utc:
                type_ = TIMESTAMP  # the cast of an item
            elif holds_duration(type_):
                hint = "select the parts that the query needs as separate columns"
                raise fail(
                    "B3620", f'column "{c.name}" has durations inside objects or arrays: not supported', hint=hint
                )
            items.append(Item(own(c), expr, stored_type(type_), c.nullable))
            fields[c.name] = SqlValue(name(items[-1].name), type_)
        return Result(Project(node, tuple(items)), Object(fields))

    def renamed(self, result: Result) -> Result:
        """Return the same relation under fresh names, for a second use."""
        fresh = {c.name: self.named(c.name) for c in result.node.schema}
        node = Project(result.node, tuple(item_of(c, fresh[c.name]) for c in result.node.schema))
        return Result(node, with_columns(result.value, fresh))


def with_columns(value: Value, names: Mapping[str, str]) -> Value:
    """Return a pinned value with renamed columns."""

    def renamed(text: str) -> str:
        return name(names.get(text[1:-1], text[1:-1]))

    missing = None if value.missing is None else renamed(value.missing)
    if isinstance(value, Object):
        return Object({n: with_columns(f, names) for n, f in value.fields.items()}, missing)
    return SqlValue(renamed(value.sql), value.type, missing)


def members(schema: Schema) -> list[Column]:
    """Return the columns of a row as an object: the visible ones, and arrays of objects (nested tables)."""
    return [c for c in schema if not c.hidden or is_array_of_struct(c.type)]


def with_items(node: Node, added: Sequence[Item]) -> Node:
    """Return the relation with further columns."""
    return Project(node, (*map(item_of, node.schema), *added))


def stored_type(type_: pa.DataType) -> pa.DataType:
    """Return the column type for values of `type_`: int64 for durations, string if every value is NULL."""
    if type_ == DURATION:
        return pa.int64()
    if pa.types.is_null(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(stored_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, stored_type(f.type)) for f in type_])
    return type_


def columns_of(value: Value) -> tuple[str, ...]:
    """Return the columns of a pinned value."""
    inner = (
        [c for f in value.fields.values() for c in columns_of(f)] if isinstance(value, Object) else [value.sql[1:-1]]
    )
    return tuple(dict.fromkeys([*([] if value.missing is None else [value.missing[1:-1]]), *inner]))


def sort_orders(key: OrderKey, value: SqlValue) -> tuple[Order, ...]:
    """Return the sort keys of an ORDER BY key: MISSING < NULL < values ascending; NULLS FIRST|LAST moves both."""
    first, down = key.nulls_come_first, key.descending
    own = Order(parsed(value.sql), down, first)
    if value.missing is None:
        return (own,)
    unknown = Order(parsed(f"IF({value.sql} IS NULL, {int(not first)}, {int(first)})"))
    return (unknown, Order(parsed(f"IF({value.missing}, 0, 1)"), down), own)


def output_items(value: Value) -> list[Item]:
    """Return the output columns of a result: the fields of an object, else one column `value`."""
    fields = fields_of(value) if pa.types.is_struct(value.type) else {"value": value}
    return [_output_item(n, merge(v)) for n, v in fields.items()]


def _output_item(label: str, value: SqlValue) -> Item:
    if holds_duration(value.type):
        hint = "select the parts that you need as separate columns"
        raise fail("B3620", f'column "{label}" would have durations inside objects or arrays: not supported', hint=hint)
    type_ = (
        stored_type(value.type) if pa.types.is_nested(value.type) else value.type
    )  # a value that is always NULL is a text
    return Item(label, parsed(value.sql), type_)
