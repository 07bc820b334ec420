"""Changes of a table by transactions.

In: rows of the log that were inserted, deleted, or both. Out: rows by weight in order. A large value that an update did
not change is taken from the row before, or is a `StoredValue` if the store has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from belvedere.connectors.postgres.position import TransactionSnapshot
from belvedere.connectors.postgres.wal import Row, Unchanged, Value

Key = tuple[Value, ...]


@dataclass(frozen=True)
class StoredValue:
    """A value that the store has: the same column of the row that had a key before all these changes."""

    key: Key


ArrivedRow = tuple[Value | StoredValue, ...]
"""A row of a table. For a deleted row only the key is used."""


@dataclass
class TableChanges:
    """Changes of a table: rows by weight in order; `is_emptied`: all earlier rows are deleted."""

    rows: list[tuple[int, ArrivedRow]] = field(default_factory=list)
    is_emptied: bool = False
    last: dict[Key, ArrivedRow | None] = field(default_factory=dict)
    """The last of these rows of each key, None if it was deleted.

    It supplies large values that an update did not change.
    """

    def take(self, key: Sequence[int], old: Row | None, new: Row | None) -> None:
        """Add an inserted row, a deleted row, or both; `key` has the indexes of the key's columns."""
        if old is None and new is None:
            self.rows.clear()
            self.last.clear()
            self.is_emptied = True
            return
        before = _key(key, new if old is None else old)
        known = self.last.get(before)
        if old is not None and (new is None or before != _key(key, new)):
            self.rows.append((-1, old))
            self.last[before] = None
        if new is None:
            return
        row: ArrivedRow = new
        if Unchanged.VALUE in new:
            row = tuple(_value(n, old, known, place, before) for place, n in enumerate(new))
        self.rows.append((1, row))
        self.last[before if old is None else _key(key, new)] = row


def _key(places: Sequence[int], row: Row | None) -> Key:
    assert row is not None
    return tuple([row[k] for k in places])


def _value(new: Value, old: Row | None, known: ArrivedRow | None, place: int, key: Key) -> Value | StoredValue:
    if new is not Unchanged.VALUE:
        return new
    if old is not None and old[place] is not Unchanged.VALUE:
        return old[place]
    return StoredValue(key) if known is None else known[place]


@dataclass(frozen=True)
class Batch:
    """New changes up to position `to`: changes by table, and tables that are read completely in an open transaction.

    If a table was read before, `whole` has the reason for reading it again.
    """

    to: int
    changes: Mapping[str, TableChanges]
    snapshot: TransactionSnapshot | None = None
    whole: Mapping[str, str] = field(default_factory=dict)
    """Tables to read completely, with the reason; it is empty for a first read."""
    notices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    last: tuple[int, int] | None = None
    """The last transaction up to `to`: its end, and its number."""
