"""Backup of a SQLite store at one moment with SQLite's own backup, and restore.

In: the store's file, in a process that does not write it. Out: `store.db` in a folder. The copy is of one read
transaction: it contains no later commits, and it blocks no other process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from belvedere.errors import fail
from belvedere.process.durable_files import sync_folder
from belvedere.store.definitions import epoch_from_values
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.sqlite.python_sqlite import library as sqlite
from belvedere.store.dialects.sqlite.sqlite_libraries import PYTHON, closed, opened
from belvedere.store.protocol import EpochRow
from belvedere.store.system import DOCUMENT, LAST_EPOCH, LEASE, SET_DOCUMENT

NAME = "store.db"
ERRORS = (sqlite.Error, OSError)
BUSY_SECONDS = 5.0


class SqliteSnapshot:
    """An open read transaction on the store's file."""

    def __init__(self, dialect: Dialect, path: Path, url: str):
        if not path.is_file():
            raise fail("B7001", f"there is no store at {path}", hint="create it by `belvedere run`, or correct --store")
        self._dialect, self._path, self._url = dialect, path, url
        opened(PYTHON, path)
        self._connection: Any = None
        try:
            with dialect.guarded(url, ERRORS):
                self._connection = sqlite.connect(
                    _read_only(path), uri=True, isolation_level=None, timeout=BUSY_SECONDS
                )
                self._connection.execute("BEGIN")
            self._last = self._read_last()  # the first read is where the transaction begins
        except BaseException:
            self.close()
            raise

    def _read_last(self) -> EpochRow | None:
        rows = self._all(LAST_EPOCH)
        return epoch_from_values(rows[0]) if rows else None

    def _all(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._dialect.guarded(self._url, ERRORS):
            return list(self._connection.execute(sql, parameters).fetchall())

    def last_epoch(self) -> EpochRow | None:
        return self._last

    def document(self, name: str) -> str | None:
        rows = self._all(f"SELECT content FROM {DOCUMENT} WHERE name = ?", (name,))
        return self._dialect.unescape(str(rows[0][0])) if rows else None

    def write(self, folder: Path) -> None:
        with self._dialect.guarded(self._url, ERRORS), contextlib.closing(sqlite.connect(folder / NAME)) as target:
            self._connection.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")  # one file
            target.execute(f"DELETE FROM {LEASE}")
            target.commit()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        closed(PYTHON, self._path)


def _read_only(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"


def check_free(path: Path) -> None:
    """Check that the path is free. Raises B7101 if a file exists, B7001 if its folder does not exist."""
    if path.exists():
        raise fail("B7101", f"{path} already contains a store", hint="move it away, or choose another --store")
    if not path.parent.is_dir():
        raise fail(
            "B7001",
            f"the folder {path.parent} of the store does not exist",
            hint="create the folder, or choose another --store",
        )


def put_back(dialect: Dialect, path: Path, url: str, folder: Path, documents: Mapping[str, str]) -> None:
    """Copy the file beside its target, change its documents, and rename it once it is synced to disk."""
    check_free(path)
    part = path.with_name(f".{path.name}.restored")
    try:
        with dialect.guarded(url, ERRORS):
            shutil.copyfile(folder / NAME, part)
            with contextlib.closing(sqlite.connect(part)) as connection:
                for name, text in documents.items():
                    connection.execute(SET_DOCUMENT, (name, dialect.escape(text)))
                connection.commit()
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            for end in ("-wal", "-shm"):  # of an earlier store: they would be taken for this store's files
                Path(f"{path}{end}").unlink(missing_ok=True)
            os.rename(part, path)
            sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)
