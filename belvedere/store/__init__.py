"""The store of views: one protocol, and an implementation per database dialect.

`open_store` returns the single writer of a store, `open_reader` a reader in any process; `belvedere.store.protocol`
defines both. Database drivers are loaded when a store is opened: `check` needs none.
"""

from __future__ import annotations

from pathlib import Path

from belvedere.errors import BelvedereError
from belvedere.store.dialects import dialect_of
from belvedere.store.migrations import Migration, refuse_other_format
from belvedere.store.protocol import AnsweringReader, EpochRow, Lease, LoopReader, Reader, Store, Transaction
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import FORMAT_OF, WRITTEN_BY

__all__ = [
    "AnsweringReader", "EpochRow", "Lease", "LoopReader", "Reader", "Store", "StoredTable", "Transaction",
    "discard", "file_of", "located", "migrate_store", "open_reader", "open_served_reader", "open_store", "refusal",
]  # fmt: skip


def open_store(url: str, *, migrate: bool = False) -> Store:
    """Open the store for writing, and create it if it does not exist.

    `sqlite://` creates a temporary file. Its path is in the store's `url`, which can be opened again, and it is deleted
    when this process ends. Raises diagnostics B7001 (cannot be opened), B7002 (damaged), B7004 (locked), B7005
    (Postgres cannot be reached), B7016 (written by a newer version), B7018, B7019 (unknown kind of URL). Raises B7027
    for a store of an earlier version. With `migrate` it is upgraded instead, or B7006 is raised if another runner uses
    it.
    """
    from belvedere.store.write.database import DatabaseStore  # readers do not need the code that writes

    session = dialect_of(url).session(url)
    try:
        return DatabaseStore(session, migrate=migrate)
    except BaseException:
        session.close()
        raise


def migrate_store(url: str) -> tuple[Migration, ...]:
    """Upgrade a store of an earlier version in one transaction, and return the steps taken.

    Do nothing if no store exists.

    Raises B7006 if a runner of the earlier version uses it, B7016 if a newer version wrote it.
    """
    from belvedere.store.write.database import DatabaseStore  # readers do not need the code that writes

    if refusal(url, "B7014", "B7027") != "B7027":
        return ()
    session = dialect_of(url).session(url)
    try:
        return DatabaseStore(session, migrate=True).migrated
    finally:
        session.close()


def refusal(url: str, *codes: str) -> str | None:
    """Return which of these codes explains why a store cannot be read (B7014: it does not exist), or None if it can be
    read. Other errors are raised."""
    file = file_of(url)
    if file is not None and not file.is_file():
        return "B7014"
    try:
        open_reader(url).close()
    except BelvedereError as error:
        if error.diagnostics[0].code not in codes:
            raise
        return error.diagnostics[0].code
    return None


def open_reader(url: str, seconds: float | None = None) -> Reader:
    """Open an existing store for reading. This also works in the process that writes it.

    A statement that takes more than `seconds` ends with B7086 (not through the library of the process that writes
    SQLite). Raises B7016 and B7027 if another version wrote the store.
    """
    reader = dialect_of(url).reader(url, seconds)
    try:
        refuse_other_format(reader.document(FORMAT_OF), reader.document(WRITTEN_BY))
    except BaseException:
        reader.close()
        raise
    return reader


def open_served_reader(url: str, seconds: float | None, connections: int) -> AnsweringReader:
    """Open a reader as `open_reader` does, for a process that only answers requests.

    A reader of a server runs on the event loop (`LoopReader`).
    """
    return dialect_of(url).served_reader(url, seconds, connections)


def discard(url: str) -> None:
    """Delete the files of a closed store. Tests and workbenches use this for temporary stores."""
    for path in dialect_of(url).files(url):
        path.unlink(missing_ok=True)


def file_of(url: str) -> Path | None:
    """Return the file that a store's URL names, or None for a store on a server."""
    return dialect_of(url).file(url)


def located(url: str, folder: Path) -> str:
    """Return a store's URL from a project file in `folder`. Relative paths are resolved against this folder."""
    return dialect_of(url).located(url, folder)
