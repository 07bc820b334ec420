"""One epoch's changes: look-ups and changes of stored tables, then the epoch row, as one transaction.

In: rows in the catalog's types. Out: rows in the catalog's types. It uses only a `Session`'s primitives, so SQLite and
Postgres share it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError, fail
from belvedere.schema import KEY, WEIGHT
from belvedere.store.dialects.codec import scalar
from belvedere.store.dialects.faults import is_unreachable
from belvedere.store.dialects.session import Session
from belvedere.store.identifiers import identifier
from belvedere.store.layout import Layout, flat_batches
from belvedere.store.protocol import CHUNK_BYTES, EpochRow
from belvedere.store.stored_table import StoredTable
from belvedere.store.write.rows_by_tasks import Put, copying, marks_of
from belvedere.values.pieces import in_pieces

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

UNORDERED = 1000
"""Number of rows. More rows are written in the order of the key, so each page of its index is touched once."""


class _OpenBatches:
    """Batches that are returned to the caller.

    Reading on after the next call raises an error instead of returning a shorter result.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]):
        self._batches = batches
        self._stopped = False
        self._done = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches
        if self._stopped and not self._done:
            raise fail(
                "B7015",
                "these rows can no longer be read",
                hint="read all rows before the next call of the transaction",
            )
        self._done = True

    def stop(self) -> None:
        """Close the statement behind the batches."""
        if not self._done:
            self._stopped = True
            if hasattr(self._batches, "close"):
                self._batches.close()


