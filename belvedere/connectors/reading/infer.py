"""The columns of files from a sample of their rows, without a JVM.

In: files, options of their source. Out: an Arrow schema. Only a sample is read: what does not fit later is refused row by row by who
reads it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.connectors.reading.formats import format_of
from belvedere.connectors.reading.records import open_bytes, open_file
from belvedere.connectors.records import path_text
from belvedere.errors import fail
from belvedere.lang.infer_values import arrow_type, kind_of_text, kind_of_value, merge
from belvedere.schema import CONTROL
from belvedere.settings import Source

SAMPLED_FILES = 8
SAMPLED_ROWS = 4000
SAMPLED_BYTES = 4 << 20


def infer_file(path: Path, options: Mapping[str, Any] | None = None) -> pa.Schema:
    """The columns of one file, or of all files of a directory."""
    files = sorted(f for f in path.rglob("*") if f.is_file() and not _hidden(f)) if path.is_dir() else [path]
    return schema_of_files(path.name, files, options or {})


def _hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(f for f in folder.iterdir() if not _hidden(f))
    except OSError as error:
        hint = "give this user the right to read it"
        raise fail(
            "B6023", f"the folder {path_text(str(folder))} cannot be listed: {error.strerror or error}", hint=hint
        ) from error


def _table_of(path: Path) -> str:
    return path.name if path.is_dir() else path.name.split(".", 1)[0]


def options_of(source: Source, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The options of a source, its format among them."""
    return {**(source.options if options is None else options), **({"format": source.format} if source.format else {})}


def found_files(source: Source) -> dict[str, list[Path]]:
    """The files of each table: `<path>/Table.*` and `<path>/Table/*`."""
    tables: dict[str, list[Path]] = {}
    if source.path is None or not source.path.is_dir():
        return tables
    options = options_of(source)
    for entry in _entries(source.path):
        if path_text(entry.name) != entry.name:
            continue  # no script can name such a table
        if entry.is_dir():
            files = [f for f in _entries(entry) if f.is_file()]
            tables.setdefault(entry.name, []).extend(files)
        elif format_of(str(entry), options):
            tables.setdefault(_table_of(entry), []).append(entry)
    return tables


def schema_of_files(table: str, files: list[Path], options: Mapping[str, Any]) -> pa.Schema:
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
            raise fail("B6102", f'file {file} of table "{table}" cannot be read', detail=first) from error
    if not kinds:
        hint = f'put rows there, or declare its columns: [sources.<name>.tables.{table}] columns = {{ id = "BIGINT" }}'
        raise fail("B6103", f'table "{table}" has no rows that would tell its columns', hint=hint)
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in kinds.items()])


def _columns_of(file: Path, options: Mapping[str, Any], rows: int) -> Iterator[tuple[str, Any]]:
    match format_of(str(file), options):
        case "json":
            for record in islice((r for r in _json_records(file) if set(r) != {CONTROL}), rows):
                yield from ((name, kind_of_value(value)) for name, value in record.items())
        case "csv":
            yield from _csv_columns(file, options, rows)
        case "parquet":
            from pyarrow import parquet

            yield from ((field.name, field.type) for field in parquet.read_schema(open_file(str(file))))
        case _:
            raise ValueError("its format is not known: json, csv or parquet")


def _sample(file: Path) -> tuple[str, bool]:
    """The first part of a text file, decompressed, and whether it is all of it."""
    with open_bytes(str(file)) as stream:
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
