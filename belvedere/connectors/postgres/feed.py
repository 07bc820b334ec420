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

from belvedere.connectors.connector import Arrived, OffsetRange, Sampled, Wanted
from belvedere.connectors.postgres.former import FormerValues, Text
from belvedere.connectors.postgres.server import Server
from belvedere.connectors.postgres.slot import Batch, Former, Position, SlotReader, column_changed
from belvedere.connectors.postgres.wal import Value
from belvedere.connectors.reading.formats import MOST_REJECTED
from belvedere.connectors.records import RejectedRow
from belvedere.engine.scratch import Scratch
from belvedere.errors import BelvedereError, Diagnostic, fail
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


def sampled_table(wanted: Wanted, rows: int) -> Sampled:
    """Some rows of a table as a first read would take them."""
    with Server(wanted.source) as server:
        feed = TableFeed(wanted, SlotReader(server, lambda: None))
        taken = _Taken(feed)
        taken.add([(1, r) for r in server.end_rows(feed.table, rows)])
        arrived = Arrived(taken.rows.rows(), tuple(taken.rejected), taken.refused)
        names, types = tuple(f.name for f in feed.table.fields), {f.name: f.type for f in feed.table.fields}
        return Sampled(arrived, names, types, tuple(_obstacles(server, feed)))


def _obstacles(server: Server, feed: TableFeed) -> Iterator[Diagnostic]:
    """Why the table's log cannot be read."""
    for question in (lambda: server.check_publication([feed.table]), server.confirmed):
        try:
            question()
        except BelvedereError as error:
            yield from error.diagnostics


class TableFeed:
    """A table, and how far it was read."""

    def __init__(self, wanted: Wanted, reader: SlotReader):
        self.id, self.columns, self.reader, self.former = wanted.input.id, wanted.columns, reader, wanted.former
        self.table = reader.server.table(wanted.table)
        if set(wanted.input.primary_key) != set(self.table.key):
            hint = f"write `primary_key = {json.dumps(list(self.table.key), ensure_ascii=False)}`, or leave `columns` out"
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
        if taken.is_first:
            for rows in self._first_rows():
                taken.add([(1, r) for r in rows])
        taken.add([(w, tuple(map(_text, row))) for w, row in changes.rows])
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

    def committed(self, span: OffsetRange) -> None:
        """The batch is in the store."""
        self.reader.committed(self.table.name, cast(Batch, span.content))

    def close(self) -> None:
        """Leave the slot to the others."""
        self.reader.leave(self.table.name)


def _text(value: Value | Former) -> Text | Former:
    if isinstance(value, Former):
        return value
    return value.decode() if isinstance(value, bytes) else None


class _Taken:
    """Rows on their way: those that fit, and those that are rejected, which do not stay as they were either."""

    def __init__(self, feed: TableFeed):
        self.feed = feed
        self.known = {c.name: c for c in feed.columns}
        self.columns = [self.known.get(f.name) for f in feed.table.fields]
        fields = [pa.field(c.name, c.type) for c in self.columns if c is not None]
        self.rows = Scratch(pa.schema([*fields, pa.field(WEIGHT, pa.int64())]))
        self.rejected: list[RejectedRow] = []
        self.refused = 0
        self.is_first = feed.reader.positions[feed.table.name] is None

    def add(self, rows: Sequence[tuple[int, tuple[Text | Former, ...]]]) -> None:
        """Rows with weights; of those that go only the key counts."""
        if not rows:
            return
        misfits: dict[int, str] = {}
        arrays = []
        former = FormerValues(self.feed.table, self.known, self.feed.former, [values for _, values in rows])
        keyless = set[int]()
        for place, column in enumerate(self.columns):
            if column is None:
                continue
            array, wrong = former.column_of(place, column)
            arrays.append(array)
            misfits |= {n: reason for n, reason in wrong.items() if rows[n][0] > 0}
            keyless |= wrong.keys() if column.name in self.feed.table.key else set()
        weights = [-1 if n in misfits else w for n, (w, _) in enumerate(rows)]
        table = pa.table([*arrays, pa.array(weights, pa.int64())], schema=self.rows.schema)
        if misfits:
            self._reject(rows, misfits)
        dropped = misfits.keys() if self.is_first else keyless
        self.rows.add(table.filter(pa.array([n not in dropped for n in range(len(rows))])) if dropped else table)

    def _reject(self, rows: Sequence[tuple[int, tuple[Text | Former, ...]]], misfits: Mapping[int, str]) -> None:
        self.refused += len(misfits)
        table, names = self.feed.table, [f.name for f in self.feed.table.fields]
        for place in sorted(misfits)[: max(0, MOST_REJECTED - len(self.rejected))]:
            shown = {n: v for n, v in zip(names, rows[place][1], strict=True) if not isinstance(v, Former)}
            text = json.dumps(shown, ensure_ascii=False)
            where = f"{self.feed.reader.server.schema}.{table.name}"
            self.rejected.append(RejectedRow(self.feed.id, where, None, text, misfits[place]))
