"""The columns of sources' tables as stored.

In: a catalog, an epoch's row. Out: a document for the row, and Arrow schemas from it. An input with inferred columns
keeps them for the life of the store: a later file does not change the schema for which views were compiled.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.functions.widening import misfit
from belvedere.project.settings import ProjectSettings
from belvedere.schema import Column
from belvedere.store import open_store
from belvedere.store.migrations import FORMAT_CODES
from belvedere.store.protocol import EpochRow, Reader

COLUMNS = "columns"
"""Name of the document in `EpochRow.extra`."""


def columns_document(catalog: Catalog) -> dict[str, Any]:
    """Return the inferred columns of all imported tables, as JSON data by source and table."""
    found: dict[str, Any] = {}
    for table in catalog.inputs.values():
        if table.source is not None and table.source.columns is not None:
            found.setdefault(table.source.source, {})[table.source.table] = _text(table.source.columns)
    return found


def columns_of(row: EpochRow | None) -> dict[str, dict[str, pa.Schema]]:
    """Return the columns that `columns_document` wrote into an epoch's row."""
    document: Mapping[str, Mapping[str, str]] = row.extra.get(COLUMNS, {}) if row is not None else {}
    return {s: {t: _schema(text) for t, text in tables.items()} for s, tables in document.items()}


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


@contextlib.contextmanager
def suppress_unreadable() -> Iterator[None]:
    """Ignore a store that does not exist or cannot be read.

    Errors for a store of another version are raised: its columns exist but are unknown.
    """
    try:
        yield
    except BelvedereError as error:
        if error.diagnostics[0].code in FORMAT_CODES:
            raise


def with_stored_columns(project: ProjectSettings, url: str) -> ProjectSettings:
    """Return the project with the columns of the store at `url`, unchanged if there is no readable store.

    Raises B7016 and B7027 if another version wrote the store.
    """
    from belvedere.store import open_reader  # brings the drivers

    with suppress_unreadable():
        reader = open_reader(url)
        try:
            return project.with_columns(columns_of(reader.last_epoch()))
        finally:
            reader.close()
    return project


ACCEPTED = "_columns"
"""Document of accepted columns, which the next start uses."""


def accept_columns(url: str, tables: Mapping[str, Mapping[str, pa.Schema]]) -> None:
    """Store columns, by source and table, for the next start."""
    store = open_store(url)
    try:
        known = json.loads(store.document(ACCEPTED) or "{}")
        for source, schemas in tables.items():
            known.setdefault(source, {}).update({t: _text(s) for t, s in schemas.items()})
        store.set_document(ACCEPTED, json.dumps(known))
    finally:
        store.close()


def starting_columns(reader: Reader) -> dict[str, dict[str, pa.Schema]]:
    """Return the columns with which a start begins: those of the last epoch, or columns accepted since then."""
    now = columns_of(reader.last_epoch())
    accepted = json.loads(reader.document(ACCEPTED) or "{}")
    for source, tables in now.items():
        for table, schema in tables.items():
            text = accepted.get(source, {}).get(table)
            if text is not None and has_new_columns(schema, later := _schema(text)):
                tables[table] = later
    return now


def has_new_columns(before: pa.Schema, after: pa.Schema) -> bool:
    """Return whether the columns of `after` can hold rows of `before`, and differ from its columns."""
    return before != after and misfit(_as_columns(before), _as_columns(after)) is None


def _as_columns(schema: pa.Schema) -> list[Column]:
    return [Column(f.name, f.type, f.nullable) for f in schema]
