"""Files divided into pieces, each of which one task reads; and the batches of a piece.

In: files of one format. Out: pieces in order, which can be pickled, and Arrow batches of each. Plain JSON lines are
divided at ends of lines, Parquet between row groups. Each other file is one piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.connectors.reading.formats import delimiter_of, first_line, has_header
from belvedere.connectors.reading.long_lines import STEP, limit_of
from belvedere.connectors.reading.parquet import parquet_records
from belvedere.connectors.reading.text_records import (
    FAULT,
    FILE,
    READ_ERRORS,
    RECORDS,
    compression_of,
    csv_records,
    is_utf16,
    json_records,
    line_breaks,
    open_file,
    values_of,
)
from belvedere.values.rejections import Reason, RejectionKind

PIECE_BYTES = 32 << 20
MAX_PIECES = 1_000
WHOLE_BYTES = 64 << 20
"""Maximum bytes of a file that a sample reads to its end."""


@dataclass(frozen=True)
class Piece:
    """A file, or a part of it: bytes `start` to `end` of text, or some row groups of Parquet.

    `first` is the number of its first record.
    """

    path: str
    name: str
    """Path of the file as text."""
    format: str
    options: Mapping[str, Any]
    schema: pa.Schema = RECORDS
    start: int = 0
    end: int | None = None
    groups: tuple[int, ...] | None = None
    first: int = 1
    size: int = 0
    """Approximate size in bytes."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the records. Raises one of `READ_ERRORS` if the file cannot be read to its end."""
        if self.format == "json":
            return json_records(self.path, self.name, self.start, self.end, self.first, limit_of(self.options))
        if self.format == "csv":
            delimiter = delimiter_of(self.path, self.options)
            return csv_records(self.path, self.name, delimiter, has_header(self.options), limit_of(self.options))
        return parquet_records(self.path, self.name, self.schema, self.groups, self.first, limit_of(self.options))


def what_is_wrong(format_: str, error: BaseException) -> Reason:
    """Return the reason for rejecting a whole file."""
    how = "is not a complete Parquet file" if format_ == "parquet" else "cannot be read"
    return Reason(f"{how}: {first_line(error)}", RejectionKind.FILE, how)


def cut(piece: Piece, size: int | None = None) -> Iterator[Piece]:
    """Divide a whole file into pieces of about `size` bytes. Raises one of `READ_ERRORS`."""
    size = size or PIECE_BYTES
    if piece.format == "parquet":
        return _row_groups(piece, size)
    plain = piece.format == "json" and compression_of(piece.path) is None and not is_utf16(piece.path)
    if plain and values_of(piece.path) is None:
        return _lines(piece, size)
    return iter((piece,))


def _lines(piece: Piece, size: int) -> Iterator[Piece]:
    with open(piece.path, "rb") as file:
        start, first = 0, piece.first
        while block := file.read(size):
            length, lines = len(block), line_breaks(block)
            while block and not block.endswith(b"\n"):
                block = file.readline(STEP)  # a line may be long
                length, lines = length + len(block), lines + block.endswith(b"\n")
            yield replace(piece, start=start, end=start + length, first=first, size=length)
            start, first = start + length, first + lines


def _row_groups(piece: Piece, size: int) -> Iterator[Piece]:
    found = pq.read_metadata(open_file(piece.path))
    groups: list[int] = []
    held, first, rows = 0, 1, 0
    for number in range(found.num_row_groups):
        group = found.row_group(number)
        groups.append(number)
        held, rows = held + group.total_byte_size, rows + group.num_rows
        if held >= size or number == found.num_row_groups - 1:
            yield replace(piece, groups=tuple(groups), first=first, size=held)
            groups, held, first, rows = [], 0, first + rows, 0


def ends(piece: Piece, most: int) -> Iterator[pa.RecordBatch]:
    """Return the first and last records of a file, `most` in total; of a large file the first ones.

    Raises `READ_ERRORS`.
    """
    last = 0 if piece.size > WHOLE_BYTES else most // 2
    first, behind = most - last, deque[pa.RecordBatch]()
    for batch in piece.batches():
        if first:
            yield batch.slice(0, first)
        elif not last:
            return
        behind.append(batch.slice(first))
        first -= min(first, batch.num_rows)
        while len(behind) > 1 and sum(b.num_rows for b in behind) - behind[0].num_rows >= last:
            behind.popleft()
    rest = pa.Table.from_batches(behind, piece.schema)
    yield from (b for b in rest.slice(max(0, rest.num_rows - last)).to_batches() if b.num_rows)


def packed(pieces: Iterable[Piece], size: int | None = None) -> list[tuple[Piece, ...]]:
    """Return the pieces of each task, in order, about `size` bytes in total: a task costs more than a small file."""
    tasks: list[tuple[Piece, ...]] = []
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if sum(p.size for p in held) >= (size or PIECE_BYTES) or len(held) >= MAX_PIECES:
            tasks.append(tuple(held))
            held = []
    return [*tasks, tuple(held)] if held else tasks


def task_of(tasks: Sequence[Sequence[Piece]]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task, which takes the task's number; a failure is a row."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for piece in (p for number in batch.column(0).to_pylist() for p in tasks[number]):
                try:
                    yield from piece.batches()
                except READ_ERRORS as error:
                    yield _fault(piece, what_is_wrong(piece.format, error))

    return read


def _fault(piece: Piece, reason: Reason) -> pa.RecordBatch:
    said = {FILE: piece.name, FAULT: reason.coded}
    columns = [pa.array([said.get(f.name)], f.type) for f in piece.schema]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.with_nullable(True) for f in piece.schema]))
