"""The tables of a configured source and their columns.

In: a source of the project file, and the findings of its connector. Out: table names, and a table's columns as an Arrow
schema: those that the project file declares, else those of the store's first epoch (`Source.stored`), else those of the
connector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError

from belvedere.errors import BelvedereError, Span, fail
from belvedere.functions import spark_types
from belvedere.functions.spark_types import type_text
from belvedere.project.settings import Source, TableFinder
from belvedere.schema import KEY_MARK, Column
from belvedere.syntax.wording import did_you_mean

NOTES = b"notes"
"""Key in the metadata of columns found by a connector: messages for users, as JSON."""


@dataclass(frozen=True)
class TableSchema:
    """Schema of a table: its name as spelled in the source, its columns, and its declared primary key."""

    name: str
    schema: pa.Schema
    primary_key: tuple[str, ...] = ()
    is_found: bool = False
    """Whether its columns were inferred from its rows, now or at the store's first epoch."""
    notes: tuple[str, ...] = ()
    """Notices on its columns."""


def table_names(source: Source, finder: TableFinder) -> tuple[str, ...]:
    """Return the tables of a source, in alphabetical order."""
    declared = {*source.tables, *source.stored}
    known = {name.casefold() for name in declared}
    return tuple(sorted(declared | {name for name in finder.tables(source) if name.casefold() not in known}))


def source_table(source: Source, table: str, finder: TableFinder, *, span: Span | None = None) -> TableSchema:
    """Return a table of a source with its columns.

    Raises BelvedereError: B6101 there is no such table, B6104 and B6105 its declaration is invalid, and the connector's
    errors.
    """
    # known columns need no access to the source, which may be large or unavailable
    name = _named(table, (*source.tables, *source.stored))
    names = () if name is not None else table_names(source, finder)
    name = name or _named(table, names)
    if name is None:
        raise _no_table(source, table, names, span)
    declared, found = source.tables.get(name, {}), False
    if "columns" in declared:
        schema = _declared_schema(name, declared["columns"], span)
        if (source.connector, source.format or "json") == ("kafka", "json") or (source.connector, source.format) == (
            "files",
            "json",
        ):
            refuse_map_keys(name, schema, span)
    elif name in source.stored:
        schema, found = source.stored[name], True
    else:
        schema, found = _reported(source, name, finder, span), True
    marked = [f.name for f in schema if f.metadata is not None and KEY_MARK in f.metadata]
    key = tuple(str(k) for k in declared.get("primary_key", marked))
    missing = next((k for k in key if k not in schema.names), None)
    if missing is not None:
        hint = did_you_mean(missing, schema.names)
        raise fail("B6105", f'primary key "{missing}" is not a column of table "{name}"', span=span, hint=hint)
    notes = tuple(json.loads((schema.metadata or {}).get(NOTES, b"[]")))
    return TableSchema(name, schema, key, found, notes)


def refuse_map_keys(table: str, columns: Iterable[pa.Field | Column], span: Span | None = None) -> None:
    """Raise B6104 for a column that JSON cannot represent: keys of its objects are texts."""
    for column in columns:
        if _has_other_keys(column.type):
            message = (
                f'column "{column.name}" of table "{table}" is {type_text(column.type)}, but keys in JSON are strings'
            )
            raise fail(
                "B6104", message, span=span, hint="declare the MAP with keys of type STRING, and cast them in a view"
            )


def _has_other_keys(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_) and not pa.types.is_string(type_.key_type):
        return True
    return any(_has_other_keys(type_.field(n).type) for n in range(type_.num_fields))


def _named(table: str, names: Sequence[str]) -> str | None:
    """Return the table among these names, ignoring case."""
    same = (n for n in names if n.casefold() == table.casefold())
    return table if table in names else next(same, None)


def _reported(source: Source, table: str, finder: TableFinder, span: Span | None) -> pa.Schema:
    """Return the columns that the connector reports; its errors get the position in the script."""
    try:
        return finder.columns(source, table)
    except BelvedereError as error:
        raise BelvedereError([replace(d, span=d.span or span) for d in error.diagnostics]) from error


def _no_table(source: Source, table: str, names: Iterable[str], span: Span | None) -> BelvedereError:
    hint = did_you_mean(table, names)
    if source.path is not None and (
        hint is None or not source.path.is_dir()
    ):  # names may be declared before there are rows
        where = "does not exist" if not source.path.is_dir() else "is empty"
        hint = f"the directory {source.path} {where}: add files as {table}.json or {table}/..."
    return fail("B6101", f'source "{source.name}" has no table "{table}"', span=span, hint=hint)


def _declared_schema(table: str, columns: Mapping[str, Any], span: Span | None) -> pa.Schema:
    fields = []
    for name, text in columns.items():
        try:
            data_type = spark_types.arrow_type(exp.DataType.build(str(text), dialect="spark"))
        except (ParseError, ValueError):
            data_type = None
        if data_type is None:
            message = f'column "{name}" of table "{table}" is declared with the unknown type "{text}"'
            raise fail(
                "B6104", message, span=span, hint="write a type such as BIGINT, STRING, TIMESTAMP, DECIMAL(10, 2)"
            )
        fields.append(pa.field(name, data_type))
    return pa.schema(fields)
