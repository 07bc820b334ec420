"""Stores for tests of commands: the tables of a script with given rows, as of one epoch, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.compiler import compile_script
from belvedere.connectors.run_records import FILES, REJECTED
from belvedere.store import EpochRow, StoredTable, open_store

CLOCK = datetime(2024, 2, 29, 12, tzinfo=UTC)
Rows = Sequence[Mapping[str, Any]]


def make_store(url: str, script: Path, rows: Mapping[str, Rows], extra: Mapping[str, Any] | None = None) -> None:
    """The script's public relations, and the store's own. Columns that a row does not give are NULL, or 0 where they
    are hidden.

    What `extra`, of the epoch's row, has as `meanings` are those of the tables; the others have none that a script
    could have.
    """
    catalog = compile_script(script.read_text(encoding="utf-8"), path=script).catalog
    known = {**catalog.inputs, **catalog.views}
    tables, meant = [FILES, REJECTED], (extra or {}).get("meanings", {})
    for id_ in sorted(catalog.public & known.keys()):
        order = tuple((o.expr.name, o.descending, o.nulls_come_first) for o in getattr(known[id_], "order", ()))
        tables.append(StoredTable(id_, known[id_].schema, fingerprint=meant.get(id_, id_), order=order))
    store = open_store(url)
    try:
        store.create(tables)
        transaction = store.begin()
        for table in tables:
            filled = [_filled(table, row, n) for n, row in enumerate(rows.get(table.name, ()))]
            batches = pa.Table.from_pylist(filled, table.arrow).to_batches()
            transaction.append(table.name, pa.RecordBatchReader.from_batches(table.arrow, batches))
        transaction.commit(EpochRow(1, CLOCK, extra=extra or {}))
    finally:
        store.close()


def change_columns(url: str, table: str) -> None:
    """Let the store have another type for the table's first column than its script."""
    store = open_store(url)
    try:
        found = next(t for t in store.tables() if t.name == table)
        first, *others = found.schema.columns
        store.drop([table])
        columns = (replace(first, type=pa.float64()), *others)
        store.create([replace(found, schema=replace(found.schema, columns=columns), fingerprint="changed")])
        store.begin().commit(EpochRow(2, CLOCK))
    finally:
        store.close()


def _filled(table: StoredTable, row: Mapping[str, Any], number: int) -> dict[str, Any]:
    hidden = {c.name: CLOCK if pa.types.is_timestamp(c.type) else number for c in table.schema if c.hidden}
    return {**dict.fromkeys(table.arrow.names), **hidden, "_key": f"{number:05}", **row}
