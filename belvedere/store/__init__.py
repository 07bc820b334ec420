"""Where views live: one protocol, and a database of each dialect behind it.

`open_store` gives the one writer of a store, `open_reader` a reader in any process; `belvedere.store.protocol` says what
they do. The drivers are loaded when a store is opened: `check` needs none.
"""

from __future__ import annotations

from pathlib import Path

from belvedere.store.dialects import dialect_of
from belvedere.store.protocol import AnsweringReader, EpochRow, Lease, LoopReader, Reader, Store, StoredTable, Transaction

__all__ = [
    "AnsweringReader", "EpochRow", "Lease", "LoopReader", "Reader", "Store", "StoredTable", "Transaction",
    "discard", "file_of", "located", "open_reader", "open_served_reader", "open_store",
]  # fmt: skip


def open_store(url: str) -> Store:
    """Open the store for writing, making it where it is missing.

    `sqlite://` makes a temporary file: its path is in the store's `url`, it can be opened again by that URL, and it is
    removed when this process ends. Raises diagnostics B7001 (cannot be opened), B7002 (damaged), B7004 (locked), B7005
    (Postgres cannot be reached), B7016 (made by another version), B7018, B7019 (no such kind of URL).
    """
    from belvedere.store.write.database import DatabaseStore

    session = dialect_of(url).session(url)
    try:
        return DatabaseStore(session)
    except BaseException:
        session.close()
        raise


def open_reader(url: str, seconds: float | None = None) -> Reader:
    """Open an existing store for reading; in the process that writes it too.

    A statement that takes more than `seconds` ends with B7086 (not through the library of the process that writes SQLite).
    """
    return dialect_of(url).reader(url, seconds)


def open_served_reader(url: str, seconds: float | None, connections: int) -> AnsweringReader:
    """As `open_reader`, for a process that does nothing but answer requests: one of a server reads on its event loop (`LoopReader`)."""
    return dialect_of(url).served_reader(url, seconds, connections)


def discard(url: str) -> None:
    """Delete a closed store's files: for tests and workbenches that are done with a temporary one."""
    for path in dialect_of(url).files(url):
        path.unlink(missing_ok=True)


def file_of(url: str) -> Path | None:
    """The file that a store's URL names; None for a store on a server."""
    return dialect_of(url).file(url)


def located(url: str, folder: Path) -> str:
    """A store's URL out of a project file in `folder`: a relative file lies there."""
    return dialect_of(url).located(url, folder)
