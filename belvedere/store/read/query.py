"""A read of the store as data: a request of GraphQL or the workbench, before it is SQL.

In: names of relations and columns from the catalog, never from a client. Out: immutable trees that
`belvedere.store.read.statements` prints as one statement. A client's values are `BoundValue`s: positions in a list that
is bound when the statement runs. One printed statement therefore serves every request of the same shape. This module
knows neither HTTP nor SQL.
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
    """Compared by `>=` or `<`: a decimal that the column cannot hold is rounded up."""
    LIKE = "like"
    ILIKE = "ilike"
    PREFIX = "prefix"
    LIMIT = "limit"
    OFFSET = "offset"
    CURSOR = "cursor"
    """One stored value from a decoded cursor, bound unchanged."""
    MEMBER = "member"
    """Compared for equality with a member of an object: as the JSON text of a value of its type there."""
    ARGUMENT = "argument"
    """An argument of a query template, in the stored form of its type."""


@dataclass(frozen=True, slots=True)
class BoundValue:
    """The value number `number` of a request, to be bound as a value of `type` in the role `role`."""

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
    """Path of names to a member of the object in the column; its value has the role MEMBER."""


@dataclass(frozen=True, slots=True)
class Membership:
    """`column IN (values)`; FALSE without values."""

    column: str
    values: tuple[BoundValue, ...]
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NullTest:
    """`column IS NULL`, or IS NOT NULL if `null` is False."""

    column: str
    null: bool
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Every:
    """All parts are true; TRUE without parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part is true; FALSE without parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT part; an unknown part stays unknown."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Exists:
    """A linked query has at least one row. It is never unknown."""

    query: StoreQuery


Condition = Comparison | Membership | NullTest | Every | Some | Negation | Exists


@dataclass(frozen=True, slots=True)
class Sort:
    """One key of an order. `nulls_first` places NULLs; NaN is greater than every number (Spark's order)."""

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
    """A member of an object in a column, under `alias`; with `fields` an object of its members."""

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
    """The relation between a nested query's rows and a row of the outer query (see
    `belvedere.catalog.relationships.Relationship`). Without `pairs`, the rows that a query template selects.

    `pairs` are (column of the outer row, own column). `residual` and `order` name columns as `_.name` (outer row) and
    `target.name` or bare (own). `limit` bounds the related rows per outer row, in `order`, before any other condition
    applies.
    """

    pairs: tuple[tuple[str, str], ...]
    residual: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    arguments: tuple[tuple[str, BoundValue], ...] = ()
    """Values of the placeholders in `residual` and `order`."""
    most: str = ""
    """Name of the argument that is the limit."""
    plan: Node | None = None
    """Plan that computes the rows; its placeholders are in `arguments` and `row`."""
    row: tuple[tuple[str, str], ...] = ()
    """Placeholders of the plan whose values are columns of the outer row: (placeholder, column)."""


def link_of(relationship: Relationship) -> Link:
    """Return a relationship as a link. Its arguments are placeholders, which a request replaces by its own."""
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
    """An earlier state of the store: of an epoch, or (`by_time`) of the last epoch whose clock is not after a time."""

    value: BoundValue
    by_time: bool = False


class Shape(StrEnum):
    LIST = "list"
    ONE = "one"
    PAGE = "page"
    GROUPS = "groups"
    ANY = "any"
    """Tests whether there is a row, in `Exists`."""


@dataclass(frozen=True, slots=True)
class PageNames:
    """The answer's names for a page's parts. A part has several names if a client requests it under several aliases."""

    nodes: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    start_cursor: tuple[str, ...] = ()
    end_cursor: tuple[str, ...] = ()
    has_next_page: tuple[str, ...] = ()
    has_previous_page: tuple[str, ...] = ()
    total_count: tuple[str, ...] = ()
    constants: tuple[ConstantField, ...] = ()
    parts: tuple[str, ...] = ()
    """All aliases in the order in which they were requested."""


@dataclass(frozen=True)
class StoreQuery:
    """Rows of one relation of the store (or of a template's plan), as JSON.

    For a page, `after` and `before` are a cursor's values: one per key of the total order (`total_order`). With
    `backward` its rows are the last `limit` rows between them. With the shape GROUPS the answer is a list of groups of
    rows with equal columns `by`, in `group_order`; `fields` are those columns and aggregated values.
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
    """State whose rows are read from the relation's history; None: the present rows."""
    template: str = ""
    """The query template of these rows, if it selects them from the relation by `link`."""

    @property
    def rows_plan(self) -> Node | None:
        """Return the plan that computes the rows; None for rows of a relation."""
        return self.link.plan if self.plan is None and self.link is not None else self.plan


@dataclass(frozen=True)
class BoundRowCondition:
    """The rows of a relation that a read can see: those for which `condition`, over its columns (`schema`), is true.

    `arguments` are the values of the condition's placeholders. If one of them is NULL, no row is visible.
    """

    condition: Expr
    schema: Schema
    arguments: tuple[tuple[str, BoundValue], ...] = ()


def bound_row_condition(rows: RowCondition) -> BoundRowCondition:
    """Return a role's condition for a read. Its arguments are placeholders, which a request replaces by its own."""
    arguments = tuple(
        (p.name, BoundValue(n, p.type, Role.ARGUMENT, nullable=True)) for n, p in enumerate(rows.parameters)
    )
    return BoundRowCondition(rows.condition, rows.schema, arguments)


@dataclass(frozen=True)
class Read:
    """One request: queries and constants under their aliases, answered together by one statement from one epoch.

    `row_conditions`, if given, lists all readable relations; None as a condition means that all rows are visible.
    """

    fields: tuple[Field, ...]
    row_conditions: Mapping[str, BoundRowCondition | None] | None = None

    @property
    def historic(self) -> bool:
        """Return whether the read needs earlier states. Its reader must then check how far back they are known."""
        return any(isinstance(f, Nested) and f.query.as_of is not None for f in self.fields)


def total_order(query: StoreQuery) -> tuple[Sort, ...]:
    """Return the query's order followed by the key's columns, which makes the order total."""
    result = list(query.order)
    present = {s.column for s in result}
    for name in query.schema.key or ():
        if name not in present and is_ordered(query.schema[name].type):
            result.append(Sort(name, descending=False, nulls_first=True))
    return tuple(result)


def is_ordered(type_: pa.DataType) -> bool:
    """Return whether values of the type can be compared. Nested values cannot."""
    return not (pa.types.is_nested(type_) or pa.types.is_interval(type_))


def queries_in(fields: Iterable[Field]) -> Iterator[StoreQuery]:
    """Yield all queries in fields at any depth: those whose rows are shown, and those in conditions."""
    for item in fields:
        if isinstance(item, Nested):
            yield from queries_of(item.query)
        elif isinstance(item, ObjectField):
            yield from queries_in(item.fields)


def queries_of(query: StoreQuery) -> Iterator[StoreQuery]:
    """Yield a query and all queries in it."""
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
    """Yield the relations and query templates of queries, at any depth."""
    return (query.template or query.relation for query in queries_in(fields))
