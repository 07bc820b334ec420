"""Parquet files as batches of their own columns, with places and plain types.

In: a file's path, groups of its rows. Out: Arrow batches with `FILE`, `LINE` and `FAULT`. A file's text is known to be UTF-8 and its values
to be whole when a batch is out. The same code runs in the driver and in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.connectors.reading.records import FAULT, FILE, LINE, open_file

PLACES = (pa.field(FILE, pa.string()), pa.field(LINE, pa.int64()), pa.field(FAULT, pa.string()))
_PLAIN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def parquet_schema(path: str, names: Collection[str]) -> pa.Schema:
    """The plain columns of a file among `names` (whatever their case), and the places. Raises where it is no Parquet file."""
    found = pq.read_schema(open_file(path))
    empty = found.empty_table().select([n for n in found.names if n.casefold() in names])
    return pa.schema([*plain_types(empty).schema, *PLACES]).remove_metadata()


def parquet_records(
    path: str, name: str, schema: pa.Schema, groups: Sequence[int] | None = None, first: int = 1
) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of `schema`; all of them, or those of some row groups, of which the first row has the number `first`."""
    columns = schema.names[: -len(PLACES)]
    with open_file(path) as opened, pq.ParquetFile(opened) as file:
        for batch in file.iter_batches(row_groups=groups, columns=columns):
            batch.validate(full=True)  # a damaged file may hold any bytes as text
            table = plain_types(pa.Table.from_batches([batch]).select(columns))
            size = table.num_rows
            places = [
                pa.array([name]).take(pa.array(np.zeros(size, dtype=np.int64))),
                pa.array(np.arange(first, first + size)),
                pa.nulls(size, pa.string()),
            ]
            yield from pa.table([*table.columns, *places], schema=schema).combine_chunks().to_batches()
            first += size


def plain_types(table: pa.Table) -> pa.Table:
    """The table with types that Spark has: no dictionaries, no unsigned integers, microseconds in UTC."""
    return pa.table([_plain(column) for column in table.columns], names=table.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return _plain(column.cast(type_.value_type))
    if pa.types.is_timestamp(type_):
        return column.cast(pa.timestamp("us", tz="UTC"), safe=False)
    return column.cast(_PLAIN[type_]) if type_ in _PLAIN else column
