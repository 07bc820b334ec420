"""A dialect that opens the stores of its database: connections, and backups of a whole store.

In: a store's URL. Out: a writing session, readers, snapshots. SQL belongs in `belvedere.store.dialects.dialect`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.session import Session
from belvedere.store.protocol import AnsweringReader, Reader, Snapshot


class Database(Dialect):
    """One kind of database: its dialect, and the ways to open it."""

    urls: ClassVar[tuple[str, ...]]
    """Prefixes of the URLs of its stores."""

    # connections

    @abstractmethod
    def session(self, url: str) -> Session:
        """Open the writing connection of the store, and create the store if it does not exist."""

    @abstractmethod
    def reader(self, url: str, seconds: float | None = None) -> Reader:
        """Open a reader of an existing store."""

    def served_reader(self, url: str, seconds: float | None, connections: int) -> AnsweringReader:
        """Return a reader for an API process, with at most `connections` connections if it reads on the event loop."""
        return self.reader(url, seconds)

    # copies

    @abstractmethod
    def snapshot(self, url: str) -> Snapshot:
        """Open a snapshot of the store at one moment, for a backup (`belvedere.store.copies`)."""

    @abstractmethod
    def put_back(self, url: str, folder: Path, documents: Mapping[str, str]) -> None:
        """Create the store from a snapshot's files, with other documents."""

    @abstractmethod
    def check_free(self, url: str) -> None:
        """Raise B7101 if a store exists."""

    def file(self, url: str) -> Path | None:
        """Return the absolute path of the file that a URL names, or None for a server."""
        return None

    def located(self, url: str, folder: Path) -> str:
        """Return the URL with a relative file resolved against the folder."""
        return url

    def files(self, url: str) -> tuple[Path, ...]:
        """Return the files of a closed store; empty for a server."""
        return ()
