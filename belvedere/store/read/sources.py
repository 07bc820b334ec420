"""Source of a query's rows: FROM, WHERE and ORDER BY.

In: a `StoreQuery`, the rows in which it is nested. Out: SQL. `belvedere.store.read.statements` prints the shown fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.operators.nodes import Expr
from belvedere.schema import HISTORY, KEY
from belvedere.store.dialects.dialect import joined
from belvedere.store.identifiers import identifier, quoted
from belvedere.store.read.as_of import valid_versions
from belvedere.store.read.expressions import print_expression
from belvedere.store.read.parameters import Parameters
from belvedere.store.read.plans import print_plan
from belvedere.store.read.query import (
    BoundRowCondition,
    BoundValue,
    Comparison,
    Condition,
    Every,
    Exists,
    Instant,
    Link,
    Membership,
    Negation,
    NullTest,
    Role,
    Shape,
    Some,
    Sort,
    StoreQuery,
    total_order,
)
from belvedere.store.read.typed_sql import NameBindings, TypedSql


@dataclass(frozen=True)
class SourceRows:
    """Rows from which fields are read: their alias in the SQL and their query."""

    alias: str
    query: StoreQuery

    def name(self, name: str) -> str:
        return quoted(name) if name == KEY else identifier(name)

    def column(self, name: str) -> str:
        return f"{self.alias}.{self.name(name)}"

    def nullable(self, name: str) -> bool:
        return name != KEY and self.query.schema[name].nullable

    def type(self, name: str) -> pa.DataType:
        return pa.string() if name == KEY else self.query.schema[name].type


@dataclass
class Sources(Parameters):
    """Prints the rows of queries."""

    aliases: count[int] = field(default_factory=count)
    row_conditions: Mapping[str, BoundRowCondition | None] | None = None
    fenced: bool = False
    """Whether guards are tested first, because other conditions may fail and so reveal a row."""

    def source(self, query: StoreQuery, rows: SourceRows, outer: SourceRows | None) -> str:
        """Return FROM, WHERE and ORDER BY."""
        return self.rows_of(query, rows, outer) + self.order_by(query, rows, outer)

    def rows_of(self, query: StoreQuery, rows: SourceRows, outer: SourceRows | None, more: Sequence[str] = ()) -> str:
        """Return FROM and WHERE. The rows also meet the conditions `more`."""
        link = query.link
        bounded = link is not None and bool(self.most(link)) and is_restricted(query)
        conditions = self.link_conditions(link, rows, outer) if link is not None and not bounded else []
        if query.where is not None:
            conditions.append(self.condition(query.where, rows))
        relation = self.nearest(query, outer) if bounded else self.relation(query, outer)
        return f"FROM {relation} AS {rows.alias}{where_text([*conditions, *more])}"

    def nearest(self, query: StoreQuery, outer: SourceRows | None) -> str:
        """Return the rows of a relationship with a limit, before a client's arguments select from them."""
        inner = replace(query, shape=Shape.LIST, page=None, where=None, order=(), offset=None)
        rows = SourceRows(self.alias(), inner)
        assert query.link is not None
        return f"(SELECT {rows.alias}.* {self.source(inner, rows, outer)} LIMIT {self.most(query.link)})"

    def alias(self) -> str:
        """Return a unique alias for rows."""
        return f"t{next(self.aliases)}"

    def relation(self, query: StoreQuery, outer: SourceRows | None) -> str:
        if query.rows_plan is None:
            return self.visible_rows(query.relation, query.as_of)
        arguments = self.arguments(query.arguments)
        if query.link is not None:
            arguments |= self.arguments(query.link.arguments)
            for name, column in query.link.row:
                assert outer is not None
                arguments[name] = TypedSql(outer.column(column), outer.type(column))
        printed = print_plan(query.rows_plan, self.dialect, arguments, self.value, rows=self.visible_rows)
        return f"({printed})"

    def visible_rows(self, relation: str, as_of: Instant | None = None) -> str:
        """Return the rows of a relation, now or in an earlier state, that the read can see.

        This is the only place that names a relation.
        """
        if self.row_conditions is not None and relation not in self.row_conditions:
            raise PermissionError(f'"{relation}" may not be read')
        condition = None if self.row_conditions is None else self.row_conditions[relation]
        if as_of is None and condition is None:
            return identifier(relation)
        conditions = [] if as_of is None else [valid_versions(self.value(as_of.value), as_of.by_time)]
        if condition is not None:
            conditions.append(self.row_condition(condition))
        table = identifier(relation if as_of is None else relation + HISTORY)
        fence = self.dialect.fence if self.fenced and condition is not None else ""
        return f"(SELECT * FROM {table} AS g{where_text(conditions)}{fence})"

    def row_condition(self, condition: BoundRowCondition) -> str:
        """Return a role's condition on rows, over a table `g`. The condition is false if one of its values is NULL."""

        def resolve(column: exp.Column) -> tuple[str, pa.DataType]:
            known = condition.schema[column.name]
            return f"g.{identifier(known.name)}", known.type

        bindings = NameBindings(self.dialect, resolve, self.arguments(condition.arguments), bind=self.value)
        given = [f"{self.value(value)} IS NOT NULL" for _, value in condition.arguments]
        return " AND ".join([*given, f"({print_expression(condition.condition, bindings).sql})"])

    def arguments(self, given: Sequence[tuple[str, BoundValue]]) -> dict[str, TypedSql]:
        return {name: TypedSql(self.value(value), value.type, value) for name, value in given}

    def link_conditions(self, link: Link, rows: SourceRows, outer: SourceRows | None) -> list[str]:
        result = []
        for theirs, own in link.pairs:
            assert outer is not None
            result.append(self.equal(outer, theirs, rows, own))
        if link.residual is not None:
            result.append(f"({self.expression(link.residual, rows, outer)})")
        return result

    def equal(self, outer: SourceRows, theirs: str, rows: SourceRows, own: str) -> str:
        left, right = outer.type(theirs), rows.type(own)
        if left == right or (pa.types.is_integer(left) and pa.types.is_integer(right)):
            return f"{rows.column(own)}={outer.column(theirs)}"
        tree = exp.EQ(this=exp.column(theirs, table="_", quoted=True), expression=exp.column(own, quoted=True))
        return self.expression(tree, rows, outer)

    def expression(self, tree: Expr, rows: SourceRows, outer: SourceRows | None) -> str:
        """Return a scalar expression of a relationship over its own row and the outer one."""

        def resolve(column: exp.Column) -> tuple[str, pa.DataType]:
            side = outer if column.table == "_" and outer is not None else rows
            name = side.query.schema[column.name].name
            return side.column(name), side.type(name)

        arguments = self.arguments(() if rows.query.link is None else rows.query.link.arguments)
        return print_expression(tree, NameBindings(self.dialect, resolve, arguments, bind=self.value)).sql

    # order

    def order_by(self, query: StoreQuery, rows: SourceRows, outer: SourceRows | None) -> str:
        if query.shape is Shape.ONE and _fixes_key(query):
            return ""
        keys = []
        link = query.link
        if not query.order and link is not None:
            for order in link.order:
                sort = Sort("", order.descending, order.nulls_come_first)
                keys.append(self.dialect.order(self.expression(order.expr, rows, outer), sort))
        return order_text([*keys, *self.sort_keys(ordered(query), rows)])

    def sort_keys(self, sorts: Sequence[Sort], rows: SourceRows) -> list[str]:
        """Return the keys of ORDER BY."""
        return [self.dialect.order(self.compared(rows, s.column), s, rows.nullable(s.column)) for s in sorts]

    def compared(self, rows: SourceRows, name: str, path: tuple[str, ...] = ()) -> str:
        return self.dialect.column(self.member(rows, name, path), pa.string() if path else rows.type(name))

    def member(self, rows: SourceRows, name: str, path: tuple[str, ...]) -> str:
        """Return a column, or the JSON text of a member of the object in it."""
        return self.dialect.member(rows.column(name), path) if path else rows.column(name)

    # conditions

    def condition(self, condition: Condition, rows: SourceRows) -> str:
        match condition:
            case Comparison():
                return self.comparison(condition, rows)
            case Membership():
                if not condition.values:
                    return "1=0"
                values = ",".join(self.value(v) for v in condition.values)
                return f"{self.compared(rows, condition.column, condition.path)} IN ({values})"
            case NullTest():
                return (
                    f"{self.member(rows, condition.column, condition.path)} IS {'' if condition.null else 'NOT '}NULL"
                )
            case Every():
                return joined(" AND ", [self.condition(p, rows) for p in condition.parts], "1=1")
            case Some():
                return joined(" OR ", [self.condition(p, rows) for p in condition.parts], "1=0")
            case Negation():
                return f"NOT ({self.condition(condition.part, rows)})"
            case Exists():
                return (
                    "EXISTS (SELECT 1 "
                    f"{self.rows_of(condition.query, SourceRows(self.alias(), condition.query), rows)})"
                )

    def comparison(self, condition: Comparison, rows: SourceRows) -> str:
        column = self.compared(rows, condition.column, condition.path)
        return self.dialect.compare(condition.operator, column, self.value(condition.value))

    def most(self, link: Link) -> str:
        """Return the maximum number of rows of a relationship per row; empty for all."""
        if link.most:
            return self.value(replace(dict(link.arguments)[link.most], role=Role.LIMIT))
        return "" if link.limit is None else str(link.limit)


