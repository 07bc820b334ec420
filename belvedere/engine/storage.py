"""Storage of relations in one epoch: arrangements, which stages look up, and tables of the database, which users read.

In: the state, the epoch's transaction, the tables of the database. Out: one set of calls for both. A relation that is
looked up and read is in both: changes of its arrangement are applied to its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from belvedere.engine.by_tasks.storage_by_tasks import SomeKeys, StorageByTasks, number_of
from belvedere.engine.compute import Compute
from belvedere.engine.rows.epoch_rows import PASSED, ColumnValues, Rows, coming, going, weighted_stream
from belvedere.engine.rows.selected_rows import NewRows, streamed
from belvedere.engine.write_behind import WritesBehind
from belvedere.schema import KEY, WEIGHT
from belvedere.state.arrangement import Arrangement, Keys
from belvedere.state.state import State
from belvedere.store.protocol import Transaction
from belvedere.store.stored_table import StoredTable
from belvedere.store.write.rows_by_tasks import COPIED

PutApart = Callable[[StoredTable, Callable[[Any], pa.Table], int], Callable[[], None] | None]
"""Function that lets tasks of other processes write rows of a table: `Transaction.append_apart` or `apply_apart`."""


class Storage:
    """Look-ups and changes of stored relations."""

    def __init__(self, state: State, transaction: Transaction, tables: Mapping[str, StoredTable], compute: Compute):
        self.state, self.tables, self.compute = state, tables, compute
        self._transaction = transaction
        self.by_tasks = StorageByTasks(state, compute)
        self._is_late = transaction.is_late
        self._behind = WritesBehind(late=self._is_late)
        self._touched: set[str] = set()
        """The tables that were changed in this epoch."""

    @property
    def transaction(self) -> Transaction:
        """Return the epoch's transaction, after all writes. Raises the error of a write."""
        self._behind.settle()
        return self._transaction

    def _read(self, name: str) -> Transaction:
        """Return the transaction for reading one table; none is open if the table is unchanged."""
        return self._transaction if self._is_late and name not in self._touched else self.transaction

    def _do(self, name: str, write: Callable[[], object]) -> None:
        """Change a table, after earlier changes."""
        self._touched.add(name)
        self._behind.do(write)

    def prepare(self, names: Iterable[str], work: Callable[[], None]) -> None:
        """Create tables before anything is written to them."""
        self._touched.update(names)
        self._behind.do(work)
        if not self._is_late:
            self._behind.settle()

    def close(self) -> None:
        """Drop the writes that are not done."""
        self._behind.close()

    def _write(
        self, name: str, write: Callable[[str, pa.RecordBatchReader], object], rows: Rows, columns: list[str]
    ) -> None:
        """Write rows in the background if they are in memory or files.

        A data frame is run by the thread that all stages share.
        """
        if rows.frame is not None and not rows.is_collected:
            if not self._is_late:
                self._behind.settle()
                write(name, rows.reader(columns))
                return
            rows = self.compute.keep(rows.reader(columns))
        self._do(name, lambda: write(name, rows.reader(columns)))

    def _arrangement(self, name: str) -> Arrangement | None:
        return self.state.arrangements.get(name)

    def is_arranged(self, name: str) -> bool:
        """Return whether the relation is looked up in an arrangement."""
        return name in self.state.arrangements

    def is_served(self, name: str) -> bool:
        """Return whether the relation is a table of the database."""
        return name in self.tables

    # --- look-ups

    def look_up(self, name: str, by: str | None, keys: Keys) -> pa.RecordBatchReader:
        """Return the present rows whose `by` (a path or `_key`) is among `keys`; all for None.

        A table has no paths, and accepts one array.
        """
        found = self._arrangement(name)
        if found is None:
            assert by in (None, KEY)
            assert not isinstance(keys, pa.RecordBatchReader)
            return self._read(name).lookup(name, keys)
        return _reader(found, found.look_up(by, keys))

    def look_up_before(self, name: str, by: str, keys: Keys) -> pa.RecordBatchReader:
        """Return the rows of an arranged relation before this epoch whose path `by` is among `keys`."""
        found = self.state.arrangements[name]
        return _reader(found, found.look_up_before(by, keys))

    def look_up_range(self, name: str, column: str, above: Any, up_to: Any) -> pa.RecordBatchReader:
        """Return rows with `above < column <= up_to`; None = unbounded on that side. NULLs never match."""
        found = self._arrangement(name)
        if found is None:
            return self._read(name).lookup_range(name, column, above, up_to)
        low, high = (number_of(found, column, value) for value in (above, up_to))
        return _reader(found, found.look_up_range(column, low, high))

    def look_up_span(
        self, name: str, by: str, key: int, column: str, low: int | None, high: int | None
    ) -> pa.RecordBatchReader:
        """Return rows whose path `by` is `key` with `low <= column <= high` (as numbers).

        None = unbounded; a lower bound of None includes NULLs.
        """
        found = self.state.arrangements[name]
        return _reader(found, found.look_up_span(by, key, column, low, high))

    def place(self, name: str, by: str, key: int, column: str, value: int, count: int, after: bool) -> int | None:
        """Return the number in `column` of the row `count` rows before (`after`: after) all rows of one key with
        `value`."""
        return self.state.arrangements[name].place(by, key, column, value, count, after)

    def count(self, name: str) -> int:
        """Return the present number of rows."""
        found = self._arrangement(name)
        return self._read(name).count(name) if found is None else found.count

    # --- changes

    def append(self, name: str, rows: Rows) -> None:
        """Insert rows whose `_key`s are new. Columns that are not stored are left out."""
        found = self._arrangement(name)
        if found is not None and not self.by_tasks.append(name, rows):
            found.append(rows.batches(found.arranged.schema.names))
        if self.is_served(name) and not self._copied_apart(name, rows):
            self._write(name, self._transaction.append, rows, self.tables[name].arrow.names)

    def _copied_apart(self, name: str, rows: Rows) -> bool:
        """Let executors copy many rows in files into the database, if they reach it. Return whether they do."""
        return self._put_apart(name, rows, self._transaction.append_apart)

    def _apply(self, name: str, delta: Rows) -> None:
        """Apply a delta to a table. Executors copy a large one if they reach the database."""
        if not self._put_apart(name, delta, self._transaction.apply_apart):
            self._write(name, self._transaction.apply, delta, [*self.tables[name].arrow.names, WEIGHT])

    def _put_apart(self, name: str, rows: Rows, put: PutApart) -> bool:
        if rows.files is None or not self.compute.spreads(rows.num_rows):
            return False
        run = self.compute.run_apart
        take = put(self.tables[name], lambda task: run(rows, task, COPIED), rows.num_rows)
        if take is not None:
            self._do(name, take)
        return take is not None

    def replace(self, name: str, by: str | None, keys: SomeKeys, rows: NewRows, is_of_key: bool = False) -> Rows:
        """Make `rows` the only rows of an arranged relation whose `by` is among `keys` (all for None).

        Return the changes with weights.

        `is_of_key`: rows with the same `_key` always have the same value of `by`.
        """
        delta = self.by_tasks.replace(name, by, keys, rows, is_of_key)
        if delta is None:
            found = self.state.arrangements[name]
            changes = found.replace(by, given(keys), streamed(rows))
            delta = self.compute.keep(weighted_stream(found.arranged.schema, changes))
        if self.is_served(name) and not delta.is_empty:
            self._apply(name, delta)
        return delta

    def overwrite(self, name: str, by: str | None, keys: SomeKeys, rows: NewRows) -> None:
        """Replace the rows of an internal arrangement whose `by` is among `keys` (all for None) by `rows`."""
        assert not self.is_served(name)
        if not self.by_tasks.overwrite(name, by, keys, rows):
            self.state.arrangements[name].overwrite(by, given(keys), streamed(rows))

    def apply(self, name: str, delta: pa.RecordBatchReader) -> None:
        """Apply a change to a relation without look-ups.

        It has for each `_key` at most one row of each weight, -1 first.
        """
        assert name not in self.state.arrangements
        if self._is_late:
            self._apply(name, self.compute.keep(delta))
        else:
            self.transaction.apply(name, delta)

    def change(self, name: str, rows: Rows) -> None:
        """Apply a change to a relation, with rows in any order."""
        parts = [self.compute.keep(rows.where(test)) for test in (going, coming)]
        if all(p.is_collected for p in parts):  # deleted rows that are inserted again are then overwritten in place
            parts = [Rows(pa.concat_tables([p.table for p in parts]))]
        for part in parts:
            if not part.is_empty:
                self._apply(name, part)

    def clear(self, name: str) -> None:
        """Delete all rows, in arrangement and table."""
        found = self._arrangement(name)
        if found is not None:
            found.overwrite(None, None, ())
        if self.is_served(name):
            self._do(name, partial(self._transaction.clear, name))

    def delete_range(self, name: str, column: str, up_to: Any) -> None:
        """Delete rows with `column <= up_to`."""
        found = self._arrangement(name)
        if found is not None:
            last = number_of(found, column, up_to)
            assert last is not None
            found.delete_up_to(column, last)
        if self.is_served(name):
            self._do(name, partial(self._transaction.delete_range, name, column, up_to))


def given(keys: SomeKeys) -> Keys:
    """Return keys in the form that an arrangement accepts."""
    return keys.given() if isinstance(keys, ColumnValues) else keys


def _reader(found: Arrangement, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(found.arranged.schema, map(PASSED.count, batches))
