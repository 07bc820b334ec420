"""The relational operators: one frozen dataclass each.

In: names, Arrow types and sqlglot expressions that the language has resolved. Out: trees that know their schema and key.
Rules that hold everywhere:

* A node's columns have distinct names; an expression refers to a column of its input by an unqualified `exp.Column`.
  The two sides of a join have disjoint names (the language names them `alias.column`).
* An expression is never changed in place. `now()` is `exp.CurrentTimestamp`.
* `Item.type` is the Arrow type of the expression's value as Spark computes it.

This module prints no SQL, and decides nothing about how a view is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import equated
from belvedere.schema import TIMESTAMP, Column, Schema

Expr = exp.Expr


@dataclass(frozen=True)
class Item:
    """A named, typed expression: one output column."""

    name: str
    expr: Expr
    type: pa.DataType
    nullable: bool = True
    hidden: bool = False
    doc: str | None = None

    @property
    def column(self) -> Column:
        return Column(self.name, self.type, self.nullable, self.hidden, self.doc)


@dataclass(frozen=True)
class Order:
    """One sort key. Spark's default: NULLs first ascending, last descending."""

    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def nulls_come_first(self) -> bool:
        return not self.descending if self.nulls_first is None else self.nulls_first


Part = Item | Order | Expr
"""What an operator computes, sorts by or tests."""


@dataclass(frozen=True)
class Node:
    """A relation: knows its schema, its key and its inputs."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(v for v in self.__dict__.values() if isinstance(v, Node))

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The same operator over other inputs."""
        names = [k for k, v in self.__dict__.items() if isinstance(v, Node)]
        changes: dict[str, Any] = dict(zip(names, inputs, strict=True))
        return replace(self, **changes) if changes else self

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The scalar expressions of the operator itself, wherever they stand in its fields."""
        return tuple(
            p if isinstance(p, exp.Expr) else p.expr for p in _parts(tuple(getattr(self, f.name) for f in fields(self)))
        )

    def with_parts(self, change: Callable[[Part], Part]) -> Node:
        """The same operator with each of its items, sort keys and bare expressions changed."""
        changes: dict[str, Any] = {f.name: _changed(getattr(self, f.name), change) for f in fields(self)}
        return replace(self, **changes)

    @cached_property
    def schema(self) -> Schema:
        raise TypeError(type(self).__name__)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.inputs:
            yield from child.walk()


def _parts(value: object) -> Iterator[Part]:
    if isinstance(value, Item | Order | exp.Expr):
        yield value
    elif isinstance(value, tuple):
        for member in value:
            yield from _parts(member)


def _changed(value: Any, change: Callable[[Part], Part]) -> Any:
    if isinstance(value, Item | Order | exp.Expr):
        return change(value)
    return tuple(_changed(member, change) for member in value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Scan(Node):
    """A relation of the catalog, by its id: an input or an earlier view. Carries all its columns, hidden ones too."""

    relation: str
    relation_schema: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.relation_schema


@dataclass(frozen=True)
class Values(Node):
    """Literal rows; every row has one expression per column. `position`, where given, names the column that numbers them."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]
    position: str | None = None

    @cached_property
    def schema(self) -> Schema:
        if self.position is not None:
            return Schema(self.columns, (self.position,))
        return Schema(self.columns, () if len(self.rows) <= 1 else None)


@dataclass(frozen=True)
class Project(Node):
    """New columns computed row by row."""

    input: Node
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        kept: dict[str, str] = {}
        for item in self.items:
            if isinstance(item.expr, exp.Column):
                kept.setdefault(item.expr.name, item.name)
        key = self.input.schema.key
        if key is not None:
            key = tuple(kept[k] for k in key) if all(k in kept for k in key) else None
        return Schema(tuple(i.column for i in self.items), key)


@dataclass(frozen=True)
class Filter(Node):
    """The rows whose condition is TRUE."""

    input: Node
    condition: Expr

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Join(Node):
    """Two relations side by side; `condition` None is TRUE (a cross join). SEMI and ANTI give the left columns only.

    `versions` are two columns of the right side: each of its rows is a version, valid from the one time until before the other (NULL: to
    this day), and the condition asks for the one that is valid at a time of the left row. So a left row has at most one.

    `there`, if any, is a hidden column: TRUE where there is a left row. A FULL join needs it in its key where the keys of both sides
    may be NULL: a left row without a right one and a right row without a left one could look the same.
    """

    left: Node
    right: Node
    kind: JoinKind
    condition: Expr | None = None
    there: str | None = None
    versions: tuple[str, str] | None = None

    @cached_property
    def schema(self) -> Schema:
        left, right = self.left.schema, self.right.schema
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left
        columns = tuple(
            replace(c, nullable=c.nullable or outer)
            for side, outer in (
                (left, self.kind in (JoinKind.RIGHT, JoinKind.FULL)),
                (right, self.kind in (JoinKind.LEFT, JoinKind.FULL)),
            )
            for c in side
        )
        if self.there is not None:
            columns += (Column(self.there, pa.bool_(), hidden=True),)
        return Schema(columns, self._key())

    def _key(self) -> tuple[str, ...] | None:
        """Both sides' keys; one side's alone where the condition says which row of the other side there is."""
        left, right = self.left.schema, self.right.schema
        if left.key is None or right.key is None:
            return None
        if self.versions is not None:
            return left.key
        pairs = equated(self.condition)
        if self.kind in (JoinKind.INNER, JoinKind.LEFT) and _determined(right, pairs, left):
            return left.key
        if self.kind in (JoinKind.INNER, JoinKind.RIGHT) and _determined(left, pairs, right):
            return right.key
        return left.key + right.key + (() if self.there is None else (self.there,))


