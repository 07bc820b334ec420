"""The reader of a SQLite store outside the process that writes it, through Python's interface; and the part shared with
the reader inside.

In: SELECTs of one statement each, so each sees one epoch. Out: Python rows, or Arrow in the catalog's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

import adbc_driver_manager as manager
import pyarrow as pa

from belvedere.errors import fail
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.float32 import SINGLE_DIGITS, shortest_single
from belvedere.store.dialects.reader import PooledReader
from belvedere.store.dialects.sqlite.python_sqlite import library as sqlite
from belvedere.store.dialects.sqlite.sqlite_libraries import PYTHON, closed, opened
from belvedere.store.dialects.sqlite.sqlite_rows import BATCH_ROWS
from belvedere.store.layout import Layout
from belvedere.store.read.shared_sets import SharedSet

BUSY_MILLISECONDS = 5_000
_STEPS = 100_000
"""Number of SQLite's machine steps, about a millisecond, between two checks of the time limit."""


class SqliteReader(PooledReader):
    """A reader through one copy of the SQLite library."""

    errors = (manager.Error, sqlite.Error, OSError)

    def __init__(self, dialect: Dialect, path: Path, url: str, library: str, connect: Callable[[], Any]):
        opened(library, path)
        self._path, self._library = path, library
        super().__init__(dialect, url, connect)

    def make(self, connection: Any, sets: Sequence[SharedSet]) -> None:
        """Create sets as temporary tables, which are in a file of their own. `query_only` would forbid these, too."""
        if not sets:
            return
        self.run(connection, "PRAGMA query_only=OFF", ())
        for one in sets:
            columns, key = ",".join(map(" ".join, one.columns)), ",".join(n for n, _ in one.columns)
            self.run(connection, f"CREATE TEMP TABLE {one.name} ({columns},PRIMARY KEY ({key})) WITHOUT ROWID", ())
            self.run(connection, f"INSERT OR IGNORE INTO temp.{one.name} {one.query}", ())
        self.run(connection, "PRAGMA query_only=ON", ())

    def close(self) -> None:
        if self._pool.close():
            closed(self._library, self._path)


class FileReader(SqliteReader):
    """The reader for every other process: Python's interface, read-only."""

    def __init__(self, dialect: Dialect, path: Path, url: str, seconds: float | None = None):
        if not path.is_file():
            raise fail("B7001", f"there is no store at {path}", hint="create it by `belvedere run`, or correct --store")
        super().__init__(dialect, path, url, PYTHON, lambda: _python_connection(path, seconds))
        try:
            self.last_epoch()
        except BaseException:
            self.close()
            raise

    def run(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        connection.start()
        return list(connection.execute(sql, tuple(parameters)).fetchall())

    def flat(self, connection: Any, layout: Layout, where: str) -> Iterator[pa.RecordBatch]:
        connection.start()
        order = "" if layout.table.query else " ORDER BY rowid"
        cursor = connection.execute(f"SELECT {layout.column_list} FROM {layout.name} AS t{where}{order}")
        while values := cursor.fetchmany(BATCH_ROWS):
            arrays = [_array(c, f.type) for c, f in zip(zip(*values, strict=True), layout.flat, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=layout.flat)


class _Timed(sqlite.Connection):  # type: ignore[misc, name-defined]
    """A connection that interrupts a statement some seconds after `start`."""

    seconds: float | None = None
    _end = 0.0

    def start(self) -> None:
        if self.seconds is not None:
            self._end = monotonic() + self.seconds

    def watch(self, seconds: float | None) -> None:
        self.seconds = seconds
        if seconds is not None:
            self.set_progress_handler(lambda: monotonic() > self._end, _STEPS)


def _python_connection(path: Path, seconds: float | None) -> _Timed:
    connection: _Timed = sqlite.connect(
        f"file:{quote(str(path))}?mode=ro",
        uri=True,
        check_same_thread=False,
        isolation_level=None,
        timeout=BUSY_MILLISECONDS / 1000,
        factory=_Timed,
    )
    connection.execute("PRAGMA query_only=ON")
    connection.create_function("format", 2, _shortest, deterministic=True)
    connection.watch(seconds)
    return connection


def _shortest(form: str, value: float) -> str:
    """Return the fewest digits that represent a double exactly, or a 32-bit float if at most nine digits are
    requested.
    """
    digits = int(form.removeprefix("%!.").removesuffix("g"))
    return repr(value) if digits > SINGLE_DIGITS else shortest_single(value)


def _array(values: Sequence[Any], flat: pa.DataType) -> pa.Array:
    if flat == pa.float64():
        return pa.array([float("nan") if v == "NaN" else v for v in values], flat)
    return pa.array(values, flat)
