"""Where views live: one protocol, SQLite and Postgres.

`open_store` gives the one writer of a store, `open_reader` a reader in any process; `belvedere.store.protocol` says what
they do. The drivers are loaded when a store is opened: `check` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from belvedere.store.protocol import EpochRow, Lease, Reader, Store, StoredTable, Transaction

if TYPE_CHECKING:
    from belvedere.store.connect import discard, open_reader, open_store

__all__ = ["EpochRow", "Lease", "Reader", "Store", "StoredTable", "Transaction", "discard", "open_reader", "open_store"]


def __getattr__(name: str) -> Any:
    if name not in ("discard", "open_reader", "open_store"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from belvedere.store import connect

    return getattr(connect, name)
