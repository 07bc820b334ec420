"""From a URL to a store or a reader.

In: `sqlite://` (a temporary file), `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://...`. Out: a `Store` or
`Reader`, or a diagnostic that says what is wrong with the URL or the place that it names.
"""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path

from belvedere.errors import fail
from belvedere.store.database import DatabaseStore
from belvedere.store.faults import without_password
from belvedere.store.libraries import ADBC, closed, is_open, opened
from belvedere.store.protocol import Reader, Store
from belvedere.store.sqlite_reader import AdbcReader, FileReader
from belvedere.store.sqlite_session import SqliteSession
from belvedere.temporary import temporary_folder

_SQLITE = "sqlite:"
_POSTGRES = ("postgresql://", "postgres://")
_URLS = "write sqlite:///file.db, sqlite:// for a temporary file, or postgresql://user@host/database"


def open_store(url: str) -> Store:
    """Open the store for writing, making it where it is missing.

    `sqlite://` makes a temporary file: its path is in the store's `url`, it can be opened again by that URL, and it is
    removed when this process ends. Raises diagnostics B7001 (cannot be opened), B7002 (damaged), B7004 (locked), B7005
    (Postgres cannot be reached), B7016 (made by another version), B7018, B7019 (no such kind of URL).
    """
    if url.startswith(_POSTGRES):
        from belvedere.store.postgres_session import PostgresSession

        return DatabaseStore(PostgresSession(url))
    path = _temporary() if url == "sqlite://" else sqlite_path(url)
    return _open_sqlite(path, durable=url != "sqlite://")


def open_reader(url: str, seconds: float | None = None) -> Reader:
    """Open an existing store for reading; in the process that writes it too.

    A statement that takes more than `seconds` ends with B7086 (not through the library of the process that writes SQLite).
    """
    if url.startswith(_POSTGRES):
        from belvedere.store.postgres_reader import PostgresReader

        return PostgresReader(url, seconds)
    path = sqlite_path(url)
    return AdbcReader(path, url) if is_open(ADBC, path) else FileReader(path, url, seconds)


def sqlite_path(url: str) -> Path:
    """The file that a `sqlite:///` URL names, absolute."""
    if not url.startswith(_SQLITE + "///") or len(url) == len(_SQLITE + "///"):
        raise fail("B7019", f"no store has the URL {without_password(url)}", hint=_URLS)
    return Path(url.removeprefix(_SQLITE + "///")).absolute()


def _open_sqlite(path: Path, durable: bool) -> Store:
    if not path.parent.is_dir():
        raise fail("B7001", f"the folder {path.parent} of the store does not exist", hint="make it, or give another --store")
    if path.is_dir():
        raise fail("B7001", f"the store {path} is a folder", hint="name a file in it, such as sqlite:///store.db")
    opened(ADBC, path)
    try:
        return _SqliteStore(SqliteSession(path, f"sqlite:///{path}", durable))
    except BaseException:
        closed(ADBC, path)
        raise


class _SqliteStore(DatabaseStore):
    """A SQLite store, which notes that its file is closed."""

    def __init__(self, session: SqliteSession):
        self._path = session.path
        try:
            super().__init__(session)
        except BaseException:
            session.close()
            raise

    def close(self) -> None:
        was_open = not self._closed
        super().close()
        if was_open:
            closed(ADBC, self._path)


def _temporary() -> Path:
    folder = temporary_folder("store-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "store.db"


def discard(url: str) -> None:
    """Delete a closed SQLite store's files: for tests and workbenches that are done with a temporary one."""
    path = sqlite_path(url)
    if is_open(ADBC, path):
        raise fail("B7004", f"the store {path} is still open", hint="close it first")
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
