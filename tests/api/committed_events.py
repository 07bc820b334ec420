"""Epochs with events, for the tests of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from belvedere.store import EpochRow, StoredTable, open_store

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
Commit = Callable[..., None]


def committing(
    url: str,
    tables: Mapping[str, StoredTable],
    events: tuple[str, ...],
    row: Callable[[str, int, int], Mapping[str, Any]],
) -> Iterator[Commit]:
    """A function that commits an epoch with a row of each table for each value; `row` gives it for a table, a number
    and the value."""
    store = open_store(url)
    store.create(list(tables.values()))
    store.acquire("test", 600)
    number, epoch = 1, 0

    def run(*values: int) -> None:
        nonlocal number, epoch
        transaction = store.begin()
        for name, table in tables.items():
            given = [row(name, n, a) for n, a in enumerate(values, number)]
            rows = [{c: found.get(c) for c in table.arrow.names} for found in given]
            transaction.append(name, pa.Table.from_pylist(rows, schema=table.arrow).to_reader())
        number += len(values)
        transaction.commit(EpochRow(epoch, NOON, extra={"sequences": dict.fromkeys(events, number)}))
        epoch += 1

    yield run
    store.close()
