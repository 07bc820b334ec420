"""The change feed of one table.

In: the feed's parameters, the source's slot. Out: ranges of the log, and the table's rows with weights: those of the
first read, then the changes. Rows whose values do not fit their columns are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from belvedere.connectors.connector import Arrived, FeedRequest, OffsetRange, Sampled
from belvedere.connectors.postgres.copy_rows import Block, rows_of_block
from belvedere.connectors.postgres.followed_table import Followed
from belvedere.connectors.postgres.position import LogPosition
from belvedere.connectors.postgres.publication import published
from belvedere.connectors.postgres.server import Server, next_slot
from belvedere.connectors.postgres.slot import SlotReader
from belvedere.connectors.postgres.tables import Table
from belvedere.connectors.postgres.text_values import column_of
from belvedere.connectors.postgres.transaction_changes import ArrivedRow, Batch, StoredValue
from belvedere.connectors.postgres.unchanged_values import FormerValues
from belvedere.connectors.postgres.wal import Value
from belvedere.connectors.reading.formats import MAX_REJECTED
from belvedere.connectors.run_records import RejectedRow
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.errors import BelvedereError, Diagnostic, fail
from belvedere.functions.spark_types import type_text
from belvedere.schema import WEIGHT
from belvedere.values.rejections import Reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_readers: dict[tuple[str, str], SlotReader] = {}


def open_table(requested: FeedRequest) -> TableFeed:
    """Open the feed of a table, and add it to the source's slot.

    Raises B6222 if another source of the script reads the slot.
    """
    server = Server(requested.source)
    key = (server.url, server.slot)
    known = _readers.get(key)
    if known is None:
        known = _readers[key] = SlotReader(server, lambda: cast(None, _readers.pop(key, None)), requested.notes)
    elif known.server.source != server.source:
        message = f'sources "{known.server.source}" and "{server.source}" read the same slot, "{server.slot}"'
        hint = f'write `slot = "{next_slot(server.slot)}"` for source "{server.source}": each source needs its own slot'
        raise fail("B6222", message, hint=hint)
    try:
        return TableFeed(requested, known)
    except BelvedereError:
        if not known.tables:
            known.close()
        raise


def sampled_table(requested: FeedRequest, rows: int) -> Sampled:
    """Return some rows of a table as a first read would accept them."""
    with Server(requested.source) as server:
        feed = TableFeed(requested, SlotReader(server, lambda: None))
        taken = _AcceptedRows(feed, is_first=True)
        taken.add([(1, r) for r in server.end_rows(feed.table, feed.names, rows)])
        arrived = Arrived(taken.rows.rows(), tuple(taken.rejected), taken.refused)
        names, types = tuple(f.name for f in feed.table.fields), {f.name: f.type for f in feed.table.fields}
        return Sampled(arrived, names, types, tuple(_obstacles(server, feed)))


def _obstacles(server: Server, feed: TableFeed) -> Iterator[Diagnostic]:
    """Yield the reasons that the table's log cannot be read."""
    for question in (lambda: published(server, {feed.table.name: feed.table}), server.confirmed):
        try:
            question()
        except BelvedereError as error:
            yield from error.diagnostics


