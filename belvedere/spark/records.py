"""What a run notes down beside the views: the files it has read and the rows it could not use.

In: files and rejected rows of one epoch. Out: Arrow tables for two stored tables that are appended to in the epoch's own
transaction, so that they are true after any crash. They are no relations of the pipeline: no view reads them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from belvedere.schema import KEY, TIMESTAMP, Column, Schema
from belvedere.store.protocol import StoredTable

FILES = StoredTable(
    "_belvedere_files",
    Schema(
        (
            Column("source", pa.string(), nullable=False),
            Column("path", pa.string(), nullable=False),
            Column("length", pa.int64(), nullable=False),
            Column("modified", TIMESTAMP, nullable=False),
            Column("epoch", pa.int64(), nullable=False),
        ),
        ("source", "path", "epoch"),
    ),
    indexes=(("epoch",),),
)

REJECTED = StoredTable(
    "_belvedere_rejected",
    Schema(
        (
            Column("table", pa.string(), nullable=False),
            Column("file", pa.string()),
            Column("line", pa.int64()),
            Column("text", pa.string()),
            Column("reason", pa.string(), nullable=False),
            Column("epoch", pa.int64(), nullable=False),
            Column("rejected_at", TIMESTAMP, nullable=False),
        )
    ),
    indexes=(("table", "epoch"),),
)

RECORDS = (FILES, REJECTED)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: its local path, its length in bytes and when it was last modified."""

    path: str
    length: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that its table cannot take, or a whole file (`line` and `text` None), and why."""

    table: str
    file: str | None
    line: int | None
    text: str | None
    reason: str


def record_files(files: Iterable[tuple[str, SourceFile]], epoch: int) -> pa.Table:
    """Rows of `FILES`: pairs of a source's name and a file that this epoch reads."""
    names = FILES.arrow.names
    rows = [(s, f.path, f.length, f.modified, epoch, f"{s}\n{f.path}\n{epoch}") for s, f in files]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=FILES.arrow)


def record_rejected(rejected: Iterable[RejectedRow], epoch: int, now: datetime | None = None) -> pa.Table:
    """Rows of `REJECTED`. Their key is random: the same bad row may well come twice."""
    at = now or datetime.now(UTC)
    rows = [
        {
            "table": r.table,
            "file": r.file,
            "line": r.line,
            "text": r.text,
            "reason": r.reason,
            "epoch": epoch,
            "rejected_at": at,
            KEY: uuid.uuid4().hex,
        }
        for r in rejected
    ]
    return pa.Table.from_pylist(rows, schema=REJECTED.arrow)
