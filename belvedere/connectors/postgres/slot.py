"""One replication slot for all imported tables of a source: each transaction reaches the views complete, in one epoch.

In: the tables' feeds, their offsets. Out: `Batch`es: the changes of each table up to a position of the log.

The slot is peeked at, and advanced after the epoch's row with the position is committed. It is never ahead of the
store; a slot that is ahead was read by another client. The catalog is read after the log: a table that is unchanged
then was unchanged for the whole log. If the log does not contain a change, the whole table is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg

from belvedere.connectors.connector import NoteStore
from belvedere.connectors.postgres.followed_table import Followed
from belvedere.connectors.postgres.owned_slot import OwnedSlot
from belvedere.connectors.postgres.position import LogPosition, LogState, TransactionSnapshot
from belvedere.connectors.postgres.publication import left_publication, published, with_place
from belvedere.connectors.postgres.server import Server
from belvedere.connectors.postgres.tables import Table, in_quotes, keyless
from belvedere.connectors.postgres.transaction_changes import Batch, TableChanges
from belvedere.connectors.postgres.wal import LoggedTransaction, transactions
from belvedere.errors import BelvedereError

MAX_CHANGES = 100_000
"""Maximum number of messages that are read at once; a transaction is read completely."""
IDLE_BYTES = 16 << 20
"""Bytes of log without changes of these tables after which an epoch without rows advances the slot.

