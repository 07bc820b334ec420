"""One epoch's changes: look-ups and changes of stored tables, then the epoch row, as one transaction.

In: rows in the catalog's types. Out: the same. It is written on a `Session`'s primitives, alike for SQLite and Postgres.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError, fail
from belvedere.schema import KEY, WEIGHT
from belvedere.store.dialects.codec import scalar
from belvedere.store.dialects.session import Flat, Session
from belvedere.store.identifiers import identifier
from belvedere.store.layout import Layout, flat_batches
from belvedere.store.pieces import in_pieces
from belvedere.store.protocol import CHUNK_BYTES, EpochRow, LookupKeys
from belvedere.store.write.difference import Difference, difference, heard

_Test = tuple[str, Any]
"""SQL of the table's row `t`, and what to bind to it."""

CHUNK = 65_536
"""Rows of a delta that are handed on at once."""


class _Reading:
    """Batches on their way to the caller. Whoever reads on after the next call gets an error, not a shorter result.

    Batches that `change` the table as they pass are all fetched, also those that nobody reads.
    """

    def __init__(self, batches: Iterator[Any], changes: bool = False):
        self._batches = batches
        self._changes = changes
        self._stopped = False
        self._done = False

    def __iter__(self) -> Iterator[Any]:
        yield from self._batches
        if self._stopped and not self._done:
            raise fail(
                "B7015", "these rows can no longer be read", hint="read all rows before the next call of the transaction"
            )
        self._done = True

    def stop(self, undone: bool = False) -> None:
        """Close the statement behind the batches; where they change the table, let them, unless all is `undone`."""
        if not self._done:
            self._stopped = True
            if self._changes and not undone:
                for _ in self._batches:
                    pass
            if hasattr(self._batches, "close"):
                self._batches.close()


