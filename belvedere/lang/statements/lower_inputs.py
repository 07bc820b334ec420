"""Inputs: IMPORT and CREATE STREAM | TABLE -> `Input`s with the nested tables of their data.

In: the statement and, for imports, the columns of the source. Out: inputs and nested views in the definitions. An array
of structs becomes a nested table `T.field` whose hidden key is the parent's key and the index (SQRL, 'Representing
Hierarchical Data').
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.inputs import (
    ARRIVAL_COLUMNS,
    Input,
    InputKind,
    LatePolicy,
    Metadata,
    SourceTable,
    Watermark,
    late_input,
)
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.views import View
from belvedere.errors import Span, fail
from belvedere.functions import spark_types as t
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.statements.constraints import read_check, read_default
from belvedere.lang.statements.metadata import read_metadata
from belvedere.lang.statements.source_tables import TableSchema
from belvedere.plan.expressions import column
from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.nodes import Item, Project, Scan, Unnest
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name
from belvedere.schema import INGEST_TIME, ROWTIME, TIMESTAMP, UID, Column, Schema, find_named
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.query_tree import span_of
from belvedere.syntax.statement_tree import CreateInput, ImportAll, ImportTable, InputClauses
from belvedere.syntax.wording import did_you_mean, refuse_engine_columns

INDEX = "_index"
PARENT = "parent"


def define_created(
    statement: CreateInput, definitions: Definitions, file: str, source: SourceTable | None = None
) -> None:
    """Define `CREATE STREAM` or `CREATE TABLE`. With a source it is an import of that source's rows."""
    columns: list[Column] = []
    metadata: dict[str, Metadata] = {}
    defaults: dict[str, Any] = {}
    for written in statement.columns:
        type_ = t.arrow_type(written.type)
        if (
            type_ is None
            or t.unstorable_interval(type_)
            or any(_has_some_fields(i) for i in written.type.find_all(exp.Interval))
        ):
            hint = (
                "declare INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH"
                if type_ is not None
                else t.INSTEAD.get(written.type.this, "use another type")
            )
            name = written.type.sql(SparkSql) if type_ is not None else written.type.sql()
            raise fail("B3003", f"type {name} is not supported", span=written.span, hint=hint)
        if find_named(columns, written.name.text) is not None:
            raise fail("B2007", f"column `{written.name.text}` is declared twice", span=written.name.span)
        made = Column(written.name.text, type_, written.nullable, doc=written.doc)
        if written.metadata is not None:
            found = metadata[made.name] = read_metadata(written.metadata, made.name, type_)
            made = replace(made, nullable=False, doc=made.doc or found.meaning[:1].upper() + found.meaning[1:])
        columns.append(made)
        if written.default is not None:
            defaults[made.name] = read_default(written.default, made, file)
    key = tuple(_column(columns, k.text, k.span) for k in statement.primary_key)
    watermarks = read_watermarks(columns, statement.clauses, file)
    kind = statement.kind if source is None else InputKind.IMPORT
    if kind is InputKind.STREAM and not watermarks and find_named(columns, ROWTIME) is None:
        columns.append(Column(ROWTIME, TIMESTAMP, nullable=False, hidden=True))
        watermarks = (Watermark(ROWTIME, 0),)
    late = LatePolicy.REJECT if kind is InputKind.STREAM else LatePolicy.KEEP
    schema = Schema(tuple(columns), key)
    table = Input("", statement.name.text, kind, schema, key, source, watermarks, late, doc=statement.doc)
    checks = tuple(read_check(c, columns, file) for c in statement.checks)
    table = replace(table, metadata=metadata, defaults=defaults, checks=checks)
    _define(definitions, table, statement.clauses, statement.span)


def _has_some_fields(interval: exp.Interval) -> bool:
    """Return whether an interval's type lacks fields: a column has all of them."""
    return interval.sql(SparkSql) not in ("INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH")


def define_imported(
    definitions: Definitions,
    name: str,
    table: TableSchema,
    source: SourceTable,
    statement: ImportTable | ImportAll,
    file: str,
) -> None:
    """Define one table of a source."""
    columns = [Column(f.name, _utc(f.type), f.nullable) for f in table.schema]
    key = tuple(_column(columns, k, statement.span) for k in table.primary_key)
    watermarks = read_watermarks(columns, statement.clauses, file)
    schema = Schema(tuple(columns), key)
    made = Input("", name, InputKind.IMPORT, schema, key, source, watermarks, doc=statement.doc)
    _define(definitions, made, statement.clauses, statement.span)


def _utc(type_: pa.DataType) -> pa.DataType:
    """Return the type of instants, which are in UTC regardless of the file's unit and zone."""
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    return t.STRING if type_ == pa.large_string() else type_


def _define(definitions: Definitions, table: Input, clauses: InputClauses, span: Span) -> None:
    """Define the input with its clauses and the standard columns, its late rows, and the tables nested in it."""
    refuse_engine_columns(table.schema.names, span, (UID, INGEST_TIME))
    shown = (
        replace(c, hidden=c.hidden or t.is_array_of_struct(c.type)) for c in table.schema
    )  # structs in an array are a nested table
    keyed = (replace(c, nullable=c.nullable and c.name not in table.primary_key) for c in shown)
    schema = Schema((*keyed, *ARRIVAL_COLUMNS), table.primary_key or (UID,))
    if clauses.history and clauses.keep is not None:
        message = f"`{table.name}` has both WITH HISTORY and KEEP"
        raise fail("B4031", message, span=clauses.history or span, hint="leave KEEP or WITH HISTORY out")
    keep = retention_of(clauses.keep, span)
    id_ = definitions.new_id(table.name)
    made = replace(table, id=id_, schema=schema, late=clauses.late or table.late, keep=keep, span=span)
    relation = definitions.define(made)
    if clauses.history:
        definitions.histories[id_] = None
    if made.watermarks:
        late = late_input(made)
        definitions.define(replace(late, id=definitions.new_id(late.name)))
    define_nested_data(definitions, relation, span)


