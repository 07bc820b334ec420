"""Backup of a whole store at one moment into a folder, and restore from it.

In: a store's URL, a folder. Out: the database's part of a backup: the contents of its tables, in files in the
database's own format. A backup can therefore only be restored into the same kind of database. `belvedere.backups`
handles the state of operators and the journal of pushes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from belvedere.store.dialects import dialect_of
from belvedere.store.protocol import Snapshot


def snapshot(url: str) -> Snapshot:
    """Open a snapshot of the store.

    Raises B7001 and B7005 if the store cannot be opened, B7014 if it has no tables yet.
    """
    return dialect_of(url).snapshot(url)


def put_back(url: str, folder: Path, documents: Mapping[str, str]) -> None:
    """Create the store from the files of a snapshot, with other `documents`, completely or not at all.

    Raises B7101 if the store exists already.
    """
    dialect_of(url).put_back(url, folder, documents)


def check_free(url: str) -> None:
    """Raise B7101 if a store already exists."""
    dialect_of(url).check_free(url)
