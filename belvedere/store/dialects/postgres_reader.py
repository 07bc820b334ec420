"""Readers of a Postgres store.

In: SELECTs of one statement each, so that each sees one epoch. Out: Python rows, or Arrow in the catalog's types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.errors import BelvedereError
from belvedere.store.dialects.faults import is_transient
from belvedere.store.dialects.postgres_connect import ERRORS, connect
from belvedere.store.dialects.postgres_rows import python_rows, selected
from belvedere.store.dialects.reader import PooledReader, Result
from belvedere.store.layout import Layout

if TYPE_CHECKING:
    from belvedere.store.dialects.dialect import Dialect

_SETTINGS = ("SET default_transaction_read_only = on", "SET TimeZone = 'UTC'", "SET jit = off")


class PostgresReader(PooledReader):
    """The `Reader` of a Postgres database."""

    errors = ERRORS

    def __init__(self, dialect: Dialect, url: str, seconds: float | None = None):
        bounded = () if seconds is None else (f"SET statement_timeout = {int(seconds * 1000)}",)
        super().__init__(dialect, url, lambda: connect(dialect, url, (*_SETTINGS, *bounded)))
        self.last_epoch()

    def run(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, tuple(parameters) or None)
            return python_rows(cursor.fetch_arrow_table())

    def flat(self, connection: Any, layout: Layout, where: str) -> list[pa.RecordBatch]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {layout.column_list} FROM {layout.name}{where}")
            return list(selected(layout, cursor.fetch_record_batch()))

    def with_connection(self, work: Callable[[Any], Result]) -> Result:
        """Once more where the connection turns out to be dead: it may have idled through a restart."""
        try:
            return super().with_connection(work)
        except BelvedereError as error:
            if not is_transient(error):
                raise
        self._pool.forget()
        return super().with_connection(work)