def _determined(schema: Schema, pairs: tuple[tuple[str, Expr], ...], other: Schema) -> bool:
    """Whether every key column is equal to an expression over the other side's columns."""
    return all(any(n == k and _fixes(schema[k].type, e, other) for n, e in pairs) for k in schema.key or ())


def _fixes(type_: pa.DataType, expr: Expr, other: Schema) -> bool:
    """Whether equality with `expr` leaves one value: not so where the comparison casts both ('1' = 1 and '01' = 1)."""
    names = set(other.names)
    if any(c.name not in names for c in expr.find_all(exp.Column)):
        return False
    if isinstance(expr, exp.Column):
        return bool(other[expr.name].type == type_)
    return type_ in (pa.int8(), pa.int16(), pa.int32(), pa.date32(), pa.bool_(), TIMESTAMP)


@dataclass(frozen=True)
class Aggregate(Node):
    """GROUP BY `keys` with `aggregates`. Without keys: exactly one row, also over nothing.

    `grouping_sets` lists, per set, the names of the keys that take part; the others are NULL. Then the hidden key
    column `grouping_id` (BIGINT, as Spark's `grouping_id()`) tells the sets apart and is part of the key.
    """

    input: Node
    keys: tuple[Item, ...]
    aggregates: tuple[Item, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None = None
    grouping_id: str | None = None

    @cached_property
    def schema(self) -> Schema:
        columns = tuple(i.column for i in self.keys + self.aggregates)
        key = tuple(i.name for i in self.keys)
        if self.grouping_sets is not None:
            columns = tuple(replace(c, nullable=True) if c.name in key else c for c in columns)
        if self.grouping_id is not None:
            columns += (Column(self.grouping_id, pa.int64(), nullable=False, hidden=True),)
            key += (self.grouping_id,)
        return Schema(columns, key)


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once. All columns of the input count and all are kept (the language projects hidden ones away first)."""

    input: Node

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema.with_key(self.input.schema.names)


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL: columns by position, names of the first. `branch`, if any, is a hidden column with its number.

    `key`, if any, are columns that no two rows share, of whichever branches.
    """

    branches: tuple[Node, ...]
    branch: str | None = None
    key: tuple[str, ...] | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, branches=inputs)

    @cached_property
    def schema(self) -> Schema:
        first = self.branches[0].schema
        columns = tuple(
            replace(c, nullable=any(b.schema.columns[i].nullable for b in self.branches), hidden=c.hidden)
            for i, c in enumerate(first.columns)
        )
        if self.branch is None:
            return Schema(columns, self.key)
        key = self._key_positions()
        columns += (Column(self.branch, pa.int32(), nullable=False, hidden=True),)
        return Schema(columns, None if key is None else (*(first.columns[i].name for i in key), self.branch))

    def _key_positions(self) -> tuple[int, ...] | None:
        if any(b.schema.key is None for b in self.branches):
            return None
        return tuple(sorted({b.schema.names.index(k) for b in self.branches for k in b.schema.key or ()}))


class SetKind(StrEnum):
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True)
class SetOperation(Node):
    """INTERSECT and EXCEPT DISTINCT; columns by position, names of the left. (The ALL forms are lowered to row numbers.)"""

    left: Node
    right: Node
    kind: SetKind

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema.with_key(self.left.schema.names)


@dataclass(frozen=True)
class Window(Node):
    """The input's columns and window functions over them: `items` hold `exp.Window` expressions."""

    input: Node
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.input.schema.columns + tuple(i.column for i in self.items), self.input.schema.key)


@dataclass(frozen=True)
class TopK(Node):
    """The rows `offset` .. `offset + limit` in `order`, of the whole or within each `partition`; ties by the input's key."""

    input: Node
    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[str, ...] = ()
    by_rows: bool = False
    """Whether each row stays what it is, with the input's key, also where the first one alone is wanted."""
    alike: tuple[str, ...] = ()
    """Columns that are equal in all rows of a partition: where it is the key of a join's left side, that side's columns."""
    number: Column | None = None
    """The column that has a row's place in its partition, from 1 (INT)."""
    most: str = ""
    """The parameter that is the limit, in a query that is answered when it is asked; `limit` is None then."""

    @cached_property
    def schema(self) -> Schema:
        schema = self.input.schema
        if self.number is not None:
            schema = Schema((*schema.columns, self.number), schema.key)
        return schema.with_key(self.partition) if self.limit == 1 and schema.key != () and not self.by_rows else schema


@dataclass(frozen=True)
class Unnest(Node):
    """The input's columns beside each element of an array (or entry of a map).

    `columns`: for an array of T one column of T, or with `inline` one per field of the struct T; for a map key and value.
    `position` is a column with the index from 0; hidden where the script did not ask for it. `outer` keeps rows
    without elements, with NULLs.
    """

    input: Node
    expr: Expr
    columns: tuple[Column, ...]
    position: Column
    inline: bool = False
    outer: bool = False

    @cached_property
    def schema(self) -> Schema:
        key = self.input.schema.key
        return Schema(
            self.input.schema.columns + self.columns + (self.position,),
            None if key is None else (*key, self.position.name),
        )
