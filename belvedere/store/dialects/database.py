"""A dialect that opens the stores of its database: connections, and copies of a whole store.

In: a store's URL. Out: a writing session, readers, snapshots. What is SQL stays in `belvedere.store.dialects.dialect`.
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
    """One kind of database: its dialect, and the ways into it."""

    urls: ClassVar[tuple[str, ...]]
    """How the URLs of its stores begin."""

    # connections

    @abstractmethod
    def session(self, url: str) -> Session:
        """The writing connection of the store, which is made where it is missing."""

    @abstractmethod
    def reader(self, url: str, seconds: float | None = None) -> Reader:
        """A reader of a store that is there."""

    def served_reader(self, url: str, seconds: float | None, connections: int) -> AnsweringReader:
        """Return a reader for an API process, with at most `connections` connections if it reads on the event loop."""
        return self.reader(url, seconds)

    # copies

    @abstractmethod
    def snapshot(self, url: str) -> Snapshot:
        """The store of one moment, to be copied (`belvedere.store.copies`)."""

    @abstractmethod
    def put_back(self, url: str, folder: Path, documents: Mapping[str, str]) -> None:
        """Make the store from a snapshot's files, with other documents."""

    @abstractmethod
    def check_free(self, url: str) -> None:
        """Raises B7101 where a store is there."""

    def file(self, url: str) -> Path | None:
        """The file that a URL names, absolute; None for a server."""
        return None

    def located(self, url: str, folder: Path) -> str:
        """The URL, in which a relative file is one in the folder."""
        return url

    def files(self, url: str) -> tuple[Path, ...]:
        """The files of a closed store; none for a server."""
        return ()
