"""What each epoch took of the sources that can be read again: enough to make the same rows once more, with the same numbers.

In: spans of an epoch, and the rows that were made of them. Out: a stored table that is appended to in the epoch's own transaction,
and from it the epochs of an input again. No view reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.store.protocol import Reader, StoredTable
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


@dataclass(frozen=True)
class Span:
    """What an epoch takes of one input's source: from an offset to another (None: rejected rows that were tried again)."""

    input: str
    begin: Mapping[str, Any]
    end: Mapping[str, Any] | None
    used: int
    """How many of its rows were used: neither late nor rejected."""
    refused: int
    """How many rows and files were rejected."""
    clocks: Clocks
    """The clocks by which its rows were judged."""


@dataclass(frozen=True)
class PastSpan:
    """The same once it was committed: in which epoch, at which clock, from which `_uid` on."""

    span: Span
    epoch: int
    clock: datetime
    first_uid: int


def record_spans(
    spans: Iterable[Span], taken: Mapping[str, StampedRows], epoch: int, clock: datetime, next_uid: int
) -> tuple[pa.Table, int]:
    """Rows of `SPANS`, and the number that is free after them; `taken` are the rows that the epoch made of the inputs.

    Rows of an input that no view reads yet are numbered too, from `next_uid` on.
    """
    names = SPANS.arrow.names
    rows = []
    for span in spans:
        found = taken.get(span.input)
        first = next_uid if found is None else found.next_uid - found.rows
        next_uid += span.used if found is None else 0
        end = None if span.end is None else _text(span.end)
        clocks = _text(span.clocks.as_document()["streams"])
        key = f"{span.input}\n{epoch}"
        rows.append((span.input, epoch, clock, _text(span.begin), end, first, span.used, span.refused, clocks, key))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=SPANS.arrow), next_uid


def past_spans(reader: Reader, ids: Iterable[str], offsets: Mapping[str, Any]) -> dict[str, tuple[PastSpan, ...]]:
    """By input id what epochs have taken, the earliest first, of those inputs (of `ids`) of which each epoch is known up to `offsets`."""
    rows = sorted(reader.rows(SPANS).to_pylist(), key=lambda r: r["epoch"])
    found: dict[str, tuple[PastSpan, ...]] = {}
    for id_ in ids:
        whole = _whole([_past(r) for r in rows if r["input"] == id_], offsets.get(id_) or {})
        if whole is not None:
            found[id_] = whole
    return found


def _past(row: Mapping[str, Any]) -> PastSpan:
    end = None if row["end_offset"] is None else json.loads(row["end_offset"])
    clocks = Clocks.of_document({"streams": json.loads(row["clocks"])})
    span = Span(row["input"], json.loads(row["begin_offset"]), end, row["used"], row["refused"], clocks)
    return PastSpan(span, row["epoch"], row["clock"], row["first_uid"])


def _whole(spans: list[PastSpan], offset: Mapping[str, Any]) -> tuple[PastSpan, ...] | None:
    """The spans from the source's beginning to the offset; None where one between is not known, or can never be read again."""
    found: list[PastSpan] = []
    at: Mapping[str, Any] = {}
    for past in spans:
        if past.span.end is None:
            if past.span.used:
                return None  # rejected rows that were tried again came from no place of the source
            continue
        if not past.span.begin:
            found, at = [], {}  # the source was read from its beginning again
        if past.span.begin != at:
            return None
        found.append(past)
        at = past.span.end
    return tuple(found) if at == offset else None


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)