class EpochTransaction:
    """The `Transaction` of both stores. The store that began it provides `commit_epoch` and `finish`."""

    def __init__(
        self,
        session: Session,
        layout: Callable[[str], Layout],
        commit_epoch: Callable[[EpochRow], None],
        finish: Callable[[bool], None],
        alone: Callable[[Callable[[], Any], bool], Any],
        chunk_bytes: int = CHUNK_BYTES,
    ):
        self._session = session
        self._layout = layout
        self._commit_epoch = commit_epoch
        self._finish = finish
        self._alone = alone
        self._chunk = chunk_bytes
        self._reading: _OpenBatches | None = None
        self._open = True
        self.is_begun = False
        self._gained: Counter[str] = Counter()
        self._stages: set[str] = set()
        """Tables that other processes have filled for it. They outlast a rollback."""
        self._taken: set[str] = set()

    @property
    def is_late(self) -> bool:
        return self._session.writes_late

    def open(self) -> None:
        """Begin the transaction in the database, if it has not begun.

        A late transaction begins with the first change.
        """
        if not self.is_begun:
            self._stop_reading()  # this ends the transaction of rows that are read alone
            self._session.begin()
            self.is_begun = True

    def lookup(self, table: str, keys: pa.Array | None = None) -> pa.RecordBatchReader:
        layout = self._look(table)
        if keys is None:
            return self._rows(layout, lambda: self._session.select_all(layout))
        return self._rows(layout, lambda: self._session.select(layout, layout.keys(keys)) if len(keys) else iter(()))

    def lookup_range(self, table: str, column: str, above: Any, up_to: Any) -> pa.RecordBatchReader:
        layout = self._look(table)
        place, type_ = f"t.{identifier(column)}", layout.arrow.field(column).type
        bounds = [(how, value) for how, value in ((">", above), ("<=", up_to)) if value is not None]
        where = " AND ".join(f"{place} {how} ?" for how, _ in bounds) or f"{place} IS NOT NULL"
        values = tuple(scalar(layout.dialect, type_, value) for _, value in bounds)
        return self._rows(layout, lambda: self._session.select_where(layout, where, values))

    def apply(self, table: str, delta: pa.RecordBatchReader) -> None:
        layout = self._start(table)
        if self._empty(layout):
            self._session.fill(layout, flat_batches(layout, self._counted(table, (_of_weight(b, 1) for b in delta))))
            return
        for piece in in_pieces(delta, self._chunk, delta.schema):
            self._apply_piece(layout, piece)
            self._gained[table] += pc.sum(piece[WEIGHT]).as_py() or 0

    def _apply_piece(self, layout: Layout, piece: pa.Table) -> None:
        """Write a piece of changes. Rows that are both deleted and inserted are overwritten in place."""
        gone = layout.keys(_of_weight(piece, -1)[KEY].combine_chunks())
        coming = _of_weight(piece, 1).combine_chunks().to_batches()
        rows = pa.Table.from_batches(flat_batches(layout, coming), layout.flat)
        if rows.num_rows > UNORDERED:
            rows = rows.sort_by(layout.key)
        came = rows[layout.key].combine_chunks()
        left = gone.filter(pc.invert(pc.is_in(gone, value_set=came)))
        back = pc.is_in(came, value_set=gone)
        changed, fresh = rows.filter(back), rows.filter(pc.invert(back))
        if len(left):
            self._session.delete(layout, left)
        if changed.num_rows:
            self._session.upsert(layout, changed)
        if fresh.num_rows:
            self._session.insert(layout, fresh.to_batches())

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        layout = self._start(table)
        put = self._session.fill if self._empty(layout) else self._session.insert
        put(layout, flat_batches(layout, self._counted(table, rows)))

    def append_apart(self, table: StoredTable, put: Put, rows: int) -> Callable[[], None] | None:
        return self._put_apart(table, put, rows, weighted=False)

    def apply_apart(self, table: StoredTable, put: Put, rows: int) -> Callable[[], None] | None:
        return self._put_apart(table, put, rows, weighted=True)

    def _put_apart(self, table: StoredTable, put: Put, rows: int, *, weighted: bool) -> Callable[[], None] | None:
        """Let tasks of other processes stage rows, if they can reach the database.

        Return the call that applies them.
        """
        self._require_open()
        layout = Layout(self._session.dialect, table)
        stage = self._alone(lambda: self._session.stage(layout, weighted), True) if self._session.is_reached else None
        if stage is None:
            return None
        self._stages.add(stage)
        try:
            copied = put(copying(self._session.url, table, stage, weighted))
        except (
            Exception
        ) as error:  # a task is lost, cannot reach it, or cannot store a row, which this process then reports
            self._session.is_reached = not is_unreachable(error)
            self._unstage({stage})
            return None
        return lambda: self._take(table.name, stage, copied, rows, weighted)

    def _take(self, table: str, stage: str, copied: pa.Table, rows: int, weighted: bool) -> None:
        take = self._session.take_changes if weighted else self._session.take_stage
        take(self._start(table), stage, *marks_of(copied, rows))
        self._taken.add(stage)
        self._gained[table] += sum(copied["gained"].to_pylist())

    def _unstage(self, stages: Collection[str]) -> None:
        """Drop tables that other processes have filled. The next run drops those that cannot be dropped now."""
        self._stages = self._stages.difference(stages)
        if stages:
            with contextlib.suppress(BelvedereError):
                self._alone(lambda: self._session.unstage(stages), False)

    def delete_range(self, table: str, column: str, up_to: Any) -> int:
        layout = self._start(table)
        bound = scalar(layout.dialect, layout.arrow.field(column).type, up_to)
        gone = self._session.delete_where(f"DELETE FROM {layout.name} WHERE {identifier(column)} <= ?", (bound,))
        self._gained[table] -= gone
        return gone

    def clear(self, table: str) -> None:
        self._gained[table] -= self._session.delete_where(f"DELETE FROM {self._start(table).name}", ())

    def count(self, table: str) -> int:
        layout = self._look(table)
        if not self.is_begun:
            self._session.begin()  # this reconnects if the connection was lost
        try:
            return int(self._session.execute(f"SELECT count(*) FROM {layout.name}")[0][0])
        finally:
            if not self.is_begun:
                self._session.rollback()

    def gained(self, table: str) -> int:
        return self._gained[table]

    def _counted(self, table: str, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            self._gained[table] += batch.num_rows
            yield batch

    def commit(self, row: EpochRow) -> None:
        self._stop_reading()
        self._require_open()
        self.open()
        self._commit_epoch(row)
        self._open = False
        self._finish(True)
        self._unstage(self._stages - self._taken)

    def rollback(self) -> None:
        self._stop_reading()
        if self._open:
            self._open = False
            try:
                self._finish(False)
            finally:
                self._unstage(self._stages)

    def _start(self, table: str) -> Layout:
        """Return the layout of a table that is about to change."""
        layout = self._look(table)
        self.open()
        return layout

    def _look(self, table: str) -> Layout:
        """Return the layout of a table that is about to be read."""
        self._require_open()
        self._stop_reading()
        return self._layout(table)

    def _require_open(self) -> None:
        if not self._open:
            raise fail("B7015", "this transaction has ended", hint="begin a new transaction")

    def _stop_reading(self) -> None:
        """Close a reader that the caller left unread; it would hold its statement open."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.stop()

    def _rows(self, layout: Layout, read: Callable[[], Iterator[pa.RecordBatch]]) -> pa.RecordBatchReader:
        self._reading = reading = _OpenBatches(read() if self.is_begun else self._read_alone(read))
        return pa.RecordBatchReader.from_batches(layout.arrow, (layout.restore(b) for b in reading if b.num_rows))

    def _read_alone(self, read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yield rows before the first change, in a transaction that ends with the last of them."""
        self._session.begin()
        try:
            yield from read()
        finally:
            self._session.rollback()

    def _empty(self, layout: Layout) -> bool:
        return not self._session.execute(f"SELECT 1 FROM {layout.name} LIMIT 1")


def _of_weight(delta: Rows, weight: int) -> Rows:
    return delta.filter(pc.equal(delta.column(WEIGHT), weight))
