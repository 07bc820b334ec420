"""Columns that sources have and the store's tables lack: found in files and databases, for a start that adds them.

In: a project, its store. Out: per table its stored columns, and its columns according to the files. Types only become
wider. If a file's value fits no type that its column may get, the column stays, and such rows are rejected.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.connectors.file_names import name_below, place_of
from belvedere.connectors.files import IGNORED
from belvedere.connectors.reading.column_inference import options_of, schema_of_files, table_files
from belvedere.connectors.reading.file_columns import unknown_columns
from belvedere.connectors.reading.formats import format_of
from belvedere.connectors.registry import SourceTables
from belvedere.connectors.run_records import FILES, REJECTED, is_control, path_text, rejected_value
from belvedere.errors import BelvedereError
from belvedere.functions.spark_types import type_text
from belvedere.functions.widening import evolution, is_wider
from belvedere.lang.types.samples import arrow_type, kind_of_value, merge
from belvedere.project.settings import ProjectSettings, Source
from belvedere.schema import Column
from belvedere.store import open_reader
from belvedere.store.protocol import Reader
from belvedere.store.source_columns import starting_columns, suppress_unreadable
from belvedere.values.instants import microseconds

MAX_TEXTS = 10_000
"""Maximum number of rejected rows that are searched."""


@dataclass(frozen=True)
class TableEvolution:
    """A table of a source: its stored columns, and its columns after the change; `stays` lists columns that keep their
    type."""

    source: str
    table: str
    before: pa.Schema
    after: pa.Schema
    stays: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[str, ...]:
        """Return a line for each new column and wider type."""
        return evolution(self.before, self.after)

    @property
    def has_new_columns(self) -> bool:
        """Return whether there is anything to accept."""
        return bool(self.before != self.after)


def evolution_of_sources(
    project: ProjectSettings, reader: Reader, ids: Mapping[tuple[str, str], str]
) -> list[TableEvolution]:
    """Return the tables whose columns the store knows.

    `ids` has the ids of their inputs by source and table. Errors from reading a source are raised.
    """
    last = reader.last_epoch()
    ignored = _places(last.offsets if last is not None else {})
    rejected = _rejected_texts(reader)
    found = []
    for name, tables in starting_columns(reader).items():
        source = project.source(name)
        if source is None or source.connector not in ("files", "postgres"):
            continue
        for table, before in tables.items():
            if (name, table) not in ids:
                continue
            if source.connector == "postgres":
                found.append(_with_new_columns(name, table, before, [SourceTables().columns(source, table)]))
                continue
            id_ = ids[name, table]
            places = (Path(place_of(str(source.path), p, table)) for p in ignored.get(id_, ()))
            reported = [p for p in places if p.is_file()]
            schemas = [
                *_schemas(source, table, reported),
                *_schemas(source, table, table_files(source, table), together=True),
            ]
            found.append(_with_new_columns(name, table, before, [*schemas, *_schema_of_texts(rejected.get(id_, ()))]))
    return found


def with_starting_columns(project: ProjectSettings, url: str) -> ProjectSettings:
    """Return the project with the columns for a start over the store: stored, accepted, or added by `new_columns =
    "add"`.

    Raises B7016 and B7027 if another version created the store.
    """
    with suppress_unreadable():
        reader = open_reader(url)
        try:
            known, noted = starting_columns(reader), _noted(reader)
        finally:
            reader.close()
        for name, tables in known.items():
            source = project.source(name)
            if source is not None and source.new_columns == "add" and source.connector == "files":
                tables.update({t: _with_new(source, t, schema, noted) for t, schema in tables.items()})
        return project.with_columns(known)
    return project


def _with_new(source: Source, table: str, schema: pa.Schema, noted: Noted) -> pa.Schema:
    """Return the columns, with the new columns of files that were not read yet."""
    options, columns = options_of(source), [Column(f.name, f.type) for f in schema]
    files = [f for f in table_files(source, table) if not _is_noted(f, str(source.path), noted)]
    having = [f for f in files if unknown_columns(str(f), format_of(str(f), options), columns, options)]
    evolved = _with_new_columns(source.name, table, schema, _schemas(source, table, having)).after
    return pa.schema([*schema, *list(evolved)[len(schema) :]])


def _schemas(source: Source, table: str, files: Iterable[Path], together: bool = False) -> Iterator[pa.Schema]:
    """Yield the schemas of files, one by one or of a sample of all; unreadable files are skipped."""
    files = list(files)
    for some in [files] if together and files else [[f] for f in files]:
        with contextlib.suppress(BelvedereError):
            yield schema_of_files(table, some, options_of(source))


def _schema_of_texts(texts: Iterable[str]) -> Iterator[pa.Schema]:
    for text in texts:
        value = rejected_value(text)
        if isinstance(value, dict) and not is_control(value):
            kinds = {n: kind_of_value(v) for n, v in value.items() if v is not None}
            yield pa.schema([pa.field(n, arrow_type(k)) for n, k in kinds.items()])


def _with_new_columns(source: str, table: str, before: pa.Schema, found: Iterable[pa.Schema]) -> TableEvolution:
    """Return the columns with all new columns and wider types that were found."""
    fields = {f.name: f for f in before}
    folded = {n.casefold(): n for n in fields}
    stays: dict[str, str] = {}
    for field in (f for schema in found for f in schema):
        name = folded.setdefault(field.name.casefold(), field.name)
        if name not in fields:
            fields[name] = pa.field(name, field.type)
            continue
        known = fields[name].type
        merged = arrow_type(merge(known, field.type))
        if is_wider(merged, known) or name not in before.names:
            fields[name] = fields[name].with_type(merged)
        elif merged != known and not pa.types.is_nested(known):
            stays[name] = f'"{name}" stays {type_text(known)}: rows with {type_text(field.type)} in it are rejected'
    return TableEvolution(source, table, before, pa.schema(list(fields.values())), tuple(stays.values()))


def _places(offsets: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by input id the files in which columns were found that the table lacks."""
    reported = ((i, o.get(IGNORED, {})) for i, o in offsets.items() if isinstance(o, Mapping))
    return {i: list(dict.fromkeys(_file_of(p) for p in places.values())) for i, places in reported}


def _file_of(place: str) -> str:
    """Return the file of a position `file:line`."""
    file, _, line = place.rpartition(":")
    return file if file and line.isdecimal() else place


def _rejected_texts(reader: Reader) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with contextlib.suppress(BelvedereError):
        rows = reader.rows(REJECTED).select(["table", "text"]).slice(0, MAX_TEXTS)
        for table, text in zip(rows["table"].to_pylist(), rows["text"].to_pylist(), strict=True):
            if text is not None:
                found.setdefault(table, []).append(text)
    return found


Noted = frozenset[tuple[str, int, int]]
"""Names, lengths and times of files that were read, of any source."""


def _noted(reader: Reader) -> Noted:
    with contextlib.suppress(BelvedereError):
        rows = reader.rows(FILES).select(["path", "length", "modified"]).to_pylist()
        return frozenset((r["path"], r["length"], microseconds(r["modified"])) for r in rows)
    return frozenset()


def _is_noted(file: Path, directory: str, noted: Noted) -> bool:
    found, path = file.stat(), str(file.absolute())
    marks = found.st_size, microseconds(datetime.fromtimestamp(found.st_mtime, UTC))
    names = path_text(path), name_below(os.path.abspath(directory), path)
    return any((str(n), *marks) in noted for n in names)


__all__ = ["TableEvolution", "evolution_of_sources", "with_starting_columns"]
