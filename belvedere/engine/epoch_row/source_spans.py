"""Ranges of re-readable sources that each epoch read: enough to create the same rows again, with the same numbers.

In: ranges of an epoch, and the rows created from them. Out: a stored table to which the epoch's own transaction
appends, and the epochs of an input from it. They are Arrow rows that are converted to objects on use, because there is
a row for each epoch so far. No view reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.dialect import literal
from belvedere.store.identifiers import identifier
from belvedere.store.protocol import Reader
from belvedere.store.stored_table import StoredTable
from belvedere.time.event_time import Clocks

if TYPE_CHECKING:
    from belvedere.engine.ingest import StampedRows

SPANS = StoredTable(
    "_belvedere_spans",
    Schema(
        (
            Column("input", pa.string(), nullable=False),
            Column("epoch", pa.int64(), nullable=False),
            Column("clock", TIMESTAMP, nullable=False),
            Column("begin_offset", pa.string(), nullable=False),
            Column("end_offset", pa.string()),
            Column("first_uid", pa.int64(), nullable=False),
            Column("used", pa.int64(), nullable=False),
            Column("refused", pa.int64(), nullable=False),
            Column("clocks", pa.string(), nullable=False),
        ),
        ("input", "epoch"),
    ),
)


SINCE = "~since"
"""Name among the clocks of a span: the earliest clock at which its rows may have arrived."""
OBJECTS = 1_000
"""Number of rows converted to objects at a time."""


@dataclass(frozen=True)
class SourceSpan:
    """Range of one input's source in an epoch: from an offset to another (None: retried rejected rows)."""

    input: str
    begin: Mapping[str, Any]
    end: Mapping[str, Any] | None
    used: int
    """Number of its rows that were used: neither late nor rejected."""
    refused: int
    """Number of rejected rows and files."""
    clocks: Clocks
    """Clocks against which its rows were checked."""
    since: int | None = None
    """Earliest clock at which its rows may have arrived, in microseconds, if the source reports arrival times."""


@dataclass(frozen=True)
class PastSpan:
    """A committed span, with its epoch, that epoch's clock, and its first `_uid`."""

    span: SourceSpan
    epoch: int
    clock: datetime
    first_uid: int
    left: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """Everything that was rejected then, if recorded: the lines by path of a file, None for the whole file."""


def record_spans(
    spans: Iterable[SourceSpan], taken: Mapping[str, StampedRows], epoch: int, clock: datetime, next_uid: int
) -> tuple[pa.Table, int]:
    """Return the rows of `SPANS`, and the next free number.

    `taken` are the rows that the epoch created from the inputs.

    Rows of an input that no view reads yet are also numbered, from `next_uid` on.
    """
    names = SPANS.arrow.names
    rows = []
    for span in spans:
        found = taken.get(span.input)
        first = next_uid if found is None else found.next_uid - found.rows
        next_uid += span.used if found is None else 0
        end = None if span.end is None else _text(span.end)
        clocks = _text(span.clocks.as_document()["streams"] | ({} if span.since is None else {SINCE: span.since}))
        key = f"{span.input}\n{epoch}"
        rows.append((span.input, epoch, clock, _text(span.begin), end, first, span.used, span.refused, clocks, key))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=SPANS.arrow), next_uid


@dataclass(frozen=True)
class PastSpans:
    """Ranges of one input in all epochs, without a gap, in order of epochs."""

    rows: pa.Table
    """The columns of `SPANS`, in ascending order of epochs.

    `begin_offset` is the preceding `end_offset`, and is not stored.
    """
    begin: str = "{}"
    """Offset at which the first range begins."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __iter__(self) -> Iterator[PastSpan]:
        begin = json.loads(self.begin)
        for batch in self.rows.to_batches(OBJECTS):
            for row in batch.to_pylist():
                end, streams = json.loads(row["end_offset"] or "null"), json.loads(row["clocks"])
                since = streams.pop(SINCE, None)
                clocks = Clocks.of_document({"streams": streams})
                span = SourceSpan(row["input"], begin, end, row["used"], row["refused"], clocks, since)
                yield PastSpan(span, row["epoch"], row["clock"], row["first_uid"])
                begin = begin if end is None else end

    @property
    def used(self) -> int:
        """Return the number of rows that were used."""
        return int(pc.sum(self.rows["used"]).as_py() or 0)

    def after(self, epoch: int) -> PastSpans:
        """Return the ranges of later epochs."""
        known = int(pc.sum(pc.less_equal(self.rows["epoch"], epoch)).as_py() or 0)
        ends = self.rows["end_offset"].slice(0, known).drop_null()
        return PastSpans(self.rows.slice(known), ends[-1].as_py() if len(ends) else self.begin)

    @property
    def retried(self) -> frozenset[int]:
        """Return the epochs that accepted retried rejected rows."""
        return frozenset(self.rows.filter(pc.is_null(self.rows["end_offset"]))["epoch"].to_pylist())


def past_spans(reader: Reader, ids: Iterable[str], offsets: Mapping[str, Any]) -> dict[str, PastSpans]:
    """Return by input id the ranges that epochs have read, for those inputs among `ids` whose ranges are all known up
    to `offsets`."""
    found = {}
    for id_ in ids:
        rows = of_input(reader, SPANS, "input", id_, " AND (end_offset IS NOT NULL OR used > 0)")
        whole = _whole(rows, offsets.get(id_) or {})
        if whole is not None:
            found[id_] = whole
    return found


def of_input(reader: Reader, table: StoredTable, column: str, id_: str, condition: str = "") -> pa.Table:
    """Return the rows of a stored table in which a column names an input, in any order, without `_key`."""
    value = literal(DIALECTS[reader.dialect].escape(id_))
    query = f"SELECT * FROM {identifier(table.name)} WHERE {identifier(column)} = {value}{condition}"
    return reader.rows(StoredTable("", table.schema, query=query))


def _whole(rows: pa.Table, offset: Mapping[str, Any]) -> PastSpans | None:
    """Return the spans from the source's beginning to the offset, or None if one between is not known.

    Spans of retried rejected rows are included; they have no position in the source.
    """
    rows = rows.sort_by("epoch")
    beginnings = pc.indices_nonzero(pc.and_(pc.equal(rows["begin_offset"], "{}"), pc.is_valid(rows["end_offset"])))
    if len(beginnings):  # the last one: the source may have been read from its beginning again
        rows = rows.slice(beginnings[-1].as_py())
    moving = rows.filter(pc.is_valid(rows["end_offset"]))
    begins = pa.chunked_array([*moving["begin_offset"].chunks, [_text(offset)]], pa.string())
    ends = pa.chunked_array([["{}"], *moving["end_offset"].chunks], pa.string())
    differ = pc.indices_nonzero(pc.not_equal(begins, ends)).to_pylist()
    if any(json.loads(begins[i].as_py()) != json.loads(ends[i].as_py()) for i in differ):
        return None
    return PastSpans(rows.drop_columns("begin_offset"))


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)
