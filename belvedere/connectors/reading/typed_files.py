"""The parts of a file, of any format: rows in the types of their table, and the records that are left for Spark.

In: a piece of a file, and the form of its records. Out: parts in order. The same code runs in the driver and in Spark's
tasks: nothing here imports PySpark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.reading.computed_ahead import computed_ahead
from belvedere.connectors.reading.file_pieces import Piece
from belvedere.connectors.reading.formats import time_formats
from belvedere.connectors.reading.long_lines import TooLong, limit_of, whole_lines
from belvedere.connectors.reading.parquet import has_types, parquet_batches, parquet_parts
from belvedere.connectors.reading.text_records import (
    BAD,
    FAULT,
    LINE,
    READ_ERRORS,
    TEXT,
    chunks_of,
    json_block,
    json_records,
    line_breaks,
    too_long_record,
    values_of,
)
from belvedere.connectors.reading.typed_csv import csv_parts
from belvedere.connectors.reading.typed_records import RecordForm, RecordPart, left_alone
from belvedere.decode.json_objects import is_readable, rows_of_block, rows_of_texts
from belvedere.decode.row_values import placed
from belvedere.schema import CONTROL

SIGN = f'"{CONTROL}"'.encode()
Unmarked: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch | None]
"""Function that removes control rows from records; None if nothing remains."""


def is_typed(piece: Piece, form: RecordForm) -> bool:
    """Return whether most records of a piece can be read without Spark."""
    if piece.format == "json":
        return not time_formats(form.options, "json") and is_readable(form.columns)
    try:
        return piece.format == "csv" or has_types(piece.path, form)
    except READ_ERRORS:
        return False  # its reader reports that


def parts_of(
    piece: Piece, form: RecordForm, unmarked: Unmarked | None = None, threads: int = 1
) -> Iterator[RecordPart]:
    """Yield the parts of a piece, with `threads` threads for texts.

    Raises `READ_ERRORS` if the file is not readable to its end.
    """
    if piece.format == "json":
        return _json_parts(piece, form, unmarked, threads)
    if piece.format == "csv":
        return csv_parts(piece.path, piece.name, form, threads)
    return parquet_parts(piece.path, piece.name, piece.schema, form, piece.groups, piece.first)


def check_whole(piece: Piece) -> None:
    """Raise one of `READ_ERRORS` if the file cannot be read to its end."""
    bytes_or_values: Iterator[object] = chunks_of(piece.path)
    if piece.format == "parquet":
        bytes_or_values = parquet_batches(piece.path, piece.schema, piece.groups)
    deque(bytes_or_values, maxlen=0)


def _json_parts(piece: Piece, form: RecordForm, unmarked: Unmarked | None, threads: int) -> Iterator[RecordPart]:
    limit = limit_of(form.options)
    if piece.end is None and values_of(piece.path) is not None:
        for batch in json_records(piece.path, piece.name, limit=limit):
            yield from _recorded(batch, piece.name, form, unmarked)
        return

    def parts(numbered: tuple[int, bytes | TooLong]) -> list[RecordPart]:
        first, block = numbered
        if isinstance(block, TooLong):
            return [left_alone(too_long_record(piece.name, first, block), piece.name, np.array([first]), form)]
        return list(_block_parts(block, first, piece, form, limit, unmarked)) if block else []

    blocks = _numbered(whole_lines(chunks_of(piece.path, piece.start, piece.end), limit), piece.first)
    for found, _ in computed_ahead(parts, blocks, threads if unmarked is None else 1):  # marks must stay in order
        yield from found


def _numbered(blocks: Iterator[bytes | TooLong], first: int) -> Iterator[tuple[int, bytes | TooLong]]:
    """Yield blocks with the numbers of their first lines."""
    for block in blocks:
        yield first, block
        first += 1 if isinstance(block, TooLong) else line_breaks(block) + 1


def _block_parts(
    block: bytes, first: int, piece: Piece, form: RecordForm, limit: int, unmarked: Unmarked | None
) -> Iterator[RecordPart]:
    """Yield the parts of a block of lines."""
    has_marks = unmarked is not None and SIGN in block
    found = None if has_marks or len(block) > limit else rows_of_block(block, form.columns, form.only_known)
    if found is None:
        for batch in json_block(piece.name, first, block, limit):
            yield from _recorded(batch, piece.name, form, unmarked)
        return
    rows, left = found
    places, lines = np.flatnonzero(left), np.arange(first, first + len(left))
    records = None
    if len(places):
        records = next(json_block(piece.name, first, block, limit)).take(pa.array(places))
    yield RecordPart(piece.name, rows, lines, places, records)


def _recorded(batch: pa.RecordBatch, name: str, form: RecordForm, unmarked: Unmarked | None) -> Iterator[RecordPart]:
    """Yield the part of a batch of records."""
    unmarked_batch = batch if unmarked is None else unmarked(batch)
    if unmarked_batch is None or not unmarked_batch.num_rows:
        return
    batch = unmarked_batch
    whole = np.asarray(pc.and_not(pc.is_null(batch.column(FAULT)), batch.column(BAD)))
    texts = batch.column(TEXT).filter(pa.array(whole)).cast(pa.binary()).to_pylist()
    rows, left = rows_of_texts(texts, form.columns, form.only_known)
    flags = ~whole
    flags[whole] = left
    places = np.flatnonzero(flags)
    records = batch.take(pa.array(places)) if len(places) else None
    lines = batch.column(LINE).to_numpy(zero_copy_only=False)
    yield RecordPart(name, placed(rows, np.flatnonzero(whole), batch.num_rows), lines, places, records)
