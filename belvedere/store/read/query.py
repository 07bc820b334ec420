"""A read of the store, as data: what GraphQL and the workbench ask for, before it is SQL.

In: names of relations and columns of the catalog, never of a client. Out: immutable trees that `belvedere.store.read.statements`
prints as one statement. A client's values are `BoundValue`s: numbers of places in a list that is bound when the statement
runs, so one printed statement serves every request of the same shape. This module knows neither HTTP nor SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from belvedere.catalog.access import RowCondition
from belvedere.catalog.relationships import Relationship
from belvedere.plan.operators.nodes import Expr, Node, Order
from belvedere.schema import Schema

LIMIT_DEFAULT = 100
LIMIT_MOST = 1_000


class Role(StrEnum):
    """The use of a bound value, which decides its stored form."""

    EXACT = "exact"
    """Compared for equality: a decimal that the column cannot hold equals nothing."""
    FLOOR = "floor"
    """Compared by `>` or `<=`: a decimal that the column cannot hold is rounded down."""
    CEILING = "ceiling"
    """Compared by `>=` or `<`: ... rounded up."""
    LIKE = "like"
    ILIKE = "ilike"
    PREFIX = "prefix"
    LIMIT = "limit"
    OFFSET = "offset"
    CURSOR = "cursor"
    """One stored value out of a decoded cursor: bound as it is."""
    MEMBER = "member"
    """Compared for equality with a member of an object: as the JSON text that a value of its type has there."""
    ARGUMENT = "argument"
    """An argument of a query template, in the stored form of its type."""


@dataclass(frozen=True, slots=True)
class BoundValue:
    """The value number `number` of a request, to be bound as a value of `type` for the purpose of `role`."""

    number: int
    type: pa.DataType
    role: Role = Role.EXACT
    nullable: bool = False


class Operator(StrEnum):
    EQ = "="
    NEQ = "<>"
    GT = ">"
    GTE = ">="
    LT = "<"
    LTE = "<="
    LIKE = "like"
    ILIKE = "ilike"
    STARTS_WITH = "starts_with"
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`; NULL columns never match (SQL's three-valued logic)."""

    column: str
    operator: Operator
    value: BoundValue
    path: tuple[str, ...] = ()
    """The member of an object that the column holds, by the names that lead to it; its value has the role MEMBER."""


@dataclass(frozen=True, slots=True)
class Membership:
    """`column IN (values)`; of no values: FALSE."""

    column: str
    values: tuple[BoundValue, ...]
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NullTest:
    """`column IS NULL`, or with `null` False IS NOT NULL."""

    column: str
    null: bool
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; of none: TRUE."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; of none: FALSE."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT part; an unknown part stays unknown."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Exists:
    """At least one row of a linked query is there. It is never unknown."""

    query: StoreQuery


Condition = Comparison | Membership | NullTest | Every | Some | Negation | Exists


@dataclass(frozen=True, slots=True)
class Sort:
    """One key of an order. NULLs come where `nulls_first` says; NaN is greater than every number (Spark's order)."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A column in the answer, under `alias`."""

    alias: str
    column: str


