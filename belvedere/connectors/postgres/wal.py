"""The messages of Postgres' plugin pgoutput (protocol 1), as transactions with their changes.

In: messages in the order of the log (PostgreSQL, "Logical Replication Message Formats"). Out: transactions in commit
order; those that were rolled back never occur. Values are bytes of their texts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Unchanged(Enum):
    """Value that the log does not contain: a large value that an update did not change, or a non-key column of a
    deleted row."""

    VALUE = 0


_NONE, _UNCHANGED = b"nu"
Value = bytes | None | Unchanged
Row = tuple[Value, ...]


@dataclass(frozen=True)
class LoggedTable:
    """A table as the log describes it: names and types of its columns, and the columns that identify a row."""

    oid: int
    schema: str
    name: str
    columns: tuple[tuple[str, int], ...]
    keys: tuple[bool, ...] = ()
    identity: str = "d"
    """Replica identity: how deleted rows are logged: by their key, by the columns of an index, or completely."""

    def key_of(self, row: Row) -> Row:
        """Return the row with its key alone."""
        return tuple(v if is_key else Unchanged.VALUE for v, is_key in zip(row, self.keys, strict=True))


class RowChange(NamedTuple):
    """An inserted row (`new`), a deleted row (`old`), or both for an update; neither for TRUNCATE.

    `old` may have its key alone.
    """

    relation: LoggedTable
    old: Row | None = None
    new: Row | None = None
    is_insert: bool = False


@dataclass
class LoggedTransaction:
    """The changes of a transaction; `end` is the position after it."""

    xid: int
    end: int = 0
    changes: list[RowChange] = field(default_factory=list)


class _MessageBytes:
    def __init__(self, data: bytes):
        self.data, self.at = data, 1

    def take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return found

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end].decode(errors="replace")  # a database in SQL_ASCII may have any name
        self.at = end + 1
        return found

    def row(self) -> Row:
        data, at = self.data, self.at + 2
        found = list[Value]()
        for _ in range(int.from_bytes(data[self.at : at])):
            kind, at = data[at], at + 1
            if kind == _NONE:
                found.append(None)
            elif kind == _UNCHANGED:
                found.append(Unchanged.VALUE)
            else:
                start = at + 4
                at = start + int.from_bytes(data[at:start])
                found.append(data[start:at])
        self.at = at
        return tuple(found)

    def kind(self) -> bytes:
        self.at += 1
        return self.data[self.at - 1 : self.at]


def transactions(messages: Iterable[bytes]) -> Iterator[LoggedTransaction]:
    """Return the transactions of messages."""
    relations: dict[int, LoggedTable] = {}
    begun = LoggedTransaction(0)
    for data in messages:
        part = _MessageBytes(data)
        match data[:1]:
            case b"B":
                _, _, xid = part.take(">QQI")
                begun = LoggedTransaction(xid)
            case b"C":
                _, _, begun.end, _ = part.take(">BQQQ")
                yield begun
            case b"R":
                relation = _relation(part)
                relations[relation.oid] = relation
            case b"I":
                part.at = 6
                begun.changes.append(RowChange(relations[int.from_bytes(data[1:5])], None, part.row(), True))
            case b"U":
                (oid,) = part.take(">I")
                old, kind = None, part.kind()
                if kind in (b"K", b"O"):
                    old = part.row() if kind == b"O" else relations[oid].key_of(part.row())
                    part.kind()
                begun.changes.append(RowChange(relations[oid], old, part.row()))
            case b"D":
                (oid,) = part.take(">I")
                kind = part.kind()
                row = part.row() if kind == b"O" else relations[oid].key_of(part.row())
                begun.changes.append(RowChange(relations[oid], old=row))
            case b"T":
                count, _ = part.take(">IB")
                begun.changes += [RowChange(relations[oid]) for oid in part.take(f">{count}I")]


def _relation(part: _MessageBytes) -> LoggedTable:
    (oid,) = part.take(">I")
    schema, name = part.text(), part.text()
    identity, count = part.take(">BH")
    columns, keys = [], []
    for _ in range(count):
        (flags,) = part.take(">B")
        keys.append(bool(flags & 1))
        column = part.text()
        type_, _ = part.take(">Ii")
        columns.append((column, type_))
    return LoggedTable(oid, schema, name, tuple(columns), tuple(keys), chr(identity))
