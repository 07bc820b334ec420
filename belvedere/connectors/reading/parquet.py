"""Parquet files as batches of their own columns, with places and plain types.

In: a file's path, groups of its rows. Out: Arrow batches with `FILE`, `LINE` and `FAULT`. A file's text is known to be UTF-8 and its values
to be whole when a batch is out. The same code runs in the driver and in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.connectors.reading.long_lines import too_long
from belvedere.connectors.reading.records import FAULT, FILE, LIMIT, LINE, open_file

PLACES = (pa.field(FILE, pa.string()), pa.field(LINE, pa.int64()), pa.field(FAULT, pa.string()))
MOST_ROWS, BATCH_BYTES = 65_536, 64 << 20
"""Rows and bytes that are read together."""
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
    path: str, name: str, schema: pa.Schema, groups: Sequence[int] | None = None, first: int = 1, limit: int = LIMIT
) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of `schema`; all of them, or those of some row groups, of which the first row has the number `first`.

    A row with more than `limit` bytes of text has only NULLs and a fault.
    """
    columns = schema.names[: -len(PLACES)]
    with open_file(path) as opened, pq.ParquetFile(opened) as file:
        for batch in file.iter_batches(_batch_rows(file.metadata), row_groups=groups, columns=columns):
            batch.validate(full=True)  # a damaged file may hold any bytes as text
            long = pa.array(_bytes_of_rows(batch) > limit)
            table = plain_types(pa.Table.from_batches([batch]).select(columns))
            size = table.num_rows
            if long.true_count:
                table = pa.table({n: pc.if_else(long, pa.scalar(None, table[n].type), table[n]) for n in columns})
            places = [
                pa.array([name]).take(pa.array(np.zeros(size, dtype=np.int64))),
                pa.array(np.arange(first, first + size)),
                pc.if_else(long, pa.scalar(too_long("the row"), pa.string()), pa.scalar(None, pa.string())),
            ]
            yield from pa.table([*table.columns, *places], schema=schema).combine_chunks().to_batches()
            first += size


def _batch_rows(file: pq.FileMetaData) -> int:
    """Rows that are read together: many, unless they are large."""
    sizes = ((g.total_byte_size, g.num_rows) for g in (file.row_group(n) for n in range(file.num_row_groups)))
    widest = max((size / max(1, rows) for size, rows in sizes), default=1.0)
    return int(max(1, min(MOST_ROWS, BATCH_BYTES / max(1.0, widest))))


def _bytes_of_rows(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The bytes of text and binary values of each row, those within lists and structs not counted."""
    found = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_string(values.type):
            found += pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


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
