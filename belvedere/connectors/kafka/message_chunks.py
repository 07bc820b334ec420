"""Collect chunks of messages for an epoch: rows, rejected messages, and producers by partition.

In: chunks in order. Out: `Gathered`. Spark reads the messages that the formats left undecided, like lines of files, and
the rows are put in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from belvedere.connectors.into_spark import FEW_BYTES, into_spark
from belvedere.connectors.kafka.message_rows import Chunk, MessageShape, Refused, Undecided
from belvedere.connectors.reading.file_rows import NOT_JSON, REASON, collectable, json_rows
from belvedere.connectors.reading.formats import MAX_REJECTED
from belvedere.connectors.reading.json_reasons import explain_json
from belvedere.connectors.reading.text_records import LINE, RECORDS, decoded
from belvedere.connectors.run_records import RejectedRow
from belvedere.engine.rows.epoch_rows import Memory, Rows, as_rows
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.time.arrival_columns import Ints
from belvedere.values.rejections import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Gathered:
    """The rows of an epoch, and rejected messages; `producers` are runs of rows of one partition, in order."""

    rows: pa.Table | Rows
    rejected: tuple[RejectedRow, ...]
    refused: int
    producers: tuple[tuple[int, str], ...]
    times: Ints | None = None
    """Times at which the messages were sent, in milliseconds; None if not known."""


class Gathering:
    """Collector of chunks."""

    def __init__(self, spark: SparkSession | None, table: str, shape: MessageShape):
        self.spark, self.table, self.shape = spark, table, shape
        self.rejected: list[RejectedRow] = []
        self.refused = 0
        self.producers: list[tuple[int, str]] = []
        self.times: list[Any] = []

    def settle(self, chunk: Chunk) -> pa.Table:
        """Return the rows of a chunk, without rejected messages and with those that Spark reads."""
        rows, refused = chunk.rows, list(chunk.refused)
        if chunk.undecided:
            assert self.spark is not None
            rows, found = _decided(self.spark, self.shape, chunk)
            refused += found
        if refused:
            keep = np.ones(rows.num_rows, np.bool_)
            keep[[r.place for r in refused]] = False
            rows = rows.filter(pa.array(keep))
            chunk = replace(chunk, times=None if chunk.times is None else chunk.times[keep])
            self._reject(chunk.label, sorted(refused, key=lambda r: r.place))
        self.count(rows.num_rows, chunk.label)
        if chunk.times is not None:
            self.times.append(chunk.times)
        return rows

    @property
    def sent(self) -> Ints | None:
        """Return the time at which each row was sent, in milliseconds."""
        return np.concatenate(self.times) if self.times else None

    def by_time(self, rows: pa.Table | Rows) -> pa.Table | Rows:
        """Sort rows of several partitions by the time they were sent.

        In a table with a key the last row of a key counts.
        """
        sent = self.sent
        if sent is None or not as_rows(rows).is_collected or len({label for _, label in self.producers}) < 2:
            return rows
        order = np.argsort(sent, kind="stable")
        self.times = [sent[order]]
        labels = np.repeat([label for _, label in self.producers], [count for count, _ in self.producers])[order]
        self.producers = []
        for label in labels.tolist():
            self.count(1, label)
        return as_rows(rows).table.take(pa.array(order))

    def count(self, rows: int, label: str) -> None:
        """Record that `rows` rows of a partition come next."""
        if self.producers and self.producers[-1][1] == label:
            rows += self.producers.pop()[0]
        if rows:
            self.producers.append((rows, label))

    def _reject(self, label: str, refused: Sequence[Refused]) -> None:
        self.refused += len(refused)
        room = max(0, MAX_REJECTED - len(self.rejected))
        self.rejected += [RejectedRow(self.table, label, r.offset, r.text, r.reason) for r in refused[:room]]


def gathered(
    spark: SparkSession | None,
    table: str,
    shape: MessageShape,
    chunks: Iterable[Chunk],
    by_time: bool = False,
    memory: Memory | None = None,
) -> Gathered:
    """Return all chunks; rows beyond `memory` go to a scratch file. A session is only started if rows remain undecided.

    `by_time`: order the rows of all partitions by the time they were sent, as for a table with a key.
    """
    into, rows = Gathering(spark, table, shape), Scratch(shape.schema, memory=memory)
    for chunk in chunks:
        rows.add(into.settle(chunk))
    found = rows.rows()
    ordered = into.by_time(found) if by_time or shape.primary_key else found
    return Gathered(ordered, tuple(into.rejected), into.refused, tuple(into.producers), into.sent)


def _decided(spark: SparkSession, shape: MessageShape, chunk: Chunk) -> tuple[pa.Table, list[Refused]]:
    """Return the chunk's rows including those that Spark reads, and the messages that Spark rejects."""
    frame = into_spark(spark, _records(chunk.label, chunk.undecided), FEW_BYTES)
    found = collectable(json_rows(frame, shape.payload, shape.options)).orderBy(F.col(LINE)).toArrow()
    places = np.array([u.place for u in chunk.undecided])
    index = np.arange(chunk.rows.num_rows)
    index[places] = len(index) + np.arange(len(places))
    columns: list[Any] = []
    payload = {c.name for c in shape.payload}
    for field in shape.schema:
        column = chunk.rows[field.name]
        if field.name in payload:
            read = found[field.name].cast(field.type)
            column = pa.chunked_array([*column.chunks, *read.chunks], field.type).take(pa.array(index))
        columns.append(column)
    reasons = found[REASON].to_pylist()
    refused = [_refused(u, r, shape) for u, r in zip(chunk.undecided, reasons, strict=True) if r is not None]
    return pa.table(columns, schema=shape.schema), refused


def _records(label: str, undecided: Sequence[Undecided]) -> pa.Table:
    found, size = [decoded(u.text) for u in undecided], len(undecided)
    texts, bad = pa.array([t for t, _ in found]), pa.array([b for _, b in found])
    columns = [pa.array([label] * size), pa.array([u.place for u in undecided], pa.int64()), texts, bad]
    return pa.table([*columns, *(pa.nulls(size, f.type) for f in list(RECORDS)[4:])], schema=RECORDS)


def _refused(message: Undecided, reason: str, shape: MessageShape) -> Refused:
    text = message.text.decode("utf-8", "backslashreplace")
    said = explain_json(text, shape.payload) if reason == NOT_JSON else reason_of(reason)
    return Refused(message.place, message.offset, text, said)
