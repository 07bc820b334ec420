"""Readers of a Postgres store.

In: SELECTs of one statement each, so that each sees one epoch. Out: Python rows, or Arrow in the catalog's types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

from belvedere.errors import BelvedereError
from belvedere.store.as_of import AsOf, held
from belvedere.store.faults import guarded, is_transient
from belvedere.store.layout import Layout
from belvedere.store.pool import Pool
from belvedere.store.postgres_connect import ERRORS, connect
from belvedere.store.postgres_rows import numbered, selected
from belvedere.store.protocol import EpochRow, StoredTable
from belvedere.store.registry import epoch_from_values
from belvedere.store.system import DOCUMENT, LAST_EPOCH, document_text

_SETTINGS = ("SET default_transaction_read_only = on", "SET TimeZone = 'UTC'", "SET jit = off")

Result = TypeVar("Result")


class PostgresReader:
    """The `Reader` of a Postgres database."""

    dialect = "postgres"

    def __init__(self, url: str, seconds: float | None = None):
        self.url = url
        bounded = () if seconds is None else (f"SET statement_timeout = {int(seconds * 1000)}",)
        self._pool = Pool(lambda: connect(url, (*_SETTINGS, *bounded)))
        self.last_epoch()

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        def work(cursor: Any) -> list[tuple[Any, ...]]:
            cursor.execute(sql, tuple(parameters or ()) or None)
            return _python_rows(cursor.fetch_arrow_table())

        return self._with_cursor(work)

    def _with_cursor(self, work: Callable[[Any], Result]) -> Result:
        """Run a SELECT; once more where the connection turns out to be dead: it may have idled through a restart."""
        try:
            return self._once(work)
        except BelvedereError as error:
            if not is_transient(error):
                raise
        self._pool.forget()
        return self._once(work)

    def _once(self, work: Callable[[Any], Result]) -> Result:
        with guarded(self.url, ERRORS), self._pool.lend() as connection, connection.cursor() as cursor:
            return work(cursor)

    def rows(self, table: StoredTable, as_of: AsOf | None = None) -> pa.Table:
        layout = Layout("postgres", table)
        where = "" if as_of is None else f" WHERE {held(as_of, self.dialect)}"

        def work(cursor: Any) -> list[pa.RecordBatch]:
            cursor.execute(f"SELECT {layout.column_list} FROM {layout.name}{where}")
            return list(selected(layout, cursor.fetch_record_batch()))

        return pa.Table.from_batches([layout.restore(b) for b in self._with_cursor(work)], layout.arrow)

    def last_epoch(self) -> EpochRow | None:
        rows = self.execute(LAST_EPOCH)
        return epoch_from_values(rows[0]) if rows else None

    def document(self, name: str) -> str | None:
        rows = self.execute(*numbered(f"SELECT content FROM {DOCUMENT} WHERE name = ?", (name,)))
        return document_text(self.dialect, str(rows[0][0]), back=True) if rows else None

    def close(self) -> None:
        self._pool.close()


def _python_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [_python_values(c) for c in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.OpaqueType) and column.type.type_name == "numeric":
        return [None if v is None else Decimal(v) for v in column.to_pylist()]
    return list(column.to_pylist())
