"""One table's side of a change feed.

In: what the feed is opened for, the source's slot. Out: spans of the log, and the table's rows with weights: those of the first read,
then what has changed. Rows whose values have no place in their columns are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from psycopg import sql

from belvedere.connectors.connector import Arrived, OffsetRange, Wanted
from belvedere.connectors.postgres.server import Server
from belvedere.connectors.postgres.slot import Batch, Position, SlotReader, column_changed
from belvedere.connectors.postgres.values import Text, column_of
from belvedere.connectors.postgres.wal import Row, Unchanged
from belvedere.connectors.reading.formats import MOST_REJECTED
from belvedere.connectors.records import RejectedRow
from belvedere.engine.scratch import Scratch
from belvedere.errors import fail
from belvedere.schema import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_ROWS = 20_000
"""So many rows of a first read are held at once."""
_readers: dict[tuple[str, str, str], SlotReader] = {}


def open_table(wanted: Wanted) -> TableFeed:
    """A table of a source, and its part in the source's slot."""
    server = Server(wanted.source)
    key = (server.url, server.slot, server.schema)
    if key not in _readers:
        _readers[key] = SlotReader(server, lambda: cast(None, _readers.pop(key, None)))
    return TableFeed(wanted, _readers[key])


class TableFeed:
    """A table, and how far it was read."""

    def __init__(self, wanted: Wanted, reader: SlotReader):
        self.id, self.columns, self.reader = wanted.input.id, wanted.columns, reader
        self.table = reader.server.table(wanted.table)
        if tuple(wanted.input.primary_key) != self.table.key:
            hint = f"it is ({', '.join(self.table.key)}): leave `primary_key` out"
            raise fail("B6223", f'table "{self.table.name}" has another primary key', hint=hint)
        there = [f.name for f in self.table.fields]
        for name in (c.name for c in wanted.columns if c.name not in there):
            raise column_changed(reader.server.source, self.table.name, name, "is gone")
        reader.add(self.table, Position.of_document(wanted.offset))

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """What is new in the tables of the source."""
        batch = self.reader.look(now, once)
        return None if batch is None else OffsetRange(self.reader.after(self.table.name, batch).as_document(), batch)

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """The rows of a batch."""
        batch = cast(Batch, span.content)
        changes = batch.changes[self.table.name]
        taken = _Taken(self)
        if self.reader.positions[self.table.name] is None:
            for rows in self._first_rows():
                taken.add([(1, r) for r in rows])
        taken.add([(w, self._texts(row)) for w, row in changes.rows])
        return Arrived(taken.rows.rows(), tuple(taken.rejected), taken.refused, is_emptied=changes.is_emptied)

    def _first_rows(self) -> Iterator[tuple[tuple[Text, ...], ...]]:
        """All rows as of the snapshot, some at a time."""
        names = sql.SQL(", ").join(sql.Identifier(f.name) for f in self.table.fields)
        table = sql.Identifier(self.reader.server.schema, self.table.name)
        text = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(names, table)
        with self.reader.server.told():
            for setting in ("SET LOCAL TIME ZONE 'UTC'", "SET LOCAL DateStyle = 'ISO, YMD'", "SET LOCAL bytea_output = 'hex'"):
                self.reader.first.execute(setting)
            self.reader.first.execute("SET LOCAL IntervalStyle = 'iso_8601'")
            with self.reader.first.cursor().copy(text) as copy:
                found = copy.rows()
                while some := tuple(islice(found, FIRST_ROWS)):
                    yield some

    def _texts(self, row: Row) -> tuple[Text, ...]:
        if Unchanged.VALUE in row:
            column = self.table.fields[row.index(Unchanged.VALUE)].name
            hint = f'ALTER TABLE "{self.table.name}" REPLICA IDENTITY FULL; then begin with a new store'
            message = (
                f'an update of "{self.table.name}" leaves the large value of "{column}" as it was, and the log does not have it'
            )
            raise fail("B6227", message, hint=hint)
        return tuple(v if v is None else cast(bytes, v).decode() for v in row)

    def committed(self, span: OffsetRange) -> None:
        """The batch is in the store."""
        self.reader.committed(self.table.name, cast(Batch, span.content))

    def close(self) -> None:
        """Leave the slot to the others."""
        self.reader.leave(self.table.name)


class _Taken:
    """Rows on their way: those that fit, and those that are rejected."""

    def __init__(self, feed: TableFeed):
        self.feed = feed
        known = {c.name: c for c in feed.columns}
        self.columns = [known.get(f.name) for f in feed.table.fields]
        fields = [pa.field(c.name, c.type) for c in self.columns if c is not None]
        self.rows = Scratch(pa.schema([*fields, pa.field(WEIGHT, pa.int64())]))
        self.rejected: list[RejectedRow] = []
        self.refused = 0

    def add(self, rows: Sequence[tuple[int, tuple[Text, ...]]]) -> None:
        """Rows with weights; of those that go only the key counts."""
        if not rows:
            return
        misfits: dict[int, str] = {}
        arrays = []
        for place, column in enumerate(self.columns):
            if column is None:
                continue
            array, wrong = column_of([values[place] for _, values in rows], column)
            arrays.append(array)
            misfits |= {n: reason for n, reason in wrong.items() if rows[n][0] > 0}
        table = pa.table([*arrays, pa.array([w for w, _ in rows], pa.int64())], schema=self.rows.schema)
        if misfits:
            table = table.filter(pa.array([n not in misfits for n in range(len(rows))]))
            self._reject(rows, misfits)
        self.rows.add(table)

    def _reject(self, rows: Sequence[tuple[int, tuple[Text, ...]]], misfits: Mapping[int, str]) -> None:
        self.refused += len(misfits)
        table, names = self.feed.table, [f.name for f in self.feed.table.fields]
        for place in sorted(misfits)[: max(0, MOST_REJECTED - len(self.rejected))]:
            text = json.dumps(dict(zip(names, rows[place][1], strict=True)), ensure_ascii=False)
            where = f"{self.feed.reader.server.schema}.{table.name}"
            self.rejected.append(RejectedRow(self.feed.id, where, None, text, misfits[place]))
