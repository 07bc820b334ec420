"""A `Read` as one SQL statement of a store's dialect, whatever the depth of the request.

In: a `Read` (`belvedere.store.read.query`). Out: a `ParameterizedSql` that gives one row: the epoch, its clock, when it was committed,
and the whole answer as JSON text; or no row where no epoch was committed yet. All of it is read in one snapshot, so the
answer and its epoch belong together. Identifiers come from the catalog, values are parameters only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.nodes import Expr
from belvedere.schema import HISTORY, KEY, Schema
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.dialect import Dialect, concatenation, joined, literal
from belvedere.store.identifiers import identifier, quoted
from belvedere.store.read.as_of import versions_held
from belvedere.store.read.cursors import order_mark
from belvedere.store.read.expressions import print_expression
from belvedere.store.read.plans import print_plan
from belvedere.store.read.query import (
    BoundValue,
    ColumnField,
    Comparison,
    Condition,
    ConstantField,
    Every,
    Field,
    Instant,
    Link,
    Membership,
    Negation,
    Nested,
    NullTest,
    PageNames,
    Read,
    Role,
    Shape,
    Some,
    Sort,
    StoreQuery,
    total_order,
)
from belvedere.store.read.typed import NameBindings, TypedSql
from belvedere.store.read.values import Convert, converter

EPOCH = 'SELECT {} FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1'

_MARKER = re.compile("\0(\\d+)\0")


@dataclass(frozen=True)
class ParameterizedSql:
    """SQL and what to bind: one parameter per placeholder, in order."""

    sql: str
    parameters: tuple[BoundValue, ...]
    converters: tuple[tuple[int, Convert], ...]

    def bind(self, values: Sequence[Any]) -> list[Any]:
        """The stored forms of a request's values. `ValueError` has the number of the value as its second argument."""
        bound = []
        for number, convert in self.converters:
            try:
                bound.append(convert(values[number]))
            except ValueError as error:
                raise ValueError(str(error), number) from None
        return bound


def print_read(read: Read, dialect: str) -> ParameterizedSql:
    """The one statement that answers a read, in the dialect of that name."""
    printer = _Printer(DIALECTS[dialect])
    answer = printer.object(read.fields, None)
    columns = '"epoch","clock","committed_at"' + (',"content"' if read.historic else "")
    content = ",e.content" if read.historic else ""
    text = f"SELECT e.epoch,e.clock,e.committed_at,{answer}{content} FROM ({EPOCH.format(columns)}) AS e"
    return printer.finish(text)


def check_link(link: Link, outer: Schema, own: Schema) -> None:
    """Raise B8020 where a relationship's condition or order cannot be said exactly by every store."""
    for dialect in DIALECTS.values():
        printer = _Printer(dialect)
        rows, theirs = _Rows("a", StoreQuery("", own, (), link=link)), _Rows("b", StoreQuery("", outer, ()))
        printer.link_conditions(link, rows, theirs)
        printer.order_by(rows.query, rows, theirs)


