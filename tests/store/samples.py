"""Tables and rows that the store's tests use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.store import EpochRow, Store, StoredTable, Transaction

COUNTS = StoredTable(
    "Counts",
    Schema((Column("word", pa.string()), Column("number", pa.int64()), Column("share", pa.float64()), Column("at", TIMESTAMP))),
    paths=("_by_word",),
    ranges=("at",),
    indexes=(("word", "number"),),
    meaning="counts",
)

Row = Mapping[str, Any]


def row(key: str, path: int = 0, **values: Any) -> dict[str, Any]:
    """A row of COUNTS."""
    blank = {"word": None, "number": None, "share": None, "at": None}
    return {**blank, **values, "_key": key, "_by_word": path}


def reader(rows: Iterable[Row], table: StoredTable = COUNTS, cut: int | None = None) -> pa.RecordBatchReader:
    """Rows as a stream of batches of at most `cut` rows."""
    found = pa.Table.from_pylist(list(rows), table.arrow)
    return pa.RecordBatchReader.from_batches(table.arrow, found.to_batches(max_chunksize=cut))


def delta(changes: Iterable[tuple[Row, int]], table: StoredTable = COUNTS, cut: int | None = None) -> pa.RecordBatchReader:
    """Weighted rows as a stream."""
    found = pa.Table.from_pylist([{**r, "_weight": w} for r, w in changes], table.arrow_delta)
    return pa.RecordBatchReader.from_batches(table.arrow_delta, found.to_batches(max_chunksize=cut))


def epoch(number: int, **more: Any) -> EpochRow:
    return EpochRow(number, datetime(2020, 1, 1, 8, number % 60, tzinfo=UTC), **more)


def changed(answer: pa.RecordBatchReader) -> list[tuple[dict[str, Any], int]]:
    """A delta as rows and weights, in an order that does not depend on the store."""
    pairs = [(dict(r), r.pop("_weight")) for r in answer.read_all().to_pylist()]
    return sorted((({k: v for k, v in r.items() if k != "_weight"}, w) for r, w in pairs), key=lambda p: (p[0]["_key"], p[1]))


def stored(transaction: Transaction, table: StoredTable = COUNTS) -> dict[str, dict[str, Any]]:
    """All rows by key."""
    return {r["_key"]: r for r in transaction.lookup(table.name, None, None).read_all().to_pylist()}


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
