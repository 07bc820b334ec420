"""A `Read` as one SQL statement of a store's dialect, at any depth of the request.

In: a `Read` (`belvedere.store.read.query`). Out: a `ParameterizedSql` that returns one row: the epoch, its clock, its
commit time, and the whole answer as JSON text; or no row if no epoch was committed yet. All of it is read in one
snapshot, so the answer and its epoch belong together. Identifiers come from the catalog; values are only parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.schema import Schema
from belvedere.store.dialects import DIALECTS, dialects_for
from belvedere.store.dialects.dialect import concatenation, literal
from belvedere.store.read.fallible_expressions import expressions_in, may_fail
from belvedere.store.read.groups import groups_source
from belvedere.store.read.pages import page_text
from belvedere.store.read.parameters import ParameterizedSql
from belvedere.store.read.query import (
    AggregateField,
    BoundRowCondition,
    ColumnField,
    ConstantField,
    Field,
    Link,
    MemberField,
    Nested,
    ObjectField,
    Read,
    Shape,
    StoreQuery,
)
from belvedere.store.read.sources import SourceRows, Sources, is_restricted, ordered

EPOCH = 'SELECT {} FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1'

PrintField = Callable[[ColumnField | MemberField | AggregateField | Nested], str]


def print_read(read: Read, dialect: str) -> ParameterizedSql:
    """Return the statement that answers a read, in the dialect of that name."""
    printer = _Answers(
        DIALECTS[dialect], row_conditions=read.row_conditions, fenced=may_fail(expressions_in(read.fields))
    )
    answer = printer.object(read.fields, None)
    columns = '"epoch","clock","committed_at"' + (',"content"' if read.historic else "")
    content = ",e.content" if read.historic else ""
    text = f"SELECT e.epoch,e.clock,e.committed_at,{answer}{content} FROM ({EPOCH.format(columns)}) AS e"
    return printer.finish(text)


def check_link(link: Link, outer: Schema, own: Schema, database: str | None = None) -> None:
    """Raise B8020 if the store's database cannot compute a relationship's condition or order exactly; None: any
    database."""
    for dialect in dialects_for(database):
        printer = Sources(dialect)
        rows, theirs = SourceRows("a", StoreQuery("", own, (), link=link)), SourceRows("b", StoreQuery("", outer, ()))
        printer.link_conditions(link, rows, theirs)
        printer.order_by(rows.query, rows, theirs)


def check_row_condition(condition: BoundRowCondition, database: str | None = None) -> None:
    """Raise B8020 if the store's database cannot compute a condition on rows exactly; None: any database."""
    for dialect in dialects_for(database):
        _Answers(dialect).row_condition(condition)


