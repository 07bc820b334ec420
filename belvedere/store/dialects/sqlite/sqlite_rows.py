"""Conversion of rows between Arrow and SQLite where ADBC's own conversion loses information.

In: a layout, flat batches, results. Out: statements' text, batches to bind, flat batches. NaN is transferred as NULL
and a bit of a mask. The first row of a result is an artificial one that fixes each column's type.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.store.layout import Layout

BATCH_ROWS = 16_384
_MASK_BITS = 60
_BLANKS = {pa.int64(): "0", pa.float64(): "0.0", pa.string(): "''", pa.binary(): "x''"}


def select_statement(layout: Layout, source: str) -> str:
    """Return a query for all columns of `source`, in which the table is called `t`, with masks, after an artificial
    first row."""
    groups = _doubles(layout)
    blanks = [_BLANKS[f.type] for f in layout.flat] + ["0"] * len(groups)
    values = [
        _nan_free(f"t.{c}") if f.type == pa.float64() else f"t.{c}"
        for c, f in zip(layout.quoted, layout.flat, strict=True)
    ]
    masks = [_mask([f"t.{layout.quoted[i]}" for i in group]) for group in groups]
    return f"SELECT {', '.join(blanks)} UNION ALL SELECT {', '.join(values + masks)} FROM {source}"


def selected(layout: Layout, batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the flat rows of a `select_statement`'s result."""
    skip = 1
    for batch in batches:
        yield _unmasked(layout, batch.slice(skip))
        skip = 0


def insert_statement(layout: Layout, batch: pa.RecordBatch) -> tuple[str, pa.RecordBatch]:
    """Return an INSERT of the rows of a flat batch, and the batch to bind to it."""
    values = [f"?{n + 1}" for n in range(len(layout.flat))]
    columns = list(batch.columns)
    for group in _doubles(layout):
        mask = _nan_bits(batch, group)
        if mask is not None:
            columns.append(mask)
            for bit, i in enumerate(group):
                values[i] = f"CASE WHEN ?{len(columns)} & {1 << bit} THEN 'NaN' ELSE ?{i + 1} END"
    bound = pa.RecordBatch.from_arrays(columns, [str(n) for n in range(len(columns))])
    return f"INSERT INTO {layout.name} ({layout.column_list}) VALUES ({', '.join(values)})", bound


def _doubles(layout: Layout) -> list[tuple[int, ...]]:
    """Return the positions of columns that can hold NaN, in groups that fit into the bits of one integer."""
    places = tuple(i for i, f in enumerate(layout.flat) if f.type == pa.float64())
    return [places[i : i + _MASK_BITS] for i in range(0, len(places), _MASK_BITS)]


def _nan_free(column: str) -> str:
    return f"CASE WHEN typeof({column})='text' THEN NULL ELSE {column} END"


def _mask(columns: list[str]) -> str:
    return "|".join(f"((typeof({c})='text')<<{bit})" for bit, c in enumerate(columns))


def _nan_bits(batch: pa.RecordBatch, group: tuple[int, ...]) -> pa.Array | None:
    """Return per row one bit for each NaN in the doubles of the group, or None if there is no NaN."""
    result = None
    for bit, i in enumerate(group):
        values = batch.column(i)
        found = pc.fill_null(pc.is_nan(values), False)
        if pc.any(found).as_py():
            bits = pc.multiply(found.cast(pa.int64()), 1 << bit)
            result = bits if result is None else pc.add(result, bits)
    return result


def _unmasked(layout: Layout, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of a result, with NaN as the masks say."""
    columns = list(batch.columns)
    for group, mask in zip(_doubles(layout), columns[len(layout.flat) :], strict=True):
        if pc.any(pc.not_equal(mask, 0)).as_py():
            for bit, i in enumerate(group):
                is_nan = pc.not_equal(pc.bit_wise_and(mask, 1 << bit), 0)
                columns[i] = pc.if_else(is_nan, float("nan"), columns[i])
    return pa.RecordBatch.from_arrays(columns[: len(layout.flat)], schema=layout.flat)