class EpochTransaction:
    """The `Transaction` of both stores. `commit_epoch` and `finish` belong to the store that began it."""

    def __init__(
        self,
        session: Session,
        layout: Callable[[str], Layout],
        commit_epoch: Callable[[EpochRow], None],
        finish: Callable[[bool], None],
        chunk_bytes: int = CHUNK_BYTES,
    ):
        self._session = session
        self._layout = layout
        self._commit_epoch = commit_epoch
        self._finish = finish
        self._chunk = chunk_bytes
        self._reading: _Reading | None = None
        self._open = True

    def lookup(self, table: str, by: str | None, keys: LookupKeys) -> pa.RecordBatchReader:
        layout = self._start(table)
        return self._rows(layout, self._select(layout, by, keys))

    def lookup_range(self, table: str, column: str, above: Any, up_to: Any) -> pa.RecordBatchReader:
        layout = self._start(table)
        bounds = self._bounds(layout, column, (">", above), ("<=", up_to))
        if not bounds:
            return self._rows(layout, self._session.select_where(layout, f"t.{identifier(column)} IS NOT NULL", ()))
        return self._rows_where(layout, bounds)

    def lookup_span(self, table: str, by: str, key: int, column: str, low: Any, high: Any) -> pa.RecordBatchReader:
        layout = self._start(table)
        bounds = self._bounds(layout, column, (">=", low), ("<=", high))
        if low is None and high is not None:
            bounds = [(f"({sql} OR t.{identifier(column)} IS NULL)", value) for sql, value in bounds]
        return self._rows_where(layout, [(f"t.{identifier(by)} = ?", key), *bounds])

    def _bounds(self, layout: Layout, column: str, *bounds: tuple[str, Any]) -> list[_Test]:
        """The tests of a column by those bounds that are given."""
        place = f"t.{identifier(column)}"
        return [(f"{place} {how} ?", self._bound(layout, column, value)) for how, value in bounds if value is not None]

    def _rows_where(self, layout: Layout, tests: Sequence[_Test]) -> pa.RecordBatchReader:
        where, values = " AND ".join(sql for sql, _ in tests), tuple(value for _, value in tests)
        return self._rows(layout, self._session.select_where(layout, where, values))

    def place(self, table: str, by: str, key: int, column: str, value: Any, count: int, after: bool) -> Any:
        layout = self._start(table)
        place, (compared, way) = identifier(column), (">", "ASC") if after else ("<", "DESC")
        rows = f"{layout.name} WHERE {identifier(by)} = ? AND {place} {compared} ?"
        sql = f"SELECT {place} FROM {rows} ORDER BY {place} {way} LIMIT 1 OFFSET ?"
        found = self._session.execute(sql, (key, self._bound(layout, column, value), count - 1))
        how = layout.form_of(column)
        return how.decode(pa.array([found[0][0]], how.flat))[0].as_py() if found else None

    def replace(self, table: str, by: str | None, keys: LookupKeys, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        layout = self._start(table)
        if self._empty(layout):
            return self._fill(layout, rows)
        pieces = in_pieces(flat_batches(layout, rows), self._chunk, layout.flat)
        new = next(pieces)
        following = next(pieces, None)
        if following is None and not isinstance(keys, pa.RecordBatchReader):
            old = self._few(layout, by, keys)
            if old is not None:
                self._require_distinct(layout, new)
                found = difference(self._with_strangers(layout, by, old, new), new)
                self._write(layout, found)
                return self._weighted(layout, self._delta(found, layout))
        rest = pieces if following is None else chain((following,), pieces)
        self._reading = _Reading(self._replace_in_pieces(layout, by, keys, chain((new,), rest)), changes=True)
        return self._weighted(layout, self._reading)

    def apply(self, table: str, delta: pa.RecordBatchReader) -> None:
        layout = self._start(table)
        taken: list[pa.Array] = []
        put: list[pa.Array] = []
        for batch in delta:
            weight = batch.column(batch.schema.get_field_index(WEIGHT))
            key = batch.column(batch.schema.get_field_index(KEY))
            taken.append(key.filter(pc.less(weight, 0)))
            rows = batch.filter(pc.greater(weight, 0))
            if rows.num_rows:
                flat = layout.flatten(rows)
                self._session.upsert(layout, pa.Table.from_batches([flat]))
                put.append(flat.column(KEY))
        self._take_out(layout, taken, put)

    def _take_out(self, layout: Layout, taken: list[pa.Array], put: list[pa.Array]) -> None:
        """A row that is replaced can have its -1 after its +1: what was put stays."""
        encode = layout.form_of(KEY).encode
        gone = encode(pa.concat_arrays(a.cast(pa.string()) for a in taken)) if taken else pa.array([], pa.string())
        if put and len(gone):
            gone = gone.filter(pc.invert(pc.is_in(gone, value_set=pa.concat_arrays(put))))
        if len(gone):
            self._session.delete(layout, gone)

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        layout = self._start(table)
        put = self._session.fill if self._empty(layout) else self._session.insert
        put(layout, flat_batches(layout, rows))

    def delete_range(self, table: str, column: str, up_to: Any) -> int:
        layout = self._start(table)
        bound = self._bound(layout, column, up_to)
        return self._session.delete_where(f"DELETE FROM {layout.name} WHERE {identifier(column)} <= ?", (bound,))

    def count(self, table: str) -> int:
        layout = self._start(table)
        return int(self._session.execute(f"SELECT count(*) FROM {layout.name}")[0][0])

    def commit(self, row: EpochRow) -> None:
        self._stop_reading()
        self._require_open()
        self._commit_epoch(row)
        self._open = False
        self._finish(True)

    def rollback(self) -> None:
        self._stop_reading(undone=True)
        if self._open:
            self._open = False
            self._finish(False)

    # --- parts of `replace` ---

    def _few(self, layout: Layout, by: str | None, keys: pa.Array | None) -> pa.Table | None:
        """The old rows of these keys where they are few, else None."""
        found, size = [], 0
        batches = self._select(layout, by, keys)
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size > self._chunk:
                if hasattr(batches, "close"):
                    batches.close()
                return None
        return pa.Table.from_batches(found, layout.flat)

    def _require_distinct(self, layout: Layout, new: pa.Table) -> None:
        if not layout.distinct_keys(new[KEY]):
            raise _same_key(layout)

    def _replace_in_pieces(
        self, layout: Layout, by: str | None, keys: LookupKeys, pieces: Iterable[pa.Table]
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Piece by piece: new rows against the old rows of their own keys; last the old rows that had no new one."""
        if by is not None and keys is not None:
            self._session.ask(layout.form_of(by).flat, self._flat_keys(layout, by, keys))
        first = True
        for new in pieces:
            self._require_distinct(layout, new)
            own = new[KEY].combine_chunks()
            try:
                self._session.mark_seen(own, first)
            except BelvedereError as error:
                raise (_same_key(layout) if error.diagnostics[0].code == "B7010" else error) from error
            first = False
            old = pa.Table.from_batches(self._session.select(layout, KEY, own), layout.flat) if len(own) else new
            found = difference(old, new)
            self._write(layout, found)
            yield from self._delta(found, layout)
        asked = by if keys is not None else None
        yield from ((batch, -1) for batch in self._session.select_unseen(layout, asked))
        self._session.delete_unseen(layout, asked)

    def _with_strangers(self, layout: Layout, by: str | None, old: pa.Table, new: pa.Table) -> pa.Table:
        """Old rows also for keys of new rows that were not among the keys asked for."""
        missing = new[KEY].filter(pc.invert(pc.is_in(new[KEY], value_set=old[KEY].combine_chunks())))
        if by is None or not len(missing):
            return old
        strangers = pa.Table.from_batches(self._session.select(layout, KEY, missing.combine_chunks()), layout.flat)
        return pa.concat_tables([old, strangers]) if strangers.num_rows else old

    def _write(self, layout: Layout, found: Difference) -> None:
        if found.gone.num_rows:
            self._session.delete(layout, found.gone[KEY].combine_chunks())
        if found.after.num_rows:
            self._session.update(layout, found.after, found.columns)
        if found.fresh.num_rows:
            self._session.insert(layout, found.fresh.to_batches())

    def _delta(self, found: Difference, layout: Layout) -> Iterator[tuple[pa.RecordBatch, int]]:
        found = heard(found, layout.silent)
        parts = ((found.gone, -1), (found.before, -1), (found.after, 1), (found.fresh, 1))
        return ((b, weight) for rows, weight in parts for b in rows.to_batches(max_chunksize=CHUNK))

    def _fill(self, layout: Layout, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """An empty table takes the rows as they stream, however many; the delta is the table."""
        self._session.fill(layout, flat_batches(layout, rows))
        self._reading = _Reading(self._session.select_all(layout))
        return self._weighted(layout, ((b, 1) for b in self._reading))

    def _weighted(self, layout: Layout, flat: Iterable[tuple[pa.RecordBatch, int]]) -> pa.RecordBatchReader:
        schema = layout.table.arrow_delta

        def batches() -> Iterator[pa.RecordBatch]:
            for batch, weight in flat:
                if batch.num_rows:
                    weights = pa.repeat(pa.scalar(weight, pa.int64()), batch.num_rows)
                    yield pa.RecordBatch.from_arrays([*layout.restore(batch).columns, weights], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    # --- parts of everything ---

    def _start(self, table: str) -> Layout:
        self._require_open()
        self._stop_reading()
        return self._layout(table)

    def _require_open(self) -> None:
        if not self._open:
            raise fail("B7015", "this transaction has ended", hint="begin another one")

    def _stop_reading(self, undone: bool = False) -> None:
        """A reader that the caller left unread would hold its statement open."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.stop(undone)

    def _select(self, layout: Layout, by: str | None, keys: LookupKeys) -> Flat:
        if keys is None or by is None:
            return self._session.select_all(layout)
        if isinstance(keys, pa.RecordBatchReader):
            self._session.ask(layout.form_of(by).flat, self._flat_keys(layout, by, keys))
            return self._session.select_asked(layout, by)
        flat = next(self._flat_keys(layout, by, keys))
        return self._session.select(layout, by, flat) if len(flat) else iter(())

    def _flat_keys(self, layout: Layout, by: str, keys: pa.Array | pa.RecordBatchReader) -> Iterator[pa.Array]:
        """Keys in their stored form."""
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        how, type_ = layout.form_of(by), layout.arrow.field(by).type
        arrays = (b.column(0) for b in keys) if isinstance(keys, pa.RecordBatchReader) else (keys,)
        return (how.encode(a.cast(type_)) for a in arrays)

    def _rows(self, layout: Layout, flat: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
        self._reading = reading = _Reading(flat)
        return pa.RecordBatchReader.from_batches(layout.arrow, (layout.restore(b) for b in reading if b.num_rows))

    def _bound(self, layout: Layout, column: str, value: Any) -> Any:
        return scalar(layout.dialect, layout.arrow.field(column).type, value)

    def _empty(self, layout: Layout) -> bool:
        return not self._session.execute(f"SELECT 1 FROM {layout.name} LIMIT 1")


def _same_key(layout: Layout) -> BelvedereError:
    return fail("B7010", f'two rows for the stored table "{layout.table.name}" have the same key')
