"""Names in the store: what a relation or column is called there, and how SQL quotes it.

In: names of the catalog, any unicode. Out: the same names wherever both databases take them, else a shortened or marked
name with a hash. One rule for SQLite and Postgres, so that a name never depends on the store.
"""

from __future__ import annotations

import hashlib

from belvedere.schema import OWN_TABLES

MAX_NAME_BYTES = 63
"""Bytes of UTF-8 that Postgres keeps of a name; it cuts longer ones silently."""

SYSTEM = OWN_TABLES
RECORDS = frozenset({f"{SYSTEM}files", f"{SYSTEM}rejected", f"{SYSTEM}spans", f"{SYSTEM}retried"})
"""Tables of the store with rows for people: what was read, and what was rejected. They have these names in the database."""

_RESERVED_COLUMNS = frozenset(
    {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "rowid", "oid", "_rowid_"}
    | {"true", "false"}  # SQLite calls a column of a subquery otherwise that has one of these names
)
_RESERVED_PREFIXES = ("sqlite_", SYSTEM)


def stored_name(name: str) -> str:
    """The name of a relation or column in the store: itself, unless a database would refuse or cut it."""
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
    """A name as an SQL identifier, as it is."""
    return '"' + name.replace('"', '""') + '"'


def identifier(name: str) -> str:
    """A relation's or column's name as an SQL identifier: `stored_name`, quoted."""
    return quoted(stored_name(name))


def index_name(table: str, columns: tuple[str, ...]) -> str:
    """A name for an index, the same for the same table and columns; an index shares its names with tables in SQLite."""
    text = "\0".join((table, *columns))
    return f"{SYSTEM}{hashlib.sha256(text.encode()).hexdigest()[:32]}"
