"""A store on a session: its own tables, the lease, epochs, documents, and the stored tables with their fingerprints.

In: a `Session`. Out: the `Store` of the protocol. It holds everything that the dialects share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from threading import Lock, RLock
from typing import Any, TypeVar
from uuid import uuid4

from belvedere.errors import fail
from belvedere.store.definitions import epoch_from_values, epoch_to_values
from belvedere.store.dialects import dialect_of
from belvedere.store.dialects.session import Session
from belvedere.store.identity import IDENTITY, new_identity
from belvedere.store.layout import Layout
from belvedere.store.migrations import Migration, pending, refuse_other_format
from belvedere.store.protocol import CHUNK_BYTES, EpochRow, Lease, Reader, Transaction
from belvedere.store.public_views import ShownView
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import (
    DOCUMENT,
    EPOCH,
    FORMAT,
    FORMAT_OF,
    LAST_EPOCH,
    LEASE,
    STATEMENTS,
    TAKE_LEASE,
    WRITTEN_BY,
    set_documents,
)
from belvedere.store.write.table_swap import Replacement
from belvedere.store.write.tables import Tables
from belvedere.store.write.transaction import EpochTransaction
from belvedere.store.write.views import Views
from belvedere.values.instants import instant, microseconds

V = TypeVar("V")
EPOCHS_KEPT = 1000
"""Number of epoch rows kept for people to read. Belvedere itself needs only the last one."""
MIGRATION_SECONDS = 3600.0
"""Maximum seconds for which the lease of a migration is valid. It ends with its transaction."""


class DatabaseStore:
    """The `Store` of every dialect; see `belvedere.store.open_store`."""

    def __init__(self, session: Session, *, migrate: bool = False):
        self._session = session
        self.migrated: tuple[Migration, ...] = ()
        self.dialect = session.dialect.name
        self.url = session.url
        self._lock = RLock()
        self._lease: Lease | None = None
        self._seconds = 0.0
        """Seconds for which the lease is valid after each renewal."""
        self._renewing = Lock()
        self._tables = Tables(session)
        self._views = Views(session)
        self._layouts_before = self._tables.layouts
        self._transaction: EpochTransaction | None = None
        self._replacement: Replacement | None = None
        """Tables that the current epoch drops and creates, if it writes late."""
        self._closed = False
        self._prepare(migrate)
        self._tables.load()

    def _prepare(self, migrate: bool) -> None:
        """Create the store's own tables.

        Upgrade tables of an earlier version, or refuse them; refuse those of a newer version.
        """
        self._session.begin()
        try:
            for statement in (*self._session.dialect.first_start, *STATEMENTS):
                self._session.execute(statement)
            found = self.document(FORMAT_OF)
            if found is None:
                self._note_format()
                self.set_document(IDENTITY, new_identity().text)
            elif migrate and (steps := pending(found)):
                found = self._bring_up(steps)
            self._session.commit()
        except BaseException:
            self._session.rollback()
            raise
        refuse_other_format(found, self.document(WRITTEN_BY))

    def _bring_up(self, steps: tuple[Migration, ...]) -> str:
        """Run the steps to the present format, under a lease that ends with the transaction, and return the resulting
        format."""
        owner = f"migration {uuid4().hex}"
        self._take_lease(self._session, owner, MIGRATION_SECONDS)
        for step in steps:
            step.apply(self._session)
        self._note_format()
        self._session.execute(f"DELETE FROM {LEASE} WHERE owner = ?", (owner,))
        self.migrated = steps
        return FORMAT

    def _note_format(self) -> None:
        self.set_document(FORMAT_OF, FORMAT)
        self.set_document(WRITTEN_BY, version("belvedere"))

    # --- the lease ---

    @property
    def renews_alone(self) -> bool:
        return self._session.alone() is not self._session

    def acquire(self, owner: str, seconds: float) -> Lease:
        return self._leased(lambda session: self._take_lease(session, owner, seconds), seconds)

    def regain(self, owner: str, seconds: float) -> Lease:
        self._lease, self._seconds = Lease(owner, instant(0)), seconds
        return self.renew()

    def renew(self) -> Lease:
        return self._leased(self._prolong, self._seconds)

    def holder(self) -> str | None:
        found = self._session.execute(f"SELECT owner, expires_at, process FROM {LEASE}")
        held = bool(found) and found[0][1] > self._session.now() and not self._session.gone(found[0][2])
        return str(found[0][0]) if held else None

    def verify_lease(self) -> None:
        if self._lease:
            self._refuse_loser(self._session.alone().execute(f"SELECT owner FROM {LEASE}"))

    def _leased(self, work: Callable[[Session], Lease], seconds: float) -> Lease:
        """Take or extend the lease, in a transaction of its own unless the database's only writer is in an epoch.

        A connection of its own waits for no epoch: another thread can renew the lease during a commit.
        """
        session = self._session.alone()
        with self._lock if session is self._session else self._renewing:
            inside = session is self._session and self._transaction is not None
            if not inside:
                session.begin()
            try:
                lease = work(session)
            except BaseException:
                if not inside:
                    session.rollback()
                raise
            if not inside:
                session.commit()
            self._lease, self._seconds = lease, seconds
            return lease

    def _prolong(self, session: Session) -> Lease:
        """Extend the lease. If another owner has had it in the meantime, it is lost: raises B7007."""
        assert self._lease is not None
        self._refuse_loser(session.execute(f"SELECT owner FROM {LEASE}{session.dialect.for_update}"))
        expires = session.now() + round(self._seconds * 1_000_000)
        session.execute(f"UPDATE {LEASE} SET expires_at = ?, process = ?", (expires, session.process()))
        return Lease(self._lease.owner, instant(expires))

    def _take_lease(self, session: Session, owner: str, seconds: float) -> Lease:
        if session.dialect.for_lease is not None:
            session.execute(session.dialect.for_lease)
        now = session.now()
        found = session.execute(f"SELECT owner, expires_at, process FROM {LEASE}")
        if found:
            holder, expires, process = found[0]
            if holder != owner and expires > now and not session.gone(process):
                raise fail(
                    "B7006",
                    f'the store is in use by runner "{holder}" until {instant(expires).isoformat(timespec="seconds")}',
                    hint="stop the other runner, wait until then, or choose another --store;"
                    " `belvedere run --standby` waits and takes over",
                    detail=process,
                )
        expires = now + round(seconds * 1_000_000)
        session.execute(TAKE_LEASE, (owner, expires, session.process()))
        return Lease(owner, instant(expires), str(found[0][0]) if found and found[0][0] != owner else None)

    def _keep_renewal(self) -> None:
        """Repeat a renewal that was rolled back.

        SQLite has one writer, so a renewal during an epoch is part of the epoch's transaction.
        """
        if self._lease and self._session.alone() is self._session:
            expires = microseconds(self._lease.expires_at)
            self._session.execute(f"UPDATE {LEASE} SET expires_at = ? WHERE owner = ?", (expires, self._lease.owner))

    def release(self, owner: str) -> None:
        with self._lock:
            self._session.alone().execute(f"DELETE FROM {LEASE} WHERE owner = ?", (owner,))
            if self._lease and self._lease.owner == owner:
                self._lease = None

    def _check_lease(self) -> None:
        """Check inside the transaction that no other runner has taken the lease."""
        found = self._session.execute(
            f"SELECT owner, expires_at, process FROM {LEASE}{self._session.dialect.for_update}"
        )
        if not self._lease:
            if found and found[0][1] > self._session.now() and not self._session.gone(found[0][2]):
                raise fail(
                    "B7006", f'the store is in use by runner "{found[0][0]}"', hint="stop the other runner first"
                )
            return
        self._refuse_loser(found)
        if self._session.alone() is self._session:  # no thread renews it during an epoch
            self._lease = self._prolong(self._session)

    def _refuse_loser(self, found: Sequence[Sequence[Any]]) -> None:
        """Raise B7007 if the lease that was found is not this store's any more."""
        assert self._lease is not None
        if not found or found[0][0] != self._lease.owner:
            taker = f'runner "{found[0][0]}" has it' if found else "no runner holds it"
            raise fail(
                "B7007",
                f"this runner lost its lease on the store: {taker}",
                hint="the epoch was not committed; start again with --standby, or when the other runner has ended",
            )

    # --- epochs ---

    def last_epoch(self) -> EpochRow | None:
        rows = self._session.execute(LAST_EPOCH)
        return epoch_from_values(rows[0]) if rows else None

    def other_clock(self) -> int | None:
        return self._session.other_clock()

    def begin(self, chunk_bytes: int = CHUNK_BYTES) -> Transaction:
        with self._lock:
            if self._transaction is not None:
                raise fail("B7024", "an epoch is already under way", hint="commit it or roll it back first")
            self._layouts_before = self._tables.layouts
            own = self._tables.layout, self._commit_epoch, self._finish, self._alone
            transaction = EpochTransaction(self._session, *own, chunk_bytes)
            if transaction.is_late:
                self._replacement = Replacement(self._session, self._tables, self._views)
            else:
                transaction.open()
            self._transaction = transaction
            return transaction

    def _alone(self, work: Callable[[], V], as_owner: bool) -> V:
        """Run work in a transaction beside the epoch's.

        `as_owner`: no other process can take the lease meanwhile. Raises B7007 if one has.
        """
        session = self._session.alone()
        if session is self._session:
            return work()
        with self._renewing:
            session.begin()
            try:
                if as_owner and self._lease:
                    self._refuse_loser(session.execute(f"SELECT owner FROM {LEASE}{session.dialect.for_update}"))
                done = work()
                session.commit()
            except BaseException:
                session.rollback()
                raise
            return done

    def _commit_epoch(self, row: EpochRow) -> None:
        with self._lock:
            if self._replacement is not None and self._replacement.is_needed:
                self._session.patiently(self._replacement.finish)
            self._check_lease()
            last = self._session.execute(f"SELECT max(epoch) FROM {EPOCH}")[0][0]
            if row.epoch != last + 1 if last is not None else row.epoch not in (0, 1):
                said = f"the last one is {last}" if last is not None else "the store has none yet"
                raise fail(
                    "B7008",
                    f"epoch {row.epoch} cannot follow: {said}",
                    hint="the store is the authority: resume from its last epoch",
                )
            values = epoch_to_values(row, instant(self._session.now()))
            self._session.execute(f"INSERT INTO {EPOCH} VALUES (?, ?, ?, ?)", values)
            self._session.execute(f"DELETE FROM {EPOCH} WHERE epoch <= ?", (row.epoch - EPOCHS_KEPT,))
            self._session.commit()
            self._transaction = self._replacement = None
            if self._tables.aside:
                self._tables.aside.clear()
                self._tables.load()

    def _finish(self, committed: bool) -> None:
        with self._lock:
            if committed:
                return
            begun = self._transaction is not None and self._transaction.is_begun
            self._transaction = self._replacement = None
            self._tables.aside.clear()
            self._tables.layouts = self._layouts_before
            if begun:
                self._session.rollback()
            self._keep_renewal()

    # --- tables ---

    def tables(self) -> tuple[StoredTable, ...]:
        return tuple(layout.table for layout in self._tables.layouts.values())

    def create(self, tables: Sequence[StoredTable]) -> None:
        layouts = self._tables.changed(tables)
        if self._replacement is not None:
            self._in_transaction([partial(self._replacement.create, layouts)] if layouts else [])
            return
        fresh = [w.table for w in layouts if w.table.name not in self._tables.layouts]
        hide = [partial(self._views.hide, fresh)] if fresh else []
        self._in_transaction([*hide, *(partial(self._make, w) for w in layouts)])

    def _make(self, layout: Layout) -> None:
        for statement in self._tables.make(layout):
            self._session.execute(statement)

    def drop(self, names: Sequence[str]) -> None:
        going = [self._tables.layouts[n] for n in names if n in self._tables.layouts]
        if self._replacement is not None:
            self._in_transaction([partial(self._replacement.drop, going)] if going else [])
            return
        hide = [partial(self._views.hide, [g.table for g in going])] if going else []
        self._in_transaction([*hide, *(partial(self._tables.drop, g) for g in going)])

    def show(self, views: Sequence[ShownView]) -> None:
        if self._replacement is not None:
            self._replacement.show(views)
            return
        self._in_transaction([partial(self._views.show, views)])

    def _in_transaction(self, work: Sequence[Callable[[], None]]) -> None:
        """Run all work in the epoch's transaction if one is open, else in a new one; then reload the tables."""
        with self._lock:
            if not work:
                return
            own = self._transaction is None
            if self._transaction is not None:
                self._transaction.open()
            else:
                self._session.begin()
            try:
                if own and self._lease:
                    self._check_lease()
                self._session.patiently(partial(_all, work))
                if own:
                    self._session.commit()
            except BaseException:
                if own:
                    self._session.rollback()
                    self._tables.load()
                raise
            self._tables.load()

    # --- documents and the rest ---

    def set_document(self, name: str, text: str) -> None:
        self.set_documents({name: text})

    def set_documents(self, documents: Mapping[str, str]) -> None:
        with self._lock:
            if not documents:
                return
            values = [v for name, text in documents.items() for v in (name, self._session.dialect.escape(text))]
            keep = partial(self._session.execute, set_documents(len(documents)), values)
            if self._transaction is not None:
                self._transaction.open()
                keep()
            elif self._lease:
                self._under_lease(keep)
            else:
                keep()

    def _under_lease(self, work: Callable[[], object]) -> None:
        """Run work in a transaction of its own, unless the lease was lost: the new owner's document may be newer."""
        self._session.begin()
        try:
            self._check_lease()
            work()
            self._session.commit()
        except BaseException:
            self._session.rollback()
            raise

    def document(self, name: str) -> str | None:
        rows = self._session.execute(f"SELECT content FROM {DOCUMENT} WHERE name = ?", (name,))
        return self._session.dialect.unescape(str(rows[0][0])) if rows else None

    def reader(self) -> Reader:
        return dialect_of(self.url).reader(self.url)

    def size(self) -> Mapping[str, tuple[int, int]]:
        return self._tables.sizes()

    def close(self, gives_back: bool = True) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._transaction is not None:
                self._transaction.rollback()
            try:
                if self._lease and gives_back:
                    self.release(self._lease.owner)
            finally:
                self._session.close()


def _all(work: Sequence[Callable[[], None]]) -> None:
    for step in work:
        step()
