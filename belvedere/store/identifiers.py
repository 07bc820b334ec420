"""Names of relations and columns in the store, and their quoting in SQL.

In: names of the catalog, any unicode. Out: the same names if both databases accept them, else a shortened or marked
name with a hash. SQLite and Postgres share one rule, so a name never depends on the store.
"""

from __future__ import annotations

import hashlib

from belvedere.schema import OWN_TABLES

MAX_NAME_BYTES = 63
"""Maximum bytes of UTF-8 of a name in Postgres, which silently cuts longer ones."""

SYSTEM = OWN_TABLES
RECORDS = frozenset({f"{SYSTEM}files", f"{SYSTEM}rejected", f"{SYSTEM}spans", f"{SYSTEM}retried"})
"""Tables of the store with rows for people: which input was read, and which rows were rejected.

They have these names in the database.
"""

_RESERVED_COLUMNS = frozenset(
    {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "rowid", "oid", "_rowid_"}
    | {"true", "false"}  # SQLite renames a column of a subquery that has one of these names
)
_RESERVED_PREFIXES = ("sqlite_", SYSTEM)


def stored_name(name: str) -> str:
    """Return the name of a relation or column in the store.

    It is unchanged unless a database would reject or cut it.
    """
    folded = name.lower()
    if name in RECORDS:
        return name
    plain = name and "\0" not in name and not folded.startswith(_RESERVED_PREFIXES) and folded not in _RESERVED_COLUMNS
    if plain and len(name.encode()) <= MAX_NAME_BYTES:
        return name
    mark = "~" + hashlib.sha256(name.encode()).hexdigest()[:12]
    kept = name.replace("\0", "").encode()[: MAX_NAME_BYTES - len(mark) - 1].decode(errors="ignore")
    return f".{kept}{mark}"


def quoted(name: str) -> str:
    """Quote a name as an SQL identifier, unchanged."""
    return '"' + name.replace('"', '""') + '"'


def identifier(name: str) -> str:
    """Return a relation's or column's name as an SQL identifier: `stored_name`, quoted."""
    return quoted(stored_name(name))


def index_name(table: str, columns: tuple[str, ...]) -> str:
    """Return a deterministic name for an index of these columns. In SQLite, indexes and tables share a namespace."""
    text = "\0".join((table, *columns))
    return f"{SYSTEM}{hashlib.sha256(text.encode()).hexdigest()[:32]}"