def retention_of(clause: exp.Interval | None, span: Span) -> int | None:
    """Return the microseconds of a KEEP clause; None if there is none."""
    if clause is None:
        return None
    keep = interval_length(clause)
    if keep is None or keep < 0:
        raise fail("B5002", "KEEP takes an interval of days or less", span=span, hint="write KEEP 7 DAYS")
    return keep


def _column(columns: Sequence[Column], name: str, span: Span) -> str:
    found = find_named(columns, name)
    if found is None:
        names = [c.name for c in columns if not c.hidden]
        raise fail("B2002", f"column `{name}` is not defined", span=span, hint=did_you_mean(name, names))
    return found.name


# -- watermarks -------------------------------------------------------------------------------------------------------


def read_watermarks(columns: Sequence[Column], clauses: InputClauses, file: str) -> tuple[Watermark, ...]:
    """Return the event-time columns with their delays."""
    found: list[Watermark] = []
    for clause in clauses.watermarks:
        name, span = _column(columns, clause.column.text, clause.column.span), clause.column.span
        if next(c.type for c in columns if c.name == name) != TIMESTAMP:
            hint = f"declare it as {name} TIMESTAMP"
            raise fail("B5001", f"event-time column `{name}` is not a TIMESTAMP", span=span, hint=hint)
        if any(w.column == name for w in found):
            raise fail("B1013", f"WATERMARK FOR `{name}` is given twice", span=span, hint="keep one of them")
        idle = clause.idle_after or clauses.idle_after
        found.append(
            Watermark(name, _delay(clause.expression, name, file), interval_length(idle) if idle is not None else None)
        )
    return tuple(found)


def _delay(expr: exp.Expr | None, name: str, file: str) -> int | None:
    """Return the delay of a watermark: 0 for `c`, d microseconds for `c - INTERVAL d`."""
    if expr is None:
        return None
    inner = expr.unnest()
    if isinstance(inner, exp.Column) and inner.name.casefold() == name.casefold():
        return 0
    if (
        isinstance(inner, exp.Sub)
        and isinstance(inner.this, exp.Column)
        and inner.this.name.casefold() == name.casefold()
    ):
        delay = interval_length(inner.expression)
        if delay is not None and delay >= 0:
            return delay
    hint = f"write `WATERMARK FOR {name} AS {name} - INTERVAL 5 SECONDS`"
    raise fail(
        "B5003", "a watermark must be its column minus an interval of fixed length", span=span_of(expr, file), hint=hint
    )


# -- nested data ------------------------------------------------------------------------------------------------------


def define_nested_data(definitions: Definitions, parent: NamedRelation, span: Span | None) -> None:
    """Define a nested table for each array of structs, at all levels."""
    for c in parent.schema:
        if t.is_array_of_struct(c.type):
            _nested_table(definitions, definitions.relations[parent.id], c, span)


def _nested_table(definitions: Definitions, parent: NamedRelation, array: Column, span: Span | None) -> None:
    name = f"{parent.name}.{array.name}"
    refuse_engine_columns((f.name for f in array.type.value_type), span)
    fields = [Column(f"element.{f.name}", f.type, True) for f in array.type.value_type]
    taken = {f.name for f in array.type.value_type}
    position = Column(f"element.{INDEX}", pa.int32(), False, hidden=True)
    index = unused_name(INDEX, taken)
    unnested = Unnest(Scan(parent.id, parent.schema), column(array.name), tuple(fields), position, inline=True)
    items = [
        Item(f.name, column(f"element.{f.name}"), _utc(f.type), True, hidden=t.is_array_of_struct(f.type))
        for f in array.type.value_type
    ]
    pairs: list[tuple[str, str]] = []
    for key in parent.schema.key or ():
        own = unused_name(key, taken | {index} | {p[0] for p in pairs})
        items.append(item_of(parent.schema[key], own, hidden=True))
        pairs.append((own, key))
    items.append(Item(index, column(position.name), position.type, False, hidden=True))
    plan = Project(unnested, tuple(items))
    id_ = definitions.new_id(name)
    relation = definitions.define(View(id_, name, plan, plan.schema, span, array.doc, parent.id, tuple(pairs)))
    link_nested(definitions, parent, relation, array.name)
    define_nested_data(definitions, definitions.relations[id_], span)


def link_nested(
    definitions: Definitions, parent: NamedRelation, nested: NamedRelation, name: str, doc: str | None = None
) -> None:
    """Define relationships in both directions between a nested table and its parent."""
    pairs = tuple((p, own) for own, p in nested.parent_key)
    definitions.relate(Relationship(parent.id, name, nested.id, pairs, span=nested.span, doc=doc))
    if nested.schema.find(PARENT) is None:
        definitions.relate(Relationship(nested.id, PARENT, parent.id, nested.parent_key, limit=1, span=nested.span))
