"""Inference of the columns of files from a sample of their rows, without a JVM.

In: files, options of their source. Out: an Arrow schema. Only a sample is read. Rows that do not fit are rejected one
by one when the files are read.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from belvedere.connectors.reading.column_notes import ColumnNotes
from belvedere.connectors.reading.csv_text import DELIMITERS, csv_records_of, delimiter_that_fits, repeated_names
from belvedere.connectors.reading.formats import delimiter_of, format_of, time_formats
from belvedere.connectors.reading.json_arrays import read_documents
from belvedere.connectors.reading.text_records import decoded, open_file, text_head
from belvedere.connectors.reading.time_shapes import time_shape
from belvedere.connectors.run_records import is_control, path_text
from belvedere.errors import BelvedereError, fail
from belvedere.lang.types.samples import arrow_type, kind_of_text, kind_of_value, merge
from belvedere.project.settings import Source
from belvedere.schema import TIMESTAMP

SAMPLED_FILES = 8
SAMPLED_ROWS = 4000
SAMPLED_BYTES = 4 << 20


def infer_file(path: Path) -> pa.Schema:
    """Return the columns of one file, or of all files of a directory."""
    files = sorted(f for f in path.rglob("*") if f.is_file() and not _hidden(f)) if path.is_dir() else [path]
    return schema_of_files(path.name, files, {})


def _hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, by name; names that a script cannot write are skipped."""
    try:
        with os.scandir(folder) as found:
            return sorted((e for e in found if not e.name.startswith((".", "_"))), key=lambda e: e.name)
    except OSError as error:
        hint = "give this user the right to read it"
        where = path_text(str(folder))
        raise fail("B6023", f"the folder {where} cannot be listed: {error.strerror or error}", hint=hint) from error


