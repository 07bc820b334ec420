"""Where views live: one protocol, and a database of each dialect behind it.

`open_store` gives the one writer of a store, `open_reader` a reader in any process; `belvedere.store.protocol` says what
they do. The drivers are loaded when a store is opened: `check` needs none.
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
    """Open the store for writing, making it where it is missing.

    `sqlite://` makes a temporary file: its path is in the store's `url`, it can be opened again by that URL, and it is
    removed when this process ends. Raises diagnostics B7001 (cannot be opened), B7002 (damaged), B7004 (locked), B7005
    (Postgres cannot be reached), B7016 (made by a newer version), B7018, B7019 (no such kind of URL), B7027 (made by an earlier version,
    unless `migrate`: then it is brought up to date, or B7006 where another runner uses it).
    """
    from belvedere.store.write.database import DatabaseStore  # loads what writes stores, which readers do not need

    session = dialect_of(url).session(url)
    try:
        return DatabaseStore(session, migrate=migrate)
    except BaseException:
        session.close()
        raise


def migrate_store(url: str) -> tuple[Migration, ...]:
    """Bring a store of an earlier version up to date, in one transaction; the steps that were taken. Nothing is done where none is there.

    Raises B7006 where a runner of the earlier version uses it, B7016 where a newer version made it.
    """
    from belvedere.store.write.database import DatabaseStore  # loads what writes stores, which readers do not need

    if refusal(url, "B7014", "B7027") != "B7027":
        return ()
    session = dialect_of(url).session(url)
    try:
        return DatabaseStore(session, migrate=True).migrated
    finally:
        session.close()


def refusal(url: str, *codes: str) -> str | None:
    """Which of these codes says why a store cannot be read: B7014 where none is there; None where it can. Raises what is none of them."""
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
    """Open an existing store for reading; in the process that writes it too.

    A statement that takes more than `seconds` ends with B7086 (not through the library of the process that writes SQLite). Raises B7016 and
    B7027 where another version made it.
    """
    reader = dialect_of(url).reader(url, seconds)
    try:
        refuse_other_format(reader.document(FORMAT_OF), reader.document(WRITTEN_BY))
    except BaseException:
        reader.close()
        raise
    return reader


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