@dataclass
class _Answers(Sources):
    """Prints the shown fields of rows as JSON."""

    def object(self, fields: Sequence[Field], rows: SourceRows | None) -> str:
        """Return one JSON object with the fields of one row."""
        return _json_object(fields, lambda item: self.field(item, rows))

    def field(self, item: ColumnField | MemberField | AggregateField | Nested, rows: SourceRows | None) -> str:
        if isinstance(item, Nested):
            return self.query(item.query, rows)
        assert rows is not None
        if isinstance(item, MemberField):
            return self.member_text(item, rows)
        assert isinstance(item, ColumnField)
        return self.dialect.json_text(rows.column(item.column), rows.type(item.column))

    def member_text(self, item: MemberField, rows: SourceRows) -> str:
        """Return a member as JSON text. NaN and infinities are `null`, as in columns."""
        found = self.member(rows, item.column, item.path)
        if item.fields:
            return f"CASE WHEN {found} IS NULL THEN 'null' ELSE {self.object(item.fields, rows)} END"
        if pa.types.is_floating(item.type):
            return f"CASE WHEN substr({found},1,1)<>'\"' THEN {found} ELSE 'null' END"
        return f"coalesce({found},'null')"

    def query(self, query: StoreQuery, outer: SourceRows | None) -> str:
        """Return a query's answer as one JSON text."""
        rows = SourceRows(self.alias(), query)
        if query.page is not None:
            objects = [self.object(fields, rows) for _, fields in query.page.nodes]
            return page_text(self, query, rows, outer, objects, needed(query, rows))
        if query.shape is Shape.GROUPS:
            return self.groups(query, rows, outer)
        row = self.object(query.fields, rows)
        if query.shape is Shape.ONE:
            chosen = self.chosen(query, rows, outer, " LIMIT 1")
            return f"coalesce((SELECT {row} {chosen}),'null')"
        return f"(SELECT {self.dialect.array(row)} {self.chosen(query, rows, outer, self.bounds(query))})"

    def groups(self, query: StoreQuery, rows: SourceRows, outer: SourceRows | None) -> str:
        source, cells = groups_source(self, query, rows, outer, self.bounds(query))

        def cell(item: ColumnField | MemberField | AggregateField | Nested) -> str:
            assert not isinstance(item, Nested | MemberField)
            found = cells[item.column if isinstance(item, ColumnField) else item.value]
            return self.dialect.json_text(found.sql, found.type)

        return f"(SELECT {self.dialect.array(_json_object(query.fields, cell))} {source})"

    def chosen(self, query: StoreQuery, rows: SourceRows, outer: SourceRows | None, bounds: str) -> str:
        """Return FROM with the rows of the answer.

        Rows are selected before JSON is built; otherwise a sort would carry the JSON of all dropped rows.
        """
        source = self.source(query, rows, outer)
        if query.shape is Shape.ONE and " ORDER BY " not in source:
            return source + bounds
        columns = ",".join(f"{rows.column(n)} AS {rows.name(n)}" for n in needed(query, rows)) or "1 AS one"
        return f"FROM (SELECT {columns} {source}{bounds}) AS {rows.alias}"

    def bounds(self, query: StoreQuery) -> str:
        limit = str(query.limit) if isinstance(query.limit, int) else self.value(query.limit)
        most = "" if query.link is None or is_restricted(query) else self.most(query.link)
        if most:
            limit = self.dialect.least(most, limit)
        return f" LIMIT {limit}" + ("" if query.offset is None else f" OFFSET {self.value(query.offset)}")


def _json_object(fields: Sequence[Field], value: PrintField) -> str:
    return concatenation(_pieces(fields, value))


def _pieces(fields: Sequence[Field], value: PrintField) -> list[str]:
    """Return the texts that make up a JSON object, with constant ones joined."""
    parts: list[str] = []
    text = "{"
    for number, item in enumerate(fields):
        text += ("," if number else "") + json.dumps(item.alias) + ":"
        if isinstance(item, ConstantField):
            text += json.dumps(item.text)
            continue
        inner = _pieces(item.fields, value) if isinstance(item, ObjectField) else [value(item)]
        parts += [literal(text), *inner]
        text = ""
    return [*parts, literal(text + "}")]


def needed(query: StoreQuery, rows: SourceRows) -> tuple[str, ...]:
    """Return the columns that a query's fields, and the queries nested in it, read from its rows."""
    names: dict[str, None] = {}
    fields = query.fields if query.page is None else tuple(f for _, part in query.page.nodes for f in part)
    for item in fields:
        if isinstance(item, ColumnField | MemberField):
            names[item.column] = None
        elif isinstance(item, Nested) and item.query.link is not None:
            link = item.query.link
            names |= dict.fromkeys(query.schema[theirs].name for theirs, _ in link.pairs)
            names |= dict.fromkeys(query.schema[own].name for _, own in link.row)
            for tree in (*([link.residual] if link.residual is not None else []), *(o.expr for o in link.order)):
                outer = (c for c in tree.find_all(exp.Column) if c.table == "_")
                names |= dict.fromkeys(query.schema[c.name].name for c in outer)
    if query.page is not None:
        names |= dict.fromkeys(s.column for s in ordered(query))
    return tuple(names)


__all__ = ["ParameterizedSql", "print_read"]