class TableFeed:
    """The feed of a table, with its progress."""

    def __init__(self, requested: FeedRequest, reader: SlotReader):
        self.id, self.columns, self.reader, self.former = (
            requested.input.id,
            requested.columns,
            reader,
            requested.former,
        )
        self.memory, self.table = requested.memory, reader.server.table(requested.table)
        key, position = tuple(requested.input.primary_key), LogPosition.of_document(requested.offset)
        types = {c.name: type_text(c.type) for c in requested.columns}
        self.followed = Followed(reader.server.source, self.table.name, self.table.quoted, types, key, position)
        self.names = self._names_of(self.table)
        reader.add(self.followed)

    def _names_of(self, table: Table) -> list[str]:
        """Return the names of the columns in the table. Raises B6223, B6226."""
        attnums = self.followed.attnums(table)
        return [table.state.names[attnums[c.name]] for c in self.columns]

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the new changes of the source's tables."""
        batch = self.reader.look(now, once)
        return None if batch is None else OffsetRange(self.reader.after(self.table.name, batch).as_document(), batch)

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Return the rows of a batch."""
        batch, name = cast(Batch, span.content), self.table.name
        changes = batch.changes[name]
        taken = _AcceptedRows(self, is_first=name in batch.whole)
        if taken.is_first:
            table = self.reader.now(name)
            for block in self.reader.server.copy(self.reader.first, table, self._names_of(table)):
                taken.add_copied(block)
        taken.add(changes.rows)
        is_emptied = changes.is_emptied or (taken.is_first and self.followed.position is not None)
        notices = batch.notices.get(name, ())
        return Arrived(taken.rows.rows(), tuple(taken.rejected), taken.refused, notices=notices, is_emptied=is_emptied)

    def committed(self, span: OffsetRange) -> None:
        """Record that the batch is in the store."""
        self.reader.committed(self.table.name, cast(Batch, span.content))

    def close(self) -> None:
        """Remove the table from the slot, which other tables may still use."""
        self.reader.leave(self.table.name)


class _AcceptedRows:
    """Collector of accepted and rejected rows. A rejected row also deletes its earlier version."""

    def __init__(self, feed: TableFeed, is_first: bool):
        self.feed, self.is_first = feed, is_first
        fields = [pa.field(c.name, c.type) for c in feed.columns]
        self.rows = Scratch(pa.schema([*fields, pa.field(WEIGHT, pa.int64())]), memory=feed.memory)
        self.rejected: list[RejectedRow] = []
        self.refused = 0

    def add_copied(self, block: Block) -> None:
        """Add rows of a first read, by whole columns if all values fit."""
        if isinstance(block, pa.Table):
            found = [column_of(a.combine_chunks(), c) for a, c in zip(block.columns, self.feed.columns, strict=True)]
            if not any(wrong for _, wrong in found):
                weights = pa.array(np.ones(block.num_rows, np.int64))
                self.rows.add(pa.table([*(a for a, _ in found), weights], schema=self.rows.schema))
                return
        self.add([(1, row) for row in rows_of_block(block)])

    def add(self, rows: Sequence[tuple[int, ArrivedRow]]) -> None:
        """Add rows with weights. For deleted rows only the key is used."""
        if not rows:
            return
        misfits: dict[int, Reason] = {}
        arrays = []
        followed = self.feed.followed
        former = FormerValues(self.feed.columns, followed, self.feed.former, [values for _, values in rows])
        keyless = set[int]()
        for place, column in enumerate(self.feed.columns):
            array, wrong = former.column_of(place, column)
            arrays.append(array)
            misfits |= {n: reason for n, reason in wrong.items() if rows[n][0] > 0}
            keyless |= wrong.keys() if column.name in followed.key else set()
        weights = [-1 if n in misfits else w for n, (w, _) in enumerate(rows)]
        table = pa.table([*arrays, pa.array(weights, pa.int64())], schema=self.rows.schema)
        if misfits:
            self._reject(rows, misfits)
        dropped = misfits.keys() if self.is_first else keyless
        self.rows.add(table.filter(pa.array([n not in dropped for n in range(len(rows))])) if dropped else table)

    def _reject(self, rows: Sequence[tuple[int, ArrivedRow]], misfits: Mapping[int, Reason]) -> None:
        self.refused += len(misfits)
        names = [c.name for c in self.feed.columns]
        for place in sorted(misfits)[: max(0, MAX_REJECTED - len(self.rejected))]:
            shown = {n: _shown(v) for n, v in zip(names, rows[place][1], strict=True) if not isinstance(v, StoredValue)}
            text = json.dumps(shown, ensure_ascii=False)
            where = f"{self.feed.reader.server.schema}.{self.feed.table.name}"
            self.rejected.append(RejectedRow(self.feed.id, where, None, text, misfits[place]))


def _shown(value: Value) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else None
