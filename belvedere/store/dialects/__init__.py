"""The databases that can hold a store. Each is one object, found by its name or by a store's URL.

To add one: a module with a subclass of `Database`, a line in `DIALECTS`, the driver among the dependencies.
`tests/store` then runs on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from belvedere.errors import fail
from belvedere.store.dialects.database import Database
from belvedere.store.dialects.faults import without_password
from belvedere.store.dialects.postgres.postgres import Postgres
from belvedere.store.dialects.sqlite.sqlite import Sqlite

DIALECTS: Mapping[str, Database] = {d.name: d for d in (Sqlite(), Postgres())}


def dialects_for(database: str | None) -> Collection[Database]:
    """Return the databases for which a script's reads must be valid: that of its store, or all if the store is not
    known."""
    return DIALECTS.values() if database is None else (DIALECTS[database],)


_HINT = "write sqlite:///file.db, sqlite:// for a temporary file, or postgresql://user@host/database"


def dialect_of(url: str) -> Database:
    """Return the database of a store's URL. Raises B7019 for an unknown kind of URL."""
    for dialect in DIALECTS.values():
        if url.startswith(dialect.urls):
            return dialect
    wrong = f"{without_password(url)} is not the URL of a store" if url.strip() else "the URL of the store is empty"
    raise fail("B7019", wrong, hint=_HINT)
