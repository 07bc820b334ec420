"""One replication slot for all tables that a script imports of a source: transactions reach the views whole, in one epoch.

In: the tables' feeds, their offsets. Out: `Batch`es: what each table's rows become up to a position of the log. The slot is peeked at, and
advanced once the epoch's row has the position: it is never ahead of the store, so that one which is ahead was read by somebody else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from belvedere.connectors.postgres.server import Server, Table, lost_slot
from belvedere.connectors.postgres.wal import Relation, Row, Transaction, Unchanged, Value, transactions
from belvedere.errors import BelvedereError, fail

MOST_CHANGES = 100_000
"""So many messages are read at once; a transaction comes whole."""
IDLE_BYTES = 16 << 20
"""So much of the log without changes of these tables is passed over by an epoch without rows: the server need not keep it."""


@dataclass(frozen=True)
class Snapshot:
    """What a first read has seen: transactions below `xmin`, and below `xmax` those that had ended. `position`: the log's end then."""

    xmin: int
    xmax: int
    running: frozenset[int]
    position: int

    @classmethod
    def of_text(cls, text: str, position: int) -> Snapshot:
        """`xmin:xmax:running,...` as Postgres writes it."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset(), position)

    @property
    def text(self) -> str:
        """As `of_text` takes it."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def saw(self, transaction: Transaction) -> bool:
        """Whether the first read has what the transaction did. (The log has the lower 32 bits of its number.)"""
        if transaction.end > self.position:
            return False
        number = (self.xmax & ~0xFFFFFFFF) | transaction.xid
        number -= 1 << 32 if number > self.xmax + (1 << 31) else 0
        return number < self.xmin or (number < self.xmax and number not in self.running)


@dataclass(frozen=True)
class Position:
    """How far a table was read; `snapshot` until the log is past its first read."""

    lsn: int
    snapshot: Snapshot | None = None

    def as_document(self) -> dict[str, Any]:
        """The position as JSON data."""
        found: dict[str, Any] = {"lsn": self.lsn}
        if self.snapshot is not None and self.snapshot.position > self.lsn:
            found["snapshot"] = {"text": self.snapshot.text, "lsn": self.snapshot.position}
        return found

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Position | None:
        """The position that `as_document` wrote; None for an empty document."""
        if "lsn" not in document:
            return None
        told = document.get("snapshot")
        return cls(int(document["lsn"]), None if told is None else Snapshot.of_text(told["text"], int(told["lsn"])))


Key = tuple[Value, ...]


@dataclass(frozen=True)
class Former:
    """A value that the store has: that of the same column in the row that had a key before all these changes."""

    key: Key


Taken = tuple[Value | Former, ...]
"""A row of a table. Of one that goes only the key counts."""


@dataclass
class TableChanges:
    """What becomes of a table: rows by weight in their order; `is_emptied`: all rows before them go."""

    rows: list[tuple[int, Taken]] = field(default_factory=list)
    is_emptied: bool = False
    last: dict[Key, Taken | None] = field(default_factory=dict)
    """The last of these rows of each key, None where it has gone: large values that an update leaves as they were are there."""

    def take(self, key: Sequence[int], old: Row | None, new: Row | None) -> None:
        """A row that came, went, or both; the places of the key's columns."""
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
        row: Taken = new
        if Unchanged.VALUE in new:
            row = tuple(_value(n, old, known, place, before) for place, n in enumerate(new))
        self.rows.append((1, row))
        self.last[_key(key, new)] = row


def _key(places: Sequence[int], row: Row | None) -> Key:
    assert row is not None
    return tuple(row[k] for k in places)


def _value(new: Value, old: Row | None, known: Taken | None, place: int, key: Key) -> Value | Former:
    if new is not Unchanged.VALUE:
        return new
    if old is not None and old[place] is not Unchanged.VALUE:
        return old[place]
    return Former(key) if known is None else known[place]


@dataclass(frozen=True)
class Batch:
    """What is new up to position `to`: changes by table; tables that are read for the first time in a transaction that is open."""

    to: int
    changes: Mapping[str, TableChanges]
    snapshot: Snapshot | None = None


