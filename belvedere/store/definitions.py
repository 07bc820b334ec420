"""Stored tables and epoch rows as text, for the store's own tables.

In: `StoredTable`, `EpochRow`. Out: JSON text, and the values back. Arrow types are written as Arrow's own IPC schema,
which preserves every type. This module runs no SQL.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from belvedere.errors import fail
from belvedere.schema import Column, Schema
from belvedere.store.protocol import EpochRow
from belvedere.store.stored_table import StoredTable
from belvedere.values.instants import instant, microseconds


def table_to_text(table: StoredTable) -> str:
    """Return a table's definition as JSON."""
    columns = [{"name": c.name, "nullable": c.nullable, "hidden": c.hidden, "doc": c.doc} for c in table.schema.columns]
    types = pa.schema([pa.field(str(i), c.type) for i, c in enumerate(table.schema.columns)])
    content = {
        "name": table.name,
        "columns": columns,
        "types": base64.b64encode(types.serialize().to_pybytes()).decode(),
        "key": table.schema.key,
        "ranges": table.ranges,
        "indexes": table.indexes,
        "meaning": table.fingerprint,
        "order": table.order,
        "query": table.query,
    }
    return json.dumps(content, ensure_ascii=True)


def table_from_text(text: str) -> StoredTable:
    """Parse the text of `table_to_text`."""
    content = json.loads(text)
    types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["types"])))
    columns = tuple(Column(type=types.field(i).type, **c) for i, c in enumerate(content["columns"]))
    key = None if content["key"] is None else tuple(content["key"])
    indexes = tuple(tuple(i) for i in content["indexes"])
    schema = Schema(columns, key)
    order = tuple((str(name), bool(down), bool(first)) for name, down, first in content["order"])
    return StoredTable(
        content["name"], schema, tuple(content["ranges"]), indexes, content["meaning"], order, content["query"]
    )


def same_definition(stored: StoredTable, requested: StoredTable) -> bool:
    """Return whether `stored` and `requested` have the same rows: the same definition, columns and types."""
    return stored.fingerprint == requested.fingerprint and _columns(stored) == _columns(requested)


def _columns(table: StoredTable) -> list[tuple[str, pa.DataType]]:
    return [(c.name, c.type) for c in table.schema.columns]


def epoch_to_values(row: EpochRow, now: datetime) -> tuple[int, int, str, int]:
    """Return an epoch row as the epoch table stores it: epoch, clock, JSON, time of commit."""
    content = {"offsets": dict(row.offsets), "bounds": dict(row.bounds), "extra": dict(row.extra)}
    try:
        text = json.dumps(content, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise fail("B7012", f"the documents of epoch {row.epoch} are not JSON", detail=str(error)) from error
    return row.epoch, microseconds(row.clock), text, microseconds(row.committed_at or now)


def epoch_from_values(values: tuple[Any, ...]) -> EpochRow:
    """Parse the values of `epoch_to_values`."""
    epoch, clock, text, committed = values
    content: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return EpochRow(epoch, instant(clock), content["offsets"], content["bounds"], content["extra"], instant(committed))