def ordered(query: StoreQuery) -> tuple[Sort, ...]:
    """Return the total order to print: the stored key is added if the key's columns cannot identify rows."""
    sorts = total_order(query)
    key = query.schema.key
    found = {s.column for s in sorts}
    if key is not None and all(k in found for k in key):
        return sorts
    if query.rows_plan is None:
        return (*sorts, Sort(KEY, descending=False, nulls_first=True))
    others = (c for c in query.schema if c.name not in found and not pa.types.is_nested(c.type))
    return (*sorts, *(Sort(c.name, descending=False, nulls_first=True) for c in others))


def _fixes_key(query: StoreQuery) -> bool:
    """Return whether at most one row can match, so no order is needed to select it."""
    if query.link is None:
        return True
    own = {query.schema[own].name for _, own in query.link.pairs}
    return query.schema.key is not None and all(k in own for k in query.schema.key)


def is_restricted(query: StoreQuery) -> bool:
    """Return whether a request does more with a relationship's rows than list them.

    The relationship's own limit then applies first.
    """
    listed = query.shape in (Shape.LIST, Shape.ONE)
    return not listed or query.where is not None or bool(query.order) or query.offset is not None


def where_text(conditions: Sequence[str]) -> str:
    """Return WHERE, or an empty text without conditions."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def order_text(keys: Sequence[str]) -> str:
    """Return ORDER BY, or an empty text without keys."""
    return f" ORDER BY {','.join(keys)}" if keys else ""