The server can then discard that log.
"""


class SlotReader:
    """The slot of a source, for the tables of one run."""

    def __init__(self, server: Server, let_go: Callable[[], None], notes: NoteStore | None = None):
        self.server, self._let_go = server, let_go
        self.tables: dict[str, Followed] = {}
        self.slot = OwnedSlot(server, notes)
        self._now: dict[str, Table] = {}
        self._log: LogState | None = None
        self._asked: datetime | None = None
        self._answer: Batch | BelvedereError | None = None
        self._left: set[str] = set()
        """Tables that have not committed the batch yet."""
        self._limit: int | None = None
        self._first: psycopg.Connection[Any] | None = None

    def add(self, table: Followed) -> None:
        """Add a table of the script."""
        self.tables[table.name] = table

    def look(self, now: datetime, once: bool) -> Batch | None:
        """Return the new changes of all tables; all tables' feeds get the same batch."""
        if now != self._asked:
            self._asked = now
            try:
                self._answer = self._next(once)
            except BelvedereError as error:
                self._answer = error
            self._left = set(self.tables) if isinstance(self._answer, Batch) else set()
        if isinstance(self._answer, BelvedereError):
            raise self._answer
        return self._answer

    def _next(self, once: bool) -> Batch | None:
        if self._log is None:
            self._see()
        start = self._begin()
        is_known = any(t.position is not None for t in self.tables.values())
        found, to, is_cut = self._transactions(start, once) if is_known else ([], start, False)
        self._see()
        self._find_whole(found)
        is_new = any(t.position is None or t.whole for t in self.tables.values())
        snapshot = self._begin_first() if is_new else None
        if snapshot is not None:
            found, to = _below_first(found, start, to, snapshot)
        changes = self._by_table(found)
        if is_new or is_cut or any(c.rows or c.is_emptied for c in changes.values()) or to - start >= IDLE_BYTES:
            whole = {n: t.whole or "" for n, t in self.tables.items() if t.position is None or t.whole}
            notices = {n: self._notices(t) for n, t in self.tables.items()}
            last = (found[-1].end, found[-1].xid) if found else self._last(start)
            return Batch(to, changes, snapshot, whole, notices, last)
        return None

    # -- present state ------------------------------------------------------------------------------------------------

    def _see(self) -> None:
        """Read the state of the server, the publication and the tables.

        Raises B6101, B6223 to B6225 if the positions are invalid.
        """
        now = self.server.states(self.tables)
        for name in self.tables.keys() - now.keys():
            raise self.server.no_table(name, self.server.tables())
        for table in now.values():
            if not table.keys:
                raise keyless(self.server.source, table)
        publication, self._now = published(self.server, now)
        self._log = LogState(*self.server.system(), self.server.slot, publication)
        for followed in self.tables.values():
            self._compare(followed, self._log, self._now[followed.name])

    def _compare(self, followed: Followed, log: LogState, now: Table) -> None:
        """Compare a position with the log: one in another slot does not count, and one in another log is lost."""
        position = followed.position
        if position is None or followed.whole:
            return
        before = position.log
        if before.slot != log.slot:
            followed.whole = f'it is read by another slot, "{log.slot}"'
        elif before.system != log.system:
            raise self.server.slot_lost("its database is on another server than before")
        elif before.timeline != log.timeline and not self._had_all_of(position.lsn, before, log):
            raise self.server.slot_lost("its server replaced one with a longer log")
        elif before.publication != log.publication:
            raise self.server.slot_lost(f'the publication "{self.server.publication}" was changed or recreated')
        elif position.table.oid == now.state.oid and position.table.published != now.state.published:
            raise left_publication(self.server, followed.name)

    def _had_all_of(self, position: int, before: LogState, log: LogState) -> bool:
        """Return whether a server that was promoted had the whole log up to a position."""
        switch = self.server.switch_of(before.timeline, log.timeline)
        return switch is not None and position <= switch

    def _begin(self) -> int:
        """Return the start position, and advance the slot to it.

        After a crash of the server the slot is behind the store.
        """
        known = [t.position.lsn for t in self.tables.values() if t.position is not None and not t.whole]
        confirmed = self.slot.confirmed(is_known=bool(known))
        if not known:
            return confirmed
        start = max(known)
        if start > self.server.flushed():
            raise self.server.slot_lost("the log of its server ends before the position that the store has read")
        if confirmed > start:
            raise self.server.slot_lost(f'the slot "{self.server.slot}" was read by another client, or was recreated')
        for table in self.tables.values():  # a table that was not in the script for a while
            if table.position is not None and not table.whole and table.position.lsn < start:
                table.whole = "the slot has skipped changes of it"
        if confirmed < start:
            self._compare_last(confirmed, start)
            self.server.advance(start)
        return start

    def _last(self, start: int) -> tuple[int, int] | None:
        """Return the last transaction that the store has read up to a position."""
        read = (t.position.last for t in self.tables.values() if t.position is not None and t.position.lsn == start)
        return next(read, None)

    def _compare_last(self, confirmed: int, start: int) -> None:
        """Detect a server restored from a copy of its data: it has the same numbers, but another log since then."""
        last = self._last(start)
        read = last if last is not None and last[0] > confirmed else None
        if self.server.last_transaction(start) != read:
            raise self.server.slot_lost(
                "its log is not the one that the store has read: the server was restored from a copy"
            )

    def _transactions(self, start: int, once: bool) -> tuple[list[LoggedTransaction], int, bool]:
        """Return the transactions after a position, their end, and whether there are more."""
        to = self.server.flushed()
        if once:
            self._limit = self._limit or to
            to = min(to, self._limit)
        most = MAX_CHANGES
        while to > start:
            try:
                messages = self.server.changes(to, most)
            except BelvedereError:
                self._see()  # a better error: servers before 18 cannot read with a missing publication
                raise
            found = [t for t in transactions(data for _, data in messages) if start < t.end <= to]
            if len(messages) < most:
                return found, to, False
            if found:
                return found, found[-1].end, True
            most *= 2  # all of them are behind the position
        return [], start, False

    # -- changes outside the log --------------------------------------------------------------------------------------

    def _find_whole(self, found: list[LoggedTransaction]) -> None:
        """Record the tables that must be read completely, because they or their log differ from the stored rows'
        source."""
        for table in self.tables.values():
            now = self._now[table.name]
            attnums = table.attnums(now)
            if table.position is not None and not table.whole:
                table.whole = table.read_whole_because(now, attnums)
            table.begin(now)
        followed = self._followed()
        for transaction in found:
            for change in transaction.changes:
                known = followed.get(change.relation.oid)
                if known is None or not self._is_new(known, transaction):
                    continue
                if unknown := known.unknown(change):
                    known.whole = unknown
                    del followed[change.relation.oid]

    def _followed(self) -> dict[int, Followed]:
        """Return the tables whose changes are read from the log, by their numbers."""
        return {t.position.table.oid: t for t in self.tables.values() if t.position is not None and not t.whole}

    @staticmethod
    def _is_new(table: Followed, transaction: LoggedTransaction) -> bool:
        """Return whether the store does not have a transaction's changes of a table."""
        position = table.position
        assert position is not None
        return transaction.end > position.lsn and not (
            position.snapshot is not None and position.snapshot.saw(transaction)
        )

    def _by_table(self, found: list[LoggedTransaction]) -> dict[str, TableChanges]:
        changes, followed = {name: TableChanges() for name in self.tables}, self._followed()
        for transaction in found:
            for change in transaction.changes:
                table = followed.get(change.relation.oid)
                if table is not None and self._is_new(table, transaction):
                    changes[table.name].take(table.key_places, *table.rows_of(change))
        return changes

    def _notices(self, table: Followed) -> tuple[str, ...]:
        name = f'"{table.name}" of source "{self.server.source}"'
        columns = ", ".join(map(in_quotes, table.gained(self._now[table.name].state)))
        found = (f"table {name} has new columns that the script does not declare: {columns}",) if columns else ()
        return (*found, f"table {name} is read completely: {table.whole}") if table.whole else found

    # -- the first read -----------------------------------------------------------------------------------------------

    def _begin_first(self) -> TransactionSnapshot:
        """Begin the transaction in which tables are read, all as of one moment.

        The tables are locked first: a rewritten table looks empty to a transaction that began before.
        """
        self.end_first()
        names = [n for n, t in self.tables.items() if t.position is None or t.whole]
        self._first = self.server.connect()
        with self.server.explaining_failures():
            self._first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for name in names:
                self._first.execute(f"LOCK TABLE {self._now[name].quoted} IN ACCESS SHARE MODE")
            text = "SELECT pg_current_snapshot()::text, (pg_current_wal_insert_lsn() - '0/0')::int8"
            ((snapshot, position),) = self._first.execute(text).fetchall()
        self.server.flush(int(position))
        for name, table in self.server.states(names, self._first).items():
            seen = self._now[name].state
            self._now[name] = with_place(table, seen.published, seen.moved)
            self.tables[name].attnums(self._now[name])
        return TransactionSnapshot.of_text(snapshot, int(position))

    @property
    def first(self) -> psycopg.Connection[Any]:
        """Return the connection of the first read's transaction."""
        assert self._first is not None
        return self._first

    def now(self, name: str) -> Table:
        """Return a table as the last look has seen it."""
        return self._now[name]

    def end_first(self) -> None:
        """End the first read, whether or not the new tables were read."""
        if self._first is not None:
            self._first.close()
            self._first = None

    # -- commits ------------------------------------------------------------------------------------------------------

    def after(self, name: str, batch: Batch) -> LogPosition:
        """Return the position of the table after a batch."""
        table, now = self.tables[name], self._now[name]
        assert self._log is not None
        known = None if name in batch.whole else table.position
        snapshot = batch.snapshot if known is None else known.snapshot
        return LogPosition(
            batch.to, self._log, now.state, table.attnums(now), table.types, table.key, snapshot, batch.last
        )

    def committed(self, name: str, batch: Batch) -> None:
        """Record that a table's rows are in the store. After all tables' rows are, advance the slot."""
        table = self.tables[name]
        table.position, table.whole = self.after(name, batch), None
        self._left.discard(name)
        if not self._left:
            self.end_first()
            with contextlib.suppress(BelvedereError):  # the next epoch does
                self.server.advance(batch.to)

    def leave(self, table: str) -> None:
        """Remove a table whose feed is closed."""
        self.tables.pop(table, None)
        if not self.tables:
            self.close()

    def close(self) -> None:
        """Close the connection to the server."""
        self.end_first()
        self.slot.close()
        self.server.close()
        self._let_go()


def _below_first(
    found: list[LoggedTransaction], start: int, to: int, snapshot: TransactionSnapshot
) -> tuple[list[LoggedTransaction], int]:
    """Return the transactions before the first one that a first read has not seen, and their end.

    The next epoch reads the later ones, after the rows of the first read are stored.
    """
    for place, transaction in enumerate(found):
        if not snapshot.saw(transaction):
            return found[:place], found[place - 1].end if place else start
    return found, to