class SlotReader:
    """The slot of a source, for the tables of one run."""

    def __init__(self, server: Server, let_go: Callable[[], None]):
        self.server, self._let_go = server, let_go
        self.tables: dict[str, Table] = {}
        self.positions: dict[str, Position | None] = {}
        self._asked: datetime | None = None
        self._batch: Batch | None = None
        self._left: set[str] = set()
        """The tables that have not committed the batch yet."""
        self._published: tuple[Any, ...] | None = None
        self._limit: int | None = None
        self._first: psycopg.Connection[Any] | None = None

    def add(self, table: Table, position: Position | None) -> None:
        """A table of the script, and how far the store has it."""
        self.tables[table.name], self.positions[table.name] = table, position

    def look(self, now: datetime, once: bool) -> Batch | None:
        """What is new for all tables: the same answer to all that ask at one moment."""
        if now != self._asked:
            self._asked, self._batch = now, None
            self._batch = self._next(once)
            self._left = set(self.tables) if self._batch is not None else set()
        return self._batch

    def _next(self, once: bool) -> Batch | None:
        known = [p for p in self.positions.values() if p is not None]
        self._check_publication()
        confirmed = self.server.confirmed()
        if not known:
            start = self.server.create_slot() if confirmed is None else confirmed
        else:
            start = max(p.lsn for p in known)
            if confirmed is None:
                raise lost_slot(self.server.source, f'the slot "{self.server.slot}" is not there any more')
            if confirmed > start:
                raise lost_slot(
                    self.server.source, f'somebody else has read the slot "{self.server.slot}", or it was made anew'
                )
        is_new = len(known) < len(self.positions)
        found, to = self._transactions(start, once) if known else ([], start)
        snapshot = self._begin_first() if is_new else None
        if snapshot is not None:
            found, to = _below_first(found, start, to, snapshot)
        changes = self._by_table(found, snapshot)
        if is_new or any(c.rows or c.is_emptied for c in changes.values()) or to - start >= IDLE_BYTES:
            return Batch(to, changes, snapshot)
        return None

    def _transactions(self, start: int, once: bool) -> tuple[list[Transaction], int]:
        """The transactions behind a position, and how far they reach."""
        to = self.server.flushed()
        if once:
            self._limit = self._limit or to
            to = min(to, self._limit)
        if to <= start:
            return [], start
        messages = self.server.changes(to, MOST_CHANGES)
        found = [t for t in transactions(data for _, data in messages) if start < t.end <= to]
        if len(messages) >= MOST_CHANGES and found:
            to = found[-1].end
        return found, to

    def _check_publication(self) -> None:
        """Changes are skipped while a publication is not there, or has a table not: then nothing is sure any more."""
        now = self.server.check_publication(list(self.tables.values()))
        if self._published is not None and now != self._published:
            raise lost_slot(self.server.source, f'the publication "{self.server.publication}" was changed meanwhile')
        self._published = now

    def _by_table(self, found: list[Transaction], snapshot: Snapshot | None) -> dict[str, TableChanges]:
        changes = {name: TableChanges() for name in self.tables}
        for transaction in found:
            for change in transaction.changes:
                relation = change.relation
                if relation.schema != self.server.schema or relation.name not in self.tables:
                    continue
                position = self.positions[relation.name]
                seen = snapshot if position is None else position.snapshot
                if (position is not None and transaction.end <= position.lsn) or (seen is not None and seen.saw(transaction)):
                    continue
                places, key = self._places(relation), self.tables[relation.name].key_places
                old, new = (None if r is None else tuple(r[p] for p in places) for r in (change.old, change.new))
                changes[relation.name].take(key, old, new)
        return changes

    def _places(self, relation: Relation) -> list[int]:
        """Where the table's columns are in rows of the log. Raises B6226 where one is gone or has another type."""
        table, columns = self.tables[relation.name], dict(relation.columns)
        for name, type_ in zip((f.name for f in table.fields), table.types, strict=True):
            if columns.get(name) != type_:
                what = "is gone" if name not in columns else "has another type now"
                raise column_changed(self.server.source, table.name, name, what)
        names = [n for n, _ in relation.columns]
        return [names.index(f.name) for f in table.fields]

    # -- the first read -----------------------------------------------------------------------------------------------

    def _begin_first(self) -> Snapshot:
        """Begin the transaction in which new tables are read: all as of one moment."""
        self.end_first()
        with self.server.told():
            self._first = psycopg.connect(self.server.url, connect_timeout=5, autocommit=True)
            self._first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            text = "SELECT pg_current_snapshot()::text, (pg_current_wal_insert_lsn() - '0/0')::int8"
            ((snapshot, position),) = self._first.execute(text).fetchall()
        return Snapshot.of_text(snapshot, int(position))

    @property
    def first(self) -> psycopg.Connection[Any]:
        """The connection of that transaction."""
        assert self._first is not None
        return self._first

    def end_first(self) -> None:
        """The new tables were read, or nobody will."""
        if self._first is not None:
            self._first.close()
            self._first = None

    # -- commits ------------------------------------------------------------------------------------------------------

    def after(self, table: str, batch: Batch) -> Position:
        """How far the table is read with a batch."""
        known = self.positions[table]
        return Position(batch.to, batch.snapshot if known is None else known.snapshot)

    def committed(self, table: str, batch: Batch) -> None:
        """A table's rows are in the store; after all of them the slot lets go of what is before."""
        self.positions[table] = self.after(table, batch)
        self._left.discard(table)
        if not self._left:
            self.end_first()
            with contextlib.suppress(BelvedereError):  # the next epoch does
                self.server.advance(batch.to)

    def leave(self, table: str) -> None:
        """A table's feed is closed."""
        self.tables.pop(table, None)
        self.positions.pop(table, None)
        if not self.tables:
            self.end_first()
            self.server.close()
            self._let_go()


def column_changed(source: str, table: str, column: str, what: str) -> BelvedereError:
    """The diagnostic B6226."""
    hint = "a new start casts values to the type that the store has; for other columns begin with a new store, which reads the table anew"
    return fail("B6226", f'column "{column}" of table "{table}" {what} in source "{source}"', hint=hint)


def _below_first(found: list[Transaction], start: int, to: int, snapshot: Snapshot) -> tuple[list[Transaction], int]:
    """The transactions before the first that a first read has not seen: the next epoch takes those, over rows that are stored."""
    for place, transaction in enumerate(found):
        if not snapshot.saw(transaction):
            return found[:place], found[place - 1].end if place else start
    return found, to
