"""Tables and rows that the store's tests use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP, WEIGHT, Column, Schema
from belvedere.store import EpochRow, Store, StoredTable, Transaction

COUNTS = StoredTable(
    "Counts",
    Schema(
        (
            Column("word", pa.string()),
            Column("number", pa.int64()),
            Column("share", pa.float64()),
            Column("at", TIMESTAMP),
        )
    ),
    ranges=("at",),
    indexes=(("word", "number"),),
    fingerprint="counts",
)

NUMBERED = StoredTable(
    "Numbered",
    Schema((Column("ID", pa.int32(), nullable=False), *COUNTS.schema.columns), ("ID",)),
    ranges=("at",),
    indexes=(("ID",), ("word", "number")),
    fingerprint="numbered",
)
"""Its rows are found by a whole number."""

Row = Mapping[str, Any]


def numbered(key: str, **values: Any) -> dict[str, Any]:
    """A row of NUMBERED."""
    return {"ID": int(key), **row(key, **values)}


def row(key: str, **values: Any) -> dict[str, Any]:
    """A row of COUNTS."""
    blank = {"word": None, "number": None, "share": None, "at": None}
    return {**blank, **values, "_key": key}


def reader(rows: Iterable[Row], table: StoredTable = COUNTS, cut: int | None = None) -> pa.RecordBatchReader:
    """Rows as a stream of batches of at most `cut` rows."""
    found = pa.Table.from_pylist(list(rows), table.arrow)
    return pa.RecordBatchReader.from_batches(table.arrow, found.to_batches(max_chunksize=cut))


def delta(
    changes: Iterable[tuple[Row, int]], table: StoredTable = COUNTS, cut: int | None = None
) -> pa.RecordBatchReader:
    """Weighted rows as a stream."""
    schema = table.arrow.append(pa.field(WEIGHT, pa.int64()))
    found = pa.Table.from_pylist([{**r, WEIGHT: w} for r, w in changes], schema)
    return pa.RecordBatchReader.from_batches(schema, found.to_batches(max_chunksize=cut))


def epoch(number: int, **more: Any) -> EpochRow:
    return EpochRow(number, datetime(2020, 1, 1, 8, number % 60, tzinfo=UTC), **more)


def stored(transaction: Transaction, table: StoredTable = COUNTS) -> dict[str, dict[str, Any]]:
    """All rows by key."""
    return {r["_key"]: r for r in transaction.lookup(table.name).read_all().to_pylist()}


def filled(store: Store, rows: Iterable[Row], number: int = 1, table: StoredTable = COUNTS) -> None:
    """Commit an epoch that makes the table and appends the rows."""
    store.create([table])
    transaction = store.begin()
    transaction.append(table.name, reader(rows, table))
    transaction.commit(epoch(number))


def code(error: BelvedereError) -> str:
    """The code of the only diagnostic."""
    (diagnostic,) = error.diagnostics
    assert diagnostic.message[0].islower()
    assert not diagnostic.message.endswith(".")
    return diagnostic.code
