"""A whole store at one moment, copied into a folder and put back from it.

In: a store's URL, a folder. Out: the database's part of a backup: what its tables hold, in files of the database's own form, so that a
copy is put back into the same kind of database. The state of operators and the journal of pushes are for `belvedere.backups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from belvedere.store.dialects import dialect_of
from belvedere.store.protocol import Snapshot


def snapshot(url: str) -> Snapshot:
    """The store now. Raises B7001 and B7005 where it is not there, B7014 where it has no tables yet."""
    return dialect_of(url).snapshot(url)


def put_back(url: str, folder: Path, documents: Mapping[str, str]) -> None:
    """Create the store from the files of a snapshot, with other `documents`, completely or not at all.

    Raises B7101 if the store exists already.
    """
    dialect_of(url).put_back(url, folder, documents)


def check_free(url: str) -> None:
    """Raises B7101 where a store is there already."""
    dialect_of(url).check_free(url)
