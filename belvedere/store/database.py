"""A store on a session: its own tables, the lease, epochs, documents, and what is stored under which meaning.

In: a `Session`. Out: the `Store` of the protocol. It holds everything that SQLite and Postgres share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock

from belvedere.errors import fail
from belvedere.instants import instant, microseconds
from belvedere.store.identifiers import quoted, stored_name
from belvedere.store.layout import Layout
from belvedere.store.protocol import CHUNK_BYTES, EpochRow, Lease, Reader, StoredTable, Transaction
from belvedere.store.registry import (
    epoch_from_values,
    epoch_to_values,
    same_meaning,
    table_from_text,
    table_to_text,
)
from belvedere.store.session import Session
from belvedere.store.system import DOCUMENT, EPOCH, FORMAT, LAST_EPOCH, LEASE, STATEMENTS, TABLE, TAKE_LEASE, document_text
from belvedere.store.transaction import EpochTransaction

EPOCHS_KEPT = 1000
"""Epoch rows that stay for people to look at; only the last one matters."""


class DatabaseStore:
    """The `Store` of both databases; see `belvedere.store.open_store`."""

    def __init__(self, session: Session):
        self._session = session
        self.dialect = session.dialect
        self.url = session.url
        self._lock = RLock()
        self._lease: Lease | None = None
        self._layouts: dict[str, Layout] = {}
        self._layouts_before = self._layouts
        self._transaction: EpochTransaction | None = None
        self._closed = False
        self._prepare()
        self._load()

    def _prepare(self) -> None:
        """Make the store's own tables; refuse what a newer version wrote."""
        self._session.begin()
        try:
            if self.dialect == "postgres":  # two first starts at once would collide
                self._session.execute("SELECT pg_advisory_xact_lock(7240511)::text")
            for statement in STATEMENTS:
                self._session.execute(statement)
            found = self.document("_format")
            if found is None:
                self.set_document("_format", FORMAT)
            self._session.commit()
        except BaseException:
            self._session.rollback()
            raise
        if found not in (None, FORMAT):
            raise fail(
                "B7016",
                f"the store has the format {found}, this version reads {FORMAT}",
                hint="give another --store, or upgrade",
            )

    def _load(self) -> None:
        rows = self._session.execute(f"SELECT definition FROM {TABLE} ORDER BY place")
        tables = [table_from_text(str(r[0])) for r in rows]
        self._layouts = {t.name: Layout(self.dialect, t) for t in tables}

    # --- the lease ---

    def acquire(self, owner: str, seconds: float) -> Lease:
        session = self._session.alone()
        with self._lock:
            inside = session is self._session and self._transaction is not None
            if not inside:
                session.begin()
            try:
                lease = self._take_lease(session, owner, seconds)
            except BaseException:
                if not inside:
                    session.rollback()
                raise
            if not inside:
                session.commit()
            self._lease = lease
            return lease

    def _take_lease(self, session: Session, owner: str, seconds: float) -> Lease:
        if self.dialect == "postgres":  # the row may not be there to be locked
            session.execute(f"LOCK TABLE {LEASE} IN EXCLUSIVE MODE")
        now = session.now()
        found = session.execute(f"SELECT owner, expires_at, process FROM {LEASE}")
        if found:
            holder, expires, process = found[0]
            if holder != owner and expires > now and not session.gone(process):
                raise fail(
                    "B7006",
                    f'the store is in use by runner "{holder}" until {instant(expires).isoformat(timespec="seconds")}',
                    hint="end the other runner, wait until then, or give another --store",
                    detail=process,
                )
        expires = now + round(seconds * 1_000_000)
        session.execute(TAKE_LEASE, (owner, expires, session.process()))
        return Lease(owner, instant(expires))

    def _keep_renewal(self) -> None:
        """SQLite has one writer: a renewal during an epoch was part of it, and was undone with it."""
        if self._lease and self._session.alone() is self._session:
            expires = microseconds(self._lease.expires_at)
            self._session.execute(f"UPDATE {LEASE} SET expires_at = ? WHERE owner = ?", (expires, self._lease.owner))

    def release(self, owner: str) -> None:
        with self._lock:
            self._session.alone().execute(f"DELETE FROM {LEASE} WHERE owner = ?", (owner,))
            if self._lease and self._lease.owner == owner:
                self._lease = None

    def _check_lease(self) -> None:
        """Inside the transaction: nobody else may have taken the lease since we had it."""
        lock = " FOR UPDATE" if self.dialect == "postgres" else ""
        found = self._session.execute(f"SELECT owner, expires_at, process FROM {LEASE}{lock}")
        if not self._lease:
            if found and found[0][1] > self._session.now() and not self._session.gone(found[0][2]):
                raise fail("B7006", f'the store is in use by runner "{found[0][0]}"', hint="end the other runner first")
            return
        if not found or found[0][0] != self._lease.owner:
            taker = f'runner "{found[0][0]}" has it' if found else "nobody has it"
            raise fail(
                "B7007",
                f"this runner lost its lease on the store: {taker}",
                hint="the epoch was not committed; start again when no other runner works on the store",
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
            self._session.begin()
            self._layouts_before = self._layouts
            self._transaction = EpochTransaction(self._session, self._layout, self._commit_epoch, self._finish, chunk_bytes)
            return self._transaction

    def _commit_epoch(self, row: EpochRow) -> None:
        with self._lock:
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
            self._session.execute(f"INSERT INTO {EPOCH} VALUES (?, ?, ?, ?, ?, ?)", values)
            self._session.execute(f"DELETE FROM {EPOCH} WHERE epoch <= ?", (row.epoch - EPOCHS_KEPT,))
            self._session.commit()
            self._transaction = None

    def _finish(self, committed: bool) -> None:
        with self._lock:
            if committed:
                return
            self._transaction = None
            self._layouts = self._layouts_before
            self._session.rollback()
            self._keep_renewal()

    # --- tables ---

    def _layout(self, name: str) -> Layout:
        found = self._layouts.get(name)
        if found is None:
            raise fail("B7014", f'there is no stored table "{name}"', hint="create it before the epoch that writes it")
        return found

    def tables(self) -> tuple[StoredTable, ...]:
        return tuple(layout.table for layout in self._layouts.values())

    def create(self, tables: Sequence[StoredTable]) -> None:
        wanted = [Layout(self.dialect, t) for t in tables]
        self._check_names(wanted)
        for layout in wanted:
            stored = self._layouts.get(layout.table.name)
            if stored and not same_meaning(stored.table, layout.table):
                raise fail(
                    "B7009",
                    f'the stored table "{layout.table.name}" has another meaning than before',
                    hint="drop it and build it again, or give another --store",
                )
        changed = [w for w in wanted if self._layouts.get(w.table.name) != w]
        if changed:
            self._in_transaction(self._create, changed)

    def _check_names(self, wanted: Sequence[Layout]) -> None:
        names: dict[str, str] = {stored_name(n).casefold(): n for n in self._layouts}
        for layout in wanted:
            name = layout.table.name
            other = names.setdefault(stored_name(name).casefold(), name)
            if other != name:
                raise fail("B7017", f'the stored tables "{other}" and "{name}" differ in case only', hint="rename one of them")
            seen: dict[str, str] = {}
            for field, column in zip(layout.arrow, layout.columns, strict=True):
                if (other := seen.setdefault(column.casefold(), field.name)) != field.name:
                    raise fail("B7017", f'the columns "{other}" and "{field.name}" of "{name}" differ in case only')
            if len(seen) < len(layout.columns):
                raise fail(
                    "B7017", f'a column of the stored table "{name}" is there twice', hint="give each column its own name"
                )

    def _create(self, layout: Layout) -> None:
        stored = self._layouts.get(layout.table.name)
        if stored is None:
            self._session.execute(layout.create())
        before = set(stored.indexes()) if stored else set()
        indexes = layout.indexes()
        for name in before - set(indexes):
            self._session.execute(f"DROP INDEX IF EXISTS {quoted(name)}")
        for name, statement in indexes.items():
            if name not in before:
                self._session.execute(statement)
        self._register(layout)

    def _register(self, layout: Layout) -> None:
        name, text = stored_name(layout.table.name), table_to_text(layout.table)
        known = self._session.execute(f"SELECT 1 FROM {TABLE} WHERE name = ?", (name,))
        if known:
            self._session.execute(f"UPDATE {TABLE} SET definition = ? WHERE name = ?", (text, name))
        else:
            place = self._session.execute(f"SELECT coalesce(max(place), 0) + 1 FROM {TABLE}")[0][0]
            self._session.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?)", (name, text, place))

    def drop(self, names: Sequence[str]) -> None:
        known = [self._layouts[n] for n in names if n in self._layouts]
        if known:
            self._in_transaction(self._drop, known)

    def _drop(self, layout: Layout) -> None:
        self._session.execute(f"DROP TABLE IF EXISTS {layout.name}")
        self._session.execute(f"DELETE FROM {TABLE} WHERE name = ?", (stored_name(layout.table.name),))

    def _in_transaction(self, work: Callable[[Layout], None], layouts: Sequence[Layout]) -> None:
        """Do `work` in the epoch's transaction where one is open, else in its own; afterwards the tables are read anew."""
        with self._lock:
            own = self._transaction is None
            if own:
                self._session.begin()
            try:
                for layout in layouts:
                    work(layout)
                if own:
                    self._session.commit()
            except BaseException:
                if own:
                    self._session.rollback()
                    self._load()
                raise
            self._load()

    # --- documents and the rest ---

    def set_document(self, name: str, text: str) -> None:
        stored = document_text(self.dialect, text)
        with self._lock:
            self._session.execute(
                f"INSERT INTO {DOCUMENT} VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content",
                (name, stored),
            )

    def document(self, name: str) -> str | None:
        rows = self._session.execute(f"SELECT content FROM {DOCUMENT} WHERE name = ?", (name,))
        return document_text(self.dialect, str(rows[0][0]), back=True) if rows else None

    def reader(self) -> Reader:
        return self._session.reader()

    def size(self) -> Mapping[str, tuple[int, int]]:
        names = {layout.table.name: stored_name(layout.table.name) for layout in self._layouts.values()}
        sizes = self._session.bytes_of(tuple(names.values()))
        return {
            name: (int(self._session.execute(f"SELECT count(*) FROM {quoted(stored)}")[0][0]), sizes[stored])
            for name, stored in names.items()
        }

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._transaction is not None:
                self._transaction.rollback()
            try:
                if self._lease:
                    self.release(self._lease.owner)
            finally:
                self._session.close()
