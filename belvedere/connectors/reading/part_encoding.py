"""Transfer of parsed parts of files from Spark's tasks to the driver: typed rows, and raw records left for Spark.

In: tasks with their pieces. Out: batches of `task_schema`, which executors write to files unchanged, and tables of rows
made from them. A file that cannot be read to its end is a row with a fault and without a position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from belvedere.connectors.reading.file_pieces import Piece, what_is_wrong
from belvedere.connectors.reading.text_records import FAULT, FILE, READ_ERRORS
from belvedere.connectors.reading.typed_files import parts_of
from belvedere.connectors.reading.typed_records import RecordForm, RecordPart
from belvedere.decode.row_values import placed
from belvedere.values.rejections import Reason

NUMBER, ORDER = "__number", "__order"
"""Columns with the number of a row's file, and with its position after the rows of earlier tasks."""
TASK_BITS = 40


def task_schema(form: RecordForm, raw: pa.Schema) -> pa.Schema:
    """Return the schema of a task: the table's columns, `NUMBER`, `ORDER`, and raw records, NULL for typed rows.

    Columns are named by number, since names may be repeated.
    """
    fields = [*form.schema, pa.field(NUMBER, pa.int32()), pa.field(ORDER, pa.int64()), *raw]
    return pa.schema([pa.field(f"c{n}", f.type) for n, f in enumerate(fields)])


def task_of_parts(
    tasks: Sequence[Sequence[Piece]], form: RecordForm, numbers: Mapping[str, int]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task, which takes the task's number; `numbers` are those of the files, by name."""

    def read(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in (n for batch in given for n in batch.column(0).to_pylist()):
            first = task << TASK_BITS
            for piece in tasks[task]:
                try:
                    for part in parts_of(piece, form):
                        if not part.rows.num_rows:
                            continue
                        yield _encoded_part(part, piece, form, numbers[piece.name], first)
                        first += part.rows.num_rows
                except READ_ERRORS as error:
                    yield _fault(piece, form, numbers[piece.name], what_is_wrong(piece.format, error))

    return read


def _encoded_part(part: RecordPart, piece: Piece, form: RecordForm, number: int, first: int) -> pa.RecordBatch:
    size = part.rows.num_rows
    raw = pa.Table.from_batches([] if part.left is None else [part.left], piece.schema)
    numbers = [pa.array(np.full(size, number, np.int32)), pa.array(np.arange(first, first + size))]
    columns = [*part.rows.columns, *numbers, *placed(raw, part.places, size).columns]
    return pa.table(columns, schema=task_schema(form, piece.schema)).combine_chunks().to_batches()[0]


def _fault(piece: Piece, form: RecordForm, number: int, reason: Reason) -> pa.RecordBatch:
    said = {NUMBER: number, FILE: piece.name, FAULT: reason.coded}
    names = [*(None for _ in form.schema), NUMBER, ORDER, *piece.schema.names]
    schema = task_schema(form, piece.schema)
    columns = [pa.array([said.get(name or "")], f.type) for name, f in zip(names, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