@dataclass(frozen=True)
class _Rows:
    """Rows that fields are read from: their alias in the SQL and the query they belong to."""

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
class _Printer:
    dialect: Dialect
    parameters: dict[BoundValue, int] = field(default_factory=dict)
    aliases: count[int] = field(default_factory=count)

    def finish(self, text: str) -> ParameterizedSql:
        """Placeholders in the driver's form for the markers."""
        parameters, order = list(self.parameters), list[BoundValue]()

        def place(found: re.Match[str]) -> str:
            order.append(parameters[int(found[1])])
            return self.dialect.marker(len(order))

        sql = _MARKER.sub(place, text)
        converters = tuple((p.number, converter(p, self.dialect)) for p in order)
        return ParameterizedSql(sql, tuple(order), converters)

    def marker(self, parameter: BoundValue) -> str:
        return f"\0{self.parameters.setdefault(parameter, len(self.parameters))}\0"

    def value(self, parameter: BoundValue) -> str:
        """A parameter in the form in which it compares with a column of its type."""
        form = self.dialect.again if parameter.role is Role.CURSOR else self.dialect.bound
        return form(self.marker(parameter), parameter.type)

    # rows as JSON

    def object(self, fields: Sequence[Field], rows: _Rows | None) -> str:
        """One JSON object with the fields, of one row."""
        parts: list[str] = []
        text = "{"
        for number, item in enumerate(fields):
            text += ("," if number else "") + json.dumps(item.alias) + ":"
            if isinstance(item, ConstantField):
                text += json.dumps(item.text)
                continue
            parts += [literal(text), self.field(item, rows)]
            text = ""
        return concatenation([*parts, literal(text + "}")])

    def field(self, item: ColumnField | Nested, rows: _Rows | None) -> str:
        if isinstance(item, Nested):
            return self.query(item.query, rows)
        assert rows is not None
        return self.dialect.json_text(rows.column(item.column), rows.type(item.column))

    def query(self, query: StoreQuery, outer: _Rows | None) -> str:
        """A query's answer as one JSON text."""
        rows = _Rows(f"t{next(self.aliases)}", query)
        if query.page is not None:
            return self.page(query, query.page, rows)
        row = self.object(query.fields, rows)
        if query.shape is Shape.ONE:
            chosen = self.chosen(query, rows, outer, " LIMIT 1")
            return f"coalesce((SELECT {row} {chosen}),'null')"
        return f"(SELECT {self.dialect.array(row)} {self.chosen(query, rows, outer, self.bounds(query))})"

    def chosen(self, query: StoreQuery, rows: _Rows, outer: _Rows | None, bounds: str) -> str:
        """FROM the rows of the answer. They are chosen first: a sort would else carry the JSON of all rows that it drops."""
        source = self.source(query, rows, outer)
        if query.shape is Shape.ONE and " ORDER BY " not in source:
            return source + bounds
        columns = ",".join(f"{rows.column(n)} AS {rows.name(n)}" for n in needed(query, rows)) or "1 AS one"
        return f"FROM (SELECT {columns} {source}{bounds}) AS {rows.alias}"

    def bounds(self, query: StoreQuery) -> str:
        limit = str(query.limit) if isinstance(query.limit, int) else self.value(query.limit)
        most = "" if query.link is None or _restricted(query) else self.most(query.link)
        if most:
            limit = self.dialect.least(most, limit)
        return f" LIMIT {limit}" + ("" if query.offset is None else f" OFFSET {self.value(query.offset)}")

    def most(self, link: Link) -> str:
        """How many rows a relationship has for a row; nothing for all."""
        if link.most:
            return self.value(replace(dict(link.arguments)[link.most], role=Role.LIMIT))
        return "" if link.limit is None else str(link.limit)

    # where rows come from

    def source(self, query: StoreQuery, rows: _Rows, outer: _Rows | None) -> str:
        """FROM, WHERE and ORDER BY."""
        link = query.link
        if link is None or not self.most(link) or not _restricted(query):
            conditions = self.link_conditions(link, rows, outer) if link is not None else []
            if query.where is not None:
                conditions.append(self.condition(query.where, rows))
            return f"FROM {self.relation(query)} AS {rows.alias}{_where(conditions)}{self.order_by(query, rows, outer)}"
        inner = replace(query, where=None, order=(), offset=None)
        bounded = _Rows(f"t{next(self.aliases)}", inner)
        nearest = f"SELECT {bounded.alias}.* {self.source(inner, bounded, outer)} LIMIT {self.most(link)}"
        conditions = [] if query.where is None else [self.condition(query.where, rows)]
        return f"FROM ({nearest}) AS {rows.alias}{_where(conditions)}{self.order_by(query, rows, outer)}"

    def relation(self, query: StoreQuery) -> str:
        if query.plan is None:
            return identifier(query.relation) if query.as_of is None else self.versions(query.relation, query.as_of)
        return f"({print_plan(query.plan, self.dialect, self.arguments(query.arguments), self.value)})"

    def arguments(self, given: Sequence[tuple[str, BoundValue]]) -> dict[str, TypedSql]:
        return {name: TypedSql(self.value(value), value.type, value) for name, value in given}

    def versions(self, relation: str, as_of: Instant) -> str:
        """The rows that a relation had then."""
        return f"(SELECT * FROM {identifier(relation + HISTORY)} WHERE {versions_held(self.value(as_of.value), as_of.by_time)})"

    def link_conditions(self, link: Link, rows: _Rows, outer: _Rows | None) -> list[str]:
        assert outer is not None
        result = []
        for theirs, own in link.pairs:
            result.append(self.equal(outer, theirs, rows, own))
        if link.residual is not None:
            result.append(f"({self.expression(link.residual, rows, outer)})")
        return result

    def equal(self, outer: _Rows, theirs: str, rows: _Rows, own: str) -> str:
        left, right = outer.type(theirs), rows.type(own)
        if left == right or (pa.types.is_integer(left) and pa.types.is_integer(right)):
            return f"{rows.column(own)}={outer.column(theirs)}"
        tree = exp.EQ(this=exp.column(theirs, table="_", quoted=True), expression=exp.column(own, quoted=True))
        return self.expression(tree, rows, outer)

    def expression(self, tree: Expr, rows: _Rows, outer: _Rows | None) -> str:
        """A scalar expression of a relationship over its own row and the outer one."""

        def resolve(column: exp.Column) -> tuple[str, pa.DataType]:
            side = outer if column.table == "_" and outer is not None else rows
            name = side.query.schema[column.name].name
            return side.column(name), side.type(name)

        arguments = self.arguments(() if rows.query.link is None else rows.query.link.arguments)
        return print_expression(tree, NameBindings(self.dialect, resolve, arguments, bind=self.value)).sql

    # order

    def order_by(self, query: StoreQuery, rows: _Rows, outer: _Rows | None) -> str:
        if query.shape is Shape.ONE and _fixes_key(query):
            return ""
        keys = []
        link = query.link
        if not query.order and link is not None:
            for order in link.order:
                sort = Sort("", order.descending, order.nulls_come_first)
                keys.append(self.dialect.order(self.expression(order.expr, rows, outer), sort))
        keys += [self.dialect.order(self.compared(rows, s.column), s, rows.nullable(s.column)) for s in ordered(query)]
        return f" ORDER BY {','.join(keys)}" if keys else ""

    def compared(self, rows: _Rows, name: str) -> str:
        return self.dialect.column(rows.column(name), rows.type(name))

    # conditions

    def condition(self, condition: Condition, rows: _Rows) -> str:
        match condition:
            case Comparison():
                return self.comparison(condition, rows)
            case Membership():
                if not condition.values:
                    return "1=0"
                values = ",".join(self.value(v) for v in condition.values)
                return f"{self.compared(rows, condition.column)} IN ({values})"
            case NullTest():
                return f"{rows.column(condition.column)} IS {'' if condition.null else 'NOT '}NULL"
            case Every():
                return joined(" AND ", [self.condition(p, rows) for p in condition.parts], "1=1")
            case Some():
                return joined(" OR ", [self.condition(p, rows) for p in condition.parts], "1=0")
            case Negation():
                return f"NOT ({self.condition(condition.part, rows)})"

    def comparison(self, condition: Comparison, rows: _Rows) -> str:
        column = self.compared(rows, condition.column)
        return self.dialect.compare(condition.operator, column, self.value(condition.value))

    # pages

    def page(self, query: StoreQuery, names: PageNames, rows: _Rows) -> str:
        """`limit` rows behind the cursor, and whether there are more: one row more is read than is shown."""
        assert isinstance(query.limit, BoundValue | int)
        limit = str(query.limit) if isinstance(query.limit, int) else self.value(query.limit)
        conditions = [] if query.where is None else [self.condition(query.where, rows)]
        if query.after is not None:
            conditions.append(self.behind(ordered(query), query.after, rows))
        columns = [f"{self.object(fields, rows)} AS o{i}" for i, (_, fields) in enumerate(names.nodes)]
        columns += [f"{self.cursor(query, rows)} AS c" if names.end_cursor else "1 AS c", "row_number() OVER () AS n"]
        inner = ",".join(f"{rows.column(n)} AS {rows.name(n)}" for n in needed(query, rows)) or "1 AS one"
        chosen = f"SELECT {inner} FROM {self.relation(query)} AS {rows.alias}{_where(conditions)}"
        chosen += f"{self.order_by(query, rows, None)} LIMIT {limit}+1"
        chosen += "" if query.offset is None else f" OFFSET {self.value(query.offset)}"
        shown = f"SELECT {','.join(columns)} FROM ({chosen}) AS {rows.alias}"
        return f"(SELECT {self.page_object(names, limit)} FROM ({shown}) AS q)"

    def page_object(self, names: PageNames, limit: str) -> str:
        within = f"CASE WHEN n<={limit} THEN "
        parts = {alias: self.dialect.array(f"{within}o{i} END") for i, (alias, _) in enumerate(names.nodes)}
        last = f"substr(max({within}{self.dialect.six_digits('n')}||c END),7)"
        parts |= dict.fromkeys(names.end_cursor, f"""coalesce('\"'||{last}||'\"','null')""")
        more = f"CASE WHEN count(*)>{limit} THEN 'true' ELSE 'false' END"
        parts |= dict.fromkeys(names.has_next_page, more)
        parts |= {c.alias: literal(json.dumps(c.text)) for c in names.constants}
        pieces = [
            p for i, alias in enumerate(names.parts) for p in (literal(("," if i else "{") + f'"{alias}":'), parts[alias])
        ]
        return concatenation([*pieces, "'}'"])

    def cursor(self, query: StoreQuery, rows: _Rows) -> str:
        """The row's place in the total order: a JSON array of the order's mark and stored values, in hexadecimal."""
        sorts = ordered(query)
        pieces = [literal(f'["{order_mark(query, sorts)}"')]
        for sort in sorts:
            pieces.append("','")
            pieces.append(self.dialect.stored_text(rows.column(sort.column), rows.type(sort.column)))
        return self.dialect.hexadecimal(concatenation([*pieces, "']'"]))

    def behind(self, sorts: Sequence[Sort], after: Sequence[BoundValue], rows: _Rows) -> str:
        """The rows behind a place: greater in the first key, or the same in it and behind in the others."""
        alternatives = []
        equal: list[str] = []
        for sort, parameter in zip(sorts, after, strict=True):
            column, value = self.compared(rows, sort.column), self.value(parameter)
            greater = f"{column}{'<' if sort.descending else '>'}{value}"
            if not rows.nullable(sort.column):
                alternatives.append(joined(" AND ", [*equal, greater], ""))
                equal.append(f"{column}={value}")
                continue
            null, given = f"{rows.column(sort.column)} IS NULL", f"{value} IS NULL"
            step = f"{given} AND NOT {null}" if sort.nulls_first else f"{null} AND NOT {given}"
            alternatives.append(joined(" AND ", [*equal, f"({greater} OR ({step}))"], ""))
            equal.append(self.dialect.same(column, value))
        return f"({joined(' OR ', alternatives, '1=0')})"


