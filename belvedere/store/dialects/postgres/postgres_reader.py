"""Readers of a Postgres store.

In: SELECTs of one statement each, so that each sees one epoch. Out: Python rows, or Arrow in the catalog's types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.postgres.postgres_connect import ERRORS, connect
from belvedere.store.dialects.postgres.postgres_rows import python_rows, selected
from belvedere.store.dialects.postgres.postgres_settings import holding
from belvedere.store.dialects.reader import PooledReader
from belvedere.store.layout import Layout


class PostgresReader(PooledReader):
    """The `Reader` of a Postgres database."""

    errors = ERRORS
    may_die = True

    def __init__(self, dialect: Dialect, url: str, settings: Sequence[str]):
        super().__init__(dialect, url, lambda: connect(dialect, url, settings))
        self.last_epoch()

    def run(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, tuple(parameters) or None)
            return python_rows(cursor.fetch_arrow_table())

    def hold(self, connection: Any, layouts: Sequence[Layout]) -> None:
        """Lock tables against replacement.

        A table that takes another one's name would appear empty in this snapshot, since its rows came later.
        """
        if names := [la.name for la in layouts if la.table.name]:
            self.run(connection, holding(names), ())

    def flat(self, connection: Any, layout: Layout, where: str) -> Iterator[pa.RecordBatch]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {layout.column_list} FROM {layout.name} AS t{where}")
            yield from selected(layout, cursor.fetch_record_batch())