@dataclass(frozen=True, slots=True)
class MemberField:
    """A member of an object that a column holds, under `alias`; with `fields` an object of its members."""

    alias: str
    column: str
    path: tuple[str, ...]
    type: pa.DataType
    fields: tuple[MemberField | ConstantField, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstantField:
    """A text in the answer that is known before the read (`__typename`)."""

    alias: str
    text: str


@dataclass(frozen=True, slots=True)
class Nested:
    """Related rows in the answer, under `alias`: a list, or with `query.shape` ONE an object or null."""

    alias: str
    query: StoreQuery


class Aggregation(StrEnum):
    """An aggregate of the values of a group; only `ROWS` counts NULLs."""

    ROWS = "count"
    VALUES = "countOf"
    DISTINCT = "countDistinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregated:
    """One value of a group of rows; `ROWS` has no column."""

    function: Aggregation
    column: str = ""


@dataclass(frozen=True, slots=True)
class AggregateField:
    """A value of a group in the answer, under `alias`."""

    alias: str
    value: Aggregated


@dataclass(frozen=True, slots=True)
class ObjectField:
    """An object in the answer, under `alias`, whose fields are of the same row or group."""

    alias: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class GroupSort:
    """One key of an order of groups: one of their columns, or a value."""

    by: str | Aggregated
    descending: bool
    nulls_first: bool


Field = ColumnField | MemberField | ConstantField | Nested | AggregateField | ObjectField


@dataclass(frozen=True, slots=True)
class Link:
    """How a nested query's rows belong to a row of the outer one (see `belvedere.catalog.relationships.Relationship`), or without
    `pairs` which rows a query template chooses.

    `pairs` are (column of the outer row, own column). `residual` and `order` name columns as `_.name` (outer row) and
    `target.name` or bare (own). `limit` bounds the related rows per outer row, in `order`, before anything else applies.
    """

    pairs: tuple[tuple[str, str], ...]
    residual: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    arguments: tuple[tuple[str, BoundValue], ...] = ()
    """The values of the placeholders in `residual` and `order`."""
    most: str = ""
    """The argument that is the limit."""


def link_of(relationship: Relationship) -> Link:
    """A relationship as a link. Its arguments stand for any values: a request puts its own in their place."""
    arguments = ((p.name, BoundValue(n, p.type, Role.ARGUMENT)) for n, p in enumerate(relationship.parameters))
    return Link(
        relationship.pairs,
        relationship.residual,
        relationship.order,
        relationship.limit,
        tuple(arguments),
        relationship.most,
    )


@dataclass(frozen=True, slots=True)
class Instant:
    """A former state of the store: of an epoch, or (`by_time`) of the last epoch whose clock is not after a time."""

    value: BoundValue
    by_time: bool = False


class Shape(StrEnum):
    LIST = "list"
    ONE = "one"
    PAGE = "page"
    GROUPS = "groups"
    ANY = "any"
    """Whether there is a row, in `Exists`."""


@dataclass(frozen=True, slots=True)
class PageNames:
    """The answer's names of a page's parts; several where a client asks for a part under several aliases."""

    nodes: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    start_cursor: tuple[str, ...] = ()
    end_cursor: tuple[str, ...] = ()
    has_next_page: tuple[str, ...] = ()
    has_previous_page: tuple[str, ...] = ()
    total_count: tuple[str, ...] = ()
    constants: tuple[ConstantField, ...] = ()
    parts: tuple[str, ...] = ()
    """All aliases in the order in which they were asked for."""


@dataclass(frozen=True)
class StoreQuery:
    """Rows of one relation of the store (or of a template's plan), as JSON.

    `after` and `before`, for a page, are a cursor's values: one per key of the total order (`total_order`). With `backward` its rows are
    the last `limit` rows between them. With the shape GROUPS the answer is a list of groups of the rows that are equal in the columns
    `by`, in `group_order`; `fields` are those columns and aggregated values.
    """

    relation: str
    schema: Schema
    fields: tuple[Field, ...]
    shape: Shape = Shape.LIST
    where: Condition | None = None
    order: tuple[Sort, ...] = ()
    limit: BoundValue | int = LIMIT_DEFAULT
    offset: BoundValue | None = None
    link: Link | None = None
    page: PageNames | None = None
    after: tuple[BoundValue, ...] | None = None
    before: tuple[BoundValue, ...] | None = None
    backward: bool = False
    by: tuple[str, ...] = ()
    group_order: tuple[GroupSort, ...] = ()
    plan: Node | None = None
    """A query template's plan; its placeholders are in `arguments`."""
    arguments: tuple[tuple[str, BoundValue], ...] = ()
    as_of: Instant | None = None
    """Rows of the relation's history that held then; None: the rows now."""
    template: str = ""
    """The query template whose rows these are, where it chooses them of the relation by `link`."""


@dataclass(frozen=True)
class BoundRowCondition:
    """Which rows of a relation a read may see: those for which `condition`, over its columns (`schema`), is true.

    `arguments` are the values of the condition's placeholders; where one of them is NULL, no row may be seen.
    """

    condition: Expr
    schema: Schema
    arguments: tuple[tuple[str, BoundValue], ...] = ()


def bound_row_condition(rows: RowCondition) -> BoundRowCondition:
    """A role's condition as a read takes it. Its arguments stand for any values: a request puts its own in their place."""
    arguments = tuple(
        (p.name, BoundValue(n, p.type, Role.ARGUMENT, nullable=True)) for n, p in enumerate(rows.parameters)
    )
    return BoundRowCondition(rows.condition, rows.schema, arguments)


@dataclass(frozen=True)
class Read:
    """One request: queries and constants under their aliases, answered together by one statement from one epoch.

    `row_conditions`, where given, are all relations that may be read, those of which all rows may be seen with None.
    """

    fields: tuple[Field, ...]
    row_conditions: Mapping[str, BoundRowCondition | None] | None = None

    @property
    def historic(self) -> bool:
        """Whether it reads former states, so that its reader must see how far back they are known."""
        return any(isinstance(f, Nested) and f.query.as_of is not None for f in self.fields)


def total_order(query: StoreQuery) -> tuple[Sort, ...]:
    """The query's order with the key's columns behind it, so that no two rows are equal in it."""
    result = list(query.order)
    present = {s.column for s in result}
    for name in query.schema.key or ():
        if name not in present and is_ordered(query.schema[name].type):
            result.append(Sort(name, descending=False, nulls_first=True))
    return tuple(result)


def is_ordered(type_: pa.DataType) -> bool:
    """Whether values of the type can be compared: nested ones cannot."""
    return not (pa.types.is_nested(type_) or pa.types.is_interval(type_))


def queries_in(fields: Iterable[Field]) -> Iterator[StoreQuery]:
    """All queries in fields, however deep: those whose rows are shown, and those that conditions ask about."""
    for item in fields:
        if isinstance(item, Nested):
            yield from queries_of(item.query)
        elif isinstance(item, ObjectField):
            yield from queries_in(item.fields)


def queries_of(query: StoreQuery) -> Iterator[StoreQuery]:
    """A query and all in it."""
    yield query
    yield from queries_in(query.fields)
    for _, nodes in query.page.nodes if query.page is not None else ():
        yield from queries_in(nodes)
    if query.where is not None:
        yield from _queries_asked(query.where)


def _queries_asked(condition: Condition) -> Iterator[StoreQuery]:
    if isinstance(condition, Exists):
        yield from queries_of(condition.query)
    elif isinstance(condition, Negation):
        yield from _queries_asked(condition.part)
    elif isinstance(condition, Every | Some):
        for part in condition.parts:
            yield from _queries_asked(part)


def endpoints_read(fields: Iterable[Field]) -> Iterator[str]:
    """The relations and query templates of queries, however deep."""
    return (query.template or query.relation for query in queries_in(fields))
