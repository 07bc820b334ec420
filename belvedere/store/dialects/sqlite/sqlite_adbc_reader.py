"""The reader of a SQLite store in the process that writes it: through ADBC, as the writer.

API processes never load this driver.

In: SELECTs of one statement each, so each sees one epoch. Out: Python rows, or Arrow in the catalog's types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.sqlite.sqlite_libraries import ADBC
from belvedere.store.dialects.sqlite.sqlite_reader import BUSY_MILLISECONDS, SqliteReader
from belvedere.store.dialects.sqlite.sqlite_rows import BATCH_ROWS, select_statement, selected
from belvedere.store.layout import Layout


class AdbcReader(SqliteReader):
    """The reader for the process that has the store open for writing."""

    def __init__(self, dialect: Dialect, path: Path, url: str):
        super().__init__(dialect, path, url, ADBC, lambda: _adbc_connection(path))

    def run(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            # one batch: a column's type is then inferred from all of its values
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(2**30)})
            cursor.execute(sql, tuple(parameters) or None)
            return list(cursor.fetchall())

    def flat(self, connection: Any, layout: Layout, where: str) -> Iterator[pa.RecordBatch]:
        with connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            cursor.execute(select_statement(layout, f"{layout.name} AS t{where}"))
            yield from selected(layout, cursor.fetch_record_batch())


def _adbc_connection(path: Path) -> Any:
    connection = adbc.connect(str(path), autocommit=True)
    with connection.cursor() as cursor:
        for pragma in (f"busy_timeout={BUSY_MILLISECONDS}", "query_only=ON"):
            cursor.execute(f"PRAGMA {pragma}")
    return connection
