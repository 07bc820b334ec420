"""The columns of files from a sample of their rows, without a JVM.

In: files, options of their source. Out: an Arrow schema. Only a sample is read: what does not fit later is refused row by row by who
reads it.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.connectors.reading.formats import format_of
from belvedere.connectors.reading.records import open_bytes, open_file
from belvedere.connectors.records import is_control, path_text
from belvedere.errors import BelvedereError, fail
from belvedere.lang.types.samples import arrow_type, kind_of_text, kind_of_value, merge
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


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; names that no script can say are left out."""
    try:
        with os.scandir(folder) as found:
            return sorted((e for e in found if not e.name.startswith((".", "_"))), key=lambda e: e.name)
    except OSError as error:
        hint = "give this user the right to read it"
        where = path_text(str(folder))
        raise fail("B6023", f"the folder {where} cannot be listed: {error.strerror or error}", hint=hint) from error


def options_of(source: Source, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The options of a source, its format among them."""
    return {**(source.options if options is None else options), **({"format": source.format} if source.format else {})}


def table_names(source: Source) -> list[str]:
    """The tables of a source's folder: `<path>/Table.*` and `<path>/Table/`. Raises B6023."""
    if source.path is None or not source.path.is_dir():
        return []
    options = options_of(source)
    names = (
        e.name if e.is_dir() else e.name.split(".", 1)[0] if format_of(e.path, options) else "" for e in _entries(source.path)
    )
    return [n for n in dict.fromkeys(names) if n and path_text(n) == n]


def table_files(source: Source, table: str) -> list[Path]:
    """The files of a table, the folder's last. Raises B6023."""
    if source.path is None or not source.path.is_dir():
        return []
    options = options_of(source)
    beside = [e for e in _entries(source.path) if e.name.startswith(f"{table}.") and format_of(e.path, options)]
    folder = source.path / table
    within = _entries(folder) if folder.is_dir() else []
    return [Path(e.path) for e in (*beside, *within) if e.is_file()]


def schema_of_files(table: str, files: Sequence[Path], options: Mapping[str, Any]) -> pa.Schema:
    """The columns of a sample of the files; a file that cannot be read matters only if no other file has columns."""
    kinds: dict[str, Any] = {}
    failure: BelvedereError | None = None
    sampled = _sampled(files)
    for file in sampled:
        try:
            for name, kind in list(_columns_of(file, options, SAMPLED_ROWS // len(sampled))):
                kinds[name] = merge(kinds[name], kind) if name in kinds else kind
        except (OSError, ValueError, RecursionError, pa.ArrowInvalid, csv.Error, EOFError) as error:
            first = str(error).strip().split("\n")[0]
            path = path_text(str(file))
            failure = failure or fail("B6102", f'file {path} of table "{table}" cannot be read', detail=first)
    if not kinds and failure is not None:
        raise failure
    if not kinds:
        hint = f'put rows there, or declare its columns: [sources.<name>.tables.{table}] columns = {{ id = "BIGINT" }}'
        raise fail("B6103", f'table "{table}" has no rows that would tell its columns', hint=hint)
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in kinds.items()])


def _sampled(files: Sequence[Path]) -> list[Path]:
    """Some of the first and of the last files that are not empty."""
    first = list(islice((f for f in files if f.stat().st_size), SAMPLED_FILES // 2))
    last = list(islice((f for f in reversed(files) if f.stat().st_size and f not in first), SAMPLED_FILES // 2))
    return [*first, *reversed(last)]


def _columns_of(file: Path, options: Mapping[str, Any], rows: int) -> Iterator[tuple[str, Any]]:
    match format_of(str(file), options):
        case "json":
            for record in islice((r for r in _json_records(file) if not is_control(r)), rows):
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
