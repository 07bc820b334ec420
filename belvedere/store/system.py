"""The store's own tables: epochs, stored tables, documents and the lease.

In: nothing. Out: SQL that both databases accept, with `?` for parameters.
"""

from __future__ import annotations

from belvedere.store.identifiers import SYSTEM

FORMAT = "7"
"""Format of the store.

It changes if stored forms or these tables change so that an older version would misread them; then
`belvedere.store.migrations` gets a step.
"""
FORMAT_OF = "_format"
"""Name of the document with the store's format."""
WRITTEN_BY = "_written_by"
"""Name of the document with the version of Belvedere that created the store, or last migrated it."""

EPOCH = f"{SYSTEM}epoch"
TABLE = f"{SYSTEM}table"
DOCUMENT = f"{SYSTEM}document"
SHOWN = "_views"
"""Name of the document with the views for other tools: per view its table, and the statements that created it."""
LEASE = f"{SYSTEM}lease"

STATEMENTS = (
    f"CREATE TABLE IF NOT EXISTS {EPOCH} (epoch BIGINT PRIMARY KEY, clock BIGINT NOT NULL, "
    "content TEXT NOT NULL, committed_at BIGINT NOT NULL)",
    f"CREATE TABLE IF NOT EXISTS {TABLE} (name TEXT PRIMARY KEY, definition TEXT NOT NULL, place BIGINT NOT NULL)",
    f"CREATE TABLE IF NOT EXISTS {DOCUMENT} (name TEXT PRIMARY KEY, content TEXT NOT NULL)",
    f"CREATE TABLE IF NOT EXISTS {LEASE} (one INTEGER PRIMARY KEY, owner TEXT NOT NULL, expires_at BIGINT NOT NULL, "
    "process TEXT NOT NULL)",
)

TAKE_LEASE = (
    f"INSERT INTO {LEASE} VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE "
    "SET owner = excluded.owner, expires_at = excluded.expires_at, process = excluded.process"
)


def set_documents(count: int) -> str:
    """Return the statement that stores `count` documents; its parameters are their names and contents."""
    rows = ", ".join(["(?, ?)"] * count)
    return f"INSERT INTO {DOCUMENT} VALUES {rows} ON CONFLICT (name) DO UPDATE SET content = excluded.content"


SET_DOCUMENT = set_documents(1)

LAST_EPOCH = f"SELECT epoch, clock, content, committed_at FROM {EPOCH} ORDER BY epoch DESC LIMIT 1"