def options_of(source: Source, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of a source, including its format."""
    return {**(source.options if options is None else options), **({"format": source.format} if source.format else {})}


def table_names(source: Source) -> list[str]:
    """Return the tables of a source's folder: `<path>/Table.*` and `<path>/Table/`. Raises B6023."""
    if source.path is None or not source.path.is_dir():
        return []
    options = options_of(source)
    names = (
        e.name if e.is_dir() else e.name.split(".", 1)[0] if format_of(e.path, options) else ""
        for e in _entries(source.path)
    )
    return [n for n in dict.fromkeys(names) if n and path_text(n) == n]


def table_files(source: Source, table: str) -> list[Path]:
    """Return the files of a table, those of its folder last. Raises B6023."""
    if source.path is None or not source.path.is_dir():
        return []
    options = options_of(source)
    beside = [e for e in _entries(source.path) if e.name.startswith(f"{table}.") and format_of(e.path, options)]
    folder = source.path / table
    within = _entries(folder) if folder.is_dir() else []
    return [Path(e.path) for e in (*beside, *within) if e.is_file()]


def schema_of_files(table: str, files: Sequence[Path], options: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of a sample of the files. Unreadable files are an error only if no other file has columns."""
    kinds: dict[str, Any] = {}
    failure: BelvedereError | None = None
    sampled, notes = _sampled(files), ColumnNotes()
    for file in sampled:
        try:
            found = list(_columns_of(file, options, SAMPLED_ROWS // len(sampled), notes))
            if (delimiter := _other_delimiter(file, options, found, kinds, notes)) is not None:
                notes.delimiter(file, delimiter)
                continue
            for name, kind in found:
                kinds[name] = merge(kinds[name], kind) if name in kinds else kind
        except (OSError, ValueError, RecursionError, pa.ArrowInvalid, csv.Error, EOFError) as error:
            first = str(error).strip().split("\n")[0]
            path = path_text(str(file))
            failure = failure or fail("B6102", f'file {path} of table "{table}" cannot be read', detail=first)
    if not kinds and failure is not None:
        raise failure
    if not kinds:
        hint = (
            "add files with rows, or declare its columns: "
            f'[sources.<name>.tables.{table}] columns = {{ id = "BIGINT" }}'
        )
        raise fail("B6103", f'table "{table}" has no rows to infer its columns from', hint=hint)
    for pair in repeated_names(kinds):
        notes.twice(f'table "{table}"', pair)
        del kinds[pair[1]]
    kept = {name: _distinct_fields(kind, name, notes) for name, kind in kinds.items()}
    return notes.on(pa.schema([pa.field(name, arrow_type(kind)) for name, kind in kept.items()]))


def _other_delimiter(
    file: Path,
    options: Mapping[str, Any],
    found: Sequence[tuple[str, Any]],
    known: Mapping[str, Any],
    notes: ColumnNotes,
) -> str | None:
    """Return the delimiter that fits a CSV file whose header is one name, by the columns of the files before it."""
    names, own = dict.fromkeys(name for name, _ in found), delimiter_of(str(file), options)
    if format_of(str(file), options) != "csv" or len(names) != 1 or names.keys() & known.keys():
        return None
    if known:
        return delimiter_that_fits(list(names), own, known)
    other = next((d for d in DELIMITERS if d != own and d in next(iter(names))), None)
    if other is not None:
        notes.whole_header(file, other)
    return None


def _distinct_fields(kind: Any, place: str, notes: ColumnNotes) -> Any:
    """Remove fields of objects whose names differ from an earlier one in case only."""
    if isinstance(kind, tuple):
        return ("list", _distinct_fields(kind[1], place, notes))
    if not isinstance(kind, dict):
        return kind
    fields = dict(kind)
    for pair in repeated_names(fields):
        notes.twice(f'column "{place}"', pair)
        del fields[pair[1]]
    return {name: _distinct_fields(field, f"{place}.{name}", notes) for name, field in fields.items()}


def _sampled(files: Sequence[Path]) -> list[Path]:
    """Return some of the first and of the last files that are not empty."""
    first = list(islice((f for f in files if f.stat().st_size), SAMPLED_FILES // 2))
    last = list(islice((f for f in reversed(files) if f.stat().st_size and f not in first), SAMPLED_FILES // 2))
    return [*first, *reversed(last)]


def _columns_of(file: Path, options: Mapping[str, Any], rows: int, notes: ColumnNotes) -> Iterator[tuple[str, Any]]:
    match format_of(str(file), options):
        case "json":
            is_time = _times_by(time_formats(options, "json"))
            for record in islice((r for r in _json_records(file) if not is_control(r)), rows):
                for name, value in record.items():
                    yield name, TIMESTAMP if isinstance(value, str) and is_time(value) else kind_of_value(value)
        case "csv":
            yield from _csv_columns(file, options, rows, notes)
        case "parquet":
            yield from ((field.name, field.type) for field in parquet.read_schema(open_file(str(file))))
        case _:
            raise ValueError("its format is not known: use json, csv or parquet")


def _sample(file: Path) -> tuple[str, bool]:
    """Return the first part of a text file, decompressed, and whether it is the whole file."""
    data = text_head(str(file), SAMPLED_BYTES)
    whole = len(data) < SAMPLED_BYTES
    if not whole:
        data = data[: data.rfind(b"\n") + 1] or data
    try:
        return data.decode("utf-8"), whole
    except UnicodeDecodeError:  # lines with such bytes are rejected, so they do not affect the columns
        kept = [line for line in data.splitlines(keepends=True) if not decoded(line)[1]]
        return b"".join(kept).decode("utf-8"), whole


def _json_records(file: Path) -> Iterator[dict[str, Any]]:
    """Yield objects, one per line or the elements of one array.

    Lines that are not objects are skipped; the reader rejects them.
    """
    text, whole = _sample(file)
    if text.lstrip().startswith("["):
        if not whole:
            raise ValueError("this JSON array is too large to sample: write one object per line")
        yield from (element for element in json.loads(text) if isinstance(element, dict))
        return
    if (documents := _documents(text, whole)) is not None:
        yield from documents
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


def _documents(text: str, whole: bool) -> list[dict[str, Any]] | None:
    """Return objects over several lines; None if the first line is a complete object, or the text has another form."""
    first = text.lstrip().partition("\n")[0]
    if not first.startswith("{"):
        return None
    try:
        json.loads(first)
        return None
    except (ValueError, RecursionError):
        pass
    found: list[dict[str, Any]] = []
    try:
        for document in read_documents(iter([text.encode()])):
            found.append(document)
    except ValueError:
        return None if whole or not found else found  # in a longer text the last object is incomplete
    return found


def _times_by(formats: Sequence[str]) -> Callable[[str], bool]:
    """Return the function that checks whether a text is a time in one of these Spark formats."""
    shapes = [shape for f in formats if (shape := time_shape(f)) is not None]
    return lambda text: any(s.fullmatch(text.strip()) for s in shapes)


def _csv_columns(file: Path, options: Mapping[str, Any], rows: int, notes: ColumnNotes) -> Iterator[tuple[str, Any]]:
    text, whole = _sample(file)
    records = csv_records_of(io.StringIO(text, newline=""), delimiter_of(str(file), options), is_whole=whole)
    first = next((r.fields for r in records), None)
    if first is None:
        return
    if not options.get("header", True):
        raise ValueError("a CSV file without header has no column names: declare the columns in belvedere.toml")
    names = [name.strip() for name in first]
    for pair in repeated_names(names):
        notes.twice(f"file {path_text(str(file))}", pair)
    folded = {name.casefold(): name for name in reversed(names)}
    names = [folded[name.casefold()] for name in names]
    nulls = {"", str(options.get("null", ""))}
    is_time = _times_by(time_formats(options, "csv"))
    yield from ((name, None) for name in names)
    # a record of another length is rejected, so it does not affect the columns
    for record in islice((r.fields for r in records if r.fields is not None and len(r.fields) == len(names)), rows):
        for name, value in zip(names, record, strict=True):
            yield name, None if value in nulls else TIMESTAMP if is_time(value) else kind_of_text(value)
