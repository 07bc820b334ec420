"""The columns of sources' tables as the store knows them.

In: a catalog, an epoch's row. Out: a document for the row, and from it Arrow schemas again. An input whose columns its rows told keeps
these for as long as the store lives: a file that comes later does not change what views were compiled for.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from belvedere.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.settings import ProjectSettings
from belvedere.store.protocol import EpochRow

COLUMNS = "columns"
"""The name of the document in `EpochRow.extra`."""


def columns_document(catalog: Catalog) -> dict[str, Any]:
    """The found columns of all imported tables, as JSON data by source and table."""
    found: dict[str, Any] = {}
    for table in catalog.inputs.values():
        if table.source is not None and table.source.columns is not None:
            text = base64.b64encode(table.source.columns.serialize().to_pybytes()).decode()
            found.setdefault(table.source.source, {})[table.source.table] = text
    return found


def columns_of(row: EpochRow | None) -> dict[str, dict[str, pa.Schema]]:
    """What `columns_document` wrote into an epoch's row."""
    document: Mapping[str, Mapping[str, str]] = row.extra.get(COLUMNS, {}) if row is not None else {}
    return {s: {t: _schema(text) for t, text in tables.items()} for s, tables in document.items()}


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def with_stored_columns(project: ProjectSettings, url: str) -> ProjectSettings:
    """The project with the columns that the store at `url` has; as it is where there is no store yet, or none that can be read."""
    from belvedere.store import open_reader  # brings the drivers

    with contextlib.suppress(BelvedereError):
        reader = open_reader(url)
        try:
            return project.with_columns(columns_of(reader.last_epoch()))
        finally:
            reader.close()
    return project