def ordered(query: StoreQuery) -> tuple[Sort, ...]:
    """The total order that is printed: the stored key stands in where the key's columns cannot tell rows apart."""
    sorts = total_order(query)
    key = query.schema.key
    found = {s.column for s in sorts}
    if key is not None and all(k in found for k in key):
        return sorts
    if query.plan is None:
        return (*sorts, Sort(KEY, descending=False, nulls_first=True))
    others = (c for c in query.schema if c.name not in found and not pa.types.is_nested(c.type))
    return (*sorts, *(Sort(c.name, descending=False, nulls_first=True) for c in others))


def needed(query: StoreQuery, rows: _Rows) -> tuple[str, ...]:
    """The columns that a query's fields, and what is nested in them, read from its rows."""
    names: dict[str, None] = {}
    fields = query.fields if query.page is None else tuple(f for _, part in query.page.nodes for f in part)
    for item in fields:
        if isinstance(item, ColumnField):
            names[item.column] = None
        elif isinstance(item, Nested) and item.query.link is not None:
            link = item.query.link
            names |= dict.fromkeys(query.schema[theirs].name for theirs, _ in link.pairs)
            for tree in (*([link.residual] if link.residual is not None else []), *(o.expr for o in link.order)):
                outer = (c for c in tree.find_all(exp.Column) if c.table == "_")
                names |= dict.fromkeys(query.schema[c.name].name for c in outer)
    if query.page is not None:
        names |= dict.fromkeys(s.column for s in ordered(query))
    return tuple(names)


def _fixes_key(query: StoreQuery) -> bool:
    """Whether at most one row can be meant, so that no order is needed to choose it."""
    if query.link is None:
        return True
    own = {query.schema[own].name for _, own in query.link.pairs}
    return query.schema.key is not None and all(k in own for k in query.schema.key)


def _restricted(query: StoreQuery) -> bool:
    """Whether a client's arguments apply on top of a relationship's own bound."""
    return query.where is not None or bool(query.order) or query.offset is not None


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


__all__ = ["ParameterizedSql", "print_read"]
