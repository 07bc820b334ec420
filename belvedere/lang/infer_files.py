"""The tables of a configured source and their columns, without a JVM.

In: a source of the project file. Out: table names, and a table's columns as an Arrow schema: those that the project file declares,
else those with which the store began (`Source.stored`), else those of a sample of its files. Only a sample is read: what does not fit
later is refused row by row by who reads it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError, Span, fail
from belvedere.lang.infer_values import arrow_type, kind_of_text, kind_of_value, merge
from belvedere.lang.names import did_you_mean
from belvedere.schema import CONTROL
from belvedere.settings import Source

FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
SAMPLED_FILES = 8
SAMPLED_ROWS = 4000
SAMPLED_BYTES = 4 << 20
SENSOR_TABLES = ("SensorReading", "Sensors")


@dataclass(frozen=True)
class SourceTable:
    """What is known of a table: its name as it is spelled there, its columns, and its declared primary key."""

    name: str
    schema: pa.Schema
    primary_key: tuple[str, ...] = ()
    is_found: bool = False
    """Whether its rows told its columns, now or when the store began."""


def table_names(source: Source) -> tuple[str, ...]:
    """The tables that a source has, in alphabetical order."""
    if source.connector == "sensors":
        return SENSOR_TABLES
    declared = {*source.tables, *source.stored}
    found = set(_found(source)) if source.path is not None else set()
    known = {name.casefold() for name in declared}
    return tuple(sorted(declared | {name for name in found if name.casefold() not in known}))


def source_table(source: Source, table: str, *, span: Span | None = None) -> SourceTable:
    """A table of a source and its columns.

    Raises BelvedereError: B6101 no such table, B6102 its files cannot be read, B6103 it has no rows to tell its columns.
    """
    names = table_names(source)
    name = next((n for n in names if n == table), None) or next((n for n in names if n.casefold() == table.casefold()), None)
    if name is None:
        raise _no_table(source, table, names, span)
    declared, found = source.tables.get(name, {}), False
    if "columns" in declared:
        schema = _declared_schema(source, name, declared["columns"], span)
    elif source.connector == "sensors":
        schema = _sensor_schema(source, name)
    elif name in source.stored:
        schema, found = source.stored[name], True
    else:
        schema, found = _inferred(source, name, span), True
    key = tuple(str(k) for k in declared.get("primary_key", ()))
    missing = next((k for k in key if k not in schema.names), None)
    if missing is not None:
        hint = did_you_mean(missing, schema.names)
        raise fail("B6105", f'primary key "{missing}" of table "{name}" is none of its columns', span=span, hint=hint)
    return SourceTable(name, schema, key, found)


def infer_file(path: Path, options: Mapping[str, Any] | None = None) -> pa.Schema:
    """The columns of one file, or of all files of a directory."""
    files = sorted(f for f in path.rglob("*") if f.is_file() and not _hidden(f)) if path.is_dir() else [path]
    return _schema_of(path.name, files, options or {}, None)


# -- which tables ------------------------------------------------------------------------------------------------------------


def _hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _table_of(path: Path) -> str:
    return path.name if path.is_dir() else path.name.split(".", 1)[0]


def _found(source: Source) -> dict[str, list[Path]]:
    """The files of each table: `<path>/Table.*` and `<path>/Table/*`."""
    tables: dict[str, list[Path]] = {}
    if source.path is None or not source.path.is_dir():
        return tables
    for entry in sorted(source.path.iterdir()):
        if _hidden(entry):
            continue
        if entry.is_dir():
            files = sorted(f for f in entry.iterdir() if f.is_file() and not _hidden(f))
            tables.setdefault(entry.name, []).extend(files)
        elif format_of(entry, source.options, source.format):
            tables.setdefault(_table_of(entry), []).append(entry)
    return tables


def _no_table(source: Source, table: str, names: Iterable[str], span: Span | None) -> BelvedereError:
    hint = did_you_mean(table, names)
    if hint is None and source.path is not None:
        where = "does not exist" if not source.path.is_dir() else "is empty"
        hint = f"the directory {source.path} {where}: put files there as {table}.json or {table}/..."
    return fail("B6101", f'source "{source.name}" has no table "{table}"', span=span, hint=hint)


# -- declared ----------------------------------------------------------------------------------------------------------------


def _declared_schema(source: Source, table: str, columns: Mapping[str, Any], span: Span | None) -> pa.Schema:
    from sqlglot import exp
    from sqlglot.errors import ParseError

    from belvedere.lang import types

    fields = []
    for name, text in columns.items():
        try:
            data_type = types.arrow_type(exp.DataType.build(str(text), dialect="spark"))
        except (ParseError, ValueError):
            data_type = None
        if data_type is None:
            message = f'column "{name}" of table "{table}" is declared with the unknown type "{text}"'
            raise fail("B6104", message, span=span, hint="write a type such as BIGINT, STRING, TIMESTAMP, DECIMAL(10, 2)")
        fields.append(pa.field(name, data_type))
    return pa.schema(fields)


def _sensor_schema(source: Source, table: str) -> pa.Schema:
    from belvedere.sensors import sensor_tables

    return pa.schema([pa.field(c.name, c.type, c.nullable) for c in sensor_tables(source.options)[table]])


# -- inferred ----------------------------------------------------------------------------------------------------------------


def format_of(path: Path, options: Mapping[str, Any], declared: str | None = None) -> str:
    """`json`, `csv` or `parquet`; empty where neither the source nor the name tells."""
    if declared or options.get("format"):
        return str(declared or options["format"]).lower()
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return FORMATS.get(name.suffix.lower(), "")


def _inferred(source: Source, table: str, span: Span | None) -> pa.Schema:
    files = _found(source).get(table, [])
    options = {**source.options, **({"format": source.format} if source.format else {})}
    return _schema_of(table, files, options, span)


def _schema_of(table: str, files: list[Path], options: Mapping[str, Any], span: Span | None) -> pa.Schema:
    files = [f for f in files if f.stat().st_size]
    if len(files) > SAMPLED_FILES:
        files = files[: SAMPLED_FILES // 2] + files[-SAMPLED_FILES // 2 :]
    kinds: dict[str, Any] = {}
    for file in files:
        try:
            for name, kind in _columns_of(file, options, SAMPLED_ROWS // len(files)):
                kinds[name] = merge(kinds[name], kind) if name in kinds else kind
        except (OSError, ValueError, RecursionError, pa.ArrowInvalid, csv.Error, EOFError) as error:
            first = str(error).strip().split("\n")[0]
            raise fail("B6102", f'file {file} of table "{table}" cannot be read', span=span, detail=first) from error
    if not kinds:
        hint = f'put rows there, or declare its columns: [sources.<name>.tables.{table}] columns = {{ id = "BIGINT" }}'
        raise fail("B6103", f'table "{table}" has no rows that would tell its columns', span=span, hint=hint)
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in kinds.items()])


def _columns_of(file: Path, options: Mapping[str, Any], rows: int) -> Iterator[tuple[str, Any]]:
    match format_of(file, options):
        case "json":
            for record in islice((r for r in _json_records(file) if set(r) != {CONTROL}), rows):
                yield from ((name, kind_of_value(value)) for name, value in record.items())
        case "csv":
            yield from _csv_columns(file, options, rows)
        case "parquet":
            from pyarrow import parquet

            yield from ((field.name, field.type) for field in parquet.read_schema(file))
        case _:
            raise ValueError("its format is not known: json, csv or parquet")


def _sample(file: Path) -> tuple[str, bool]:
    """The first part of a text file, decompressed, and whether it is all of it."""
    with pa.input_stream(str(file), compression=COMPRESSIONS.get(file.suffix.lower())) as stream:
        data = stream.read(SAMPLED_BYTES)
    whole = len(data) < SAMPLED_BYTES
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace" if whole else "ignore")
    return text, whole


def _json_records(file: Path) -> Iterator[dict[str, Any]]:
    """Objects, one a line or as the elements of one array. Lines that are no objects are left to the reader to refuse."""
    text, whole = _sample(file)
    if text.lstrip().startswith("["):
        if not whole:
            raise ValueError("a JSON array of this size cannot be sampled: write one object per line")
        yield from (element for element in json.loads(text) if isinstance(element, dict))
        return
    lines = text.split("\n")
    broken = 0
    for line in lines if whole else lines[:-1]:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            broken += 1
            continue
        if isinstance(value, dict):
            yield value
    if broken and broken == sum(bool(line.strip()) for line in lines):
        raise ValueError("no line of it is a JSON object")


def _csv_columns(file: Path, options: Mapping[str, Any], rows: int) -> Iterator[tuple[str, Any]]:
    text, _ = _sample(file)
    delimiter = str(options.get("delimiter") or ("\t" if ".tsv" in file.suffixes else ","))
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    first = next(reader, None)
    if first is None:
        return
    if not options.get("header", True):
        raise ValueError("a CSV file without header does not tell its columns' names: declare them in belvedere.toml")
    names = [name.strip() for name in first]
    nulls = {"", str(options.get("null", ""))}
    yield from ((name, None) for name in names)
    for record in islice(reader, rows):
        for name, value in zip(names, record, strict=False):
            yield name, None if value in nulls else kind_of_text(value)
