"""Parquet files as batches of their own columns, with positions and plain types.

In: a file's path, groups of its rows. Out: Arrow batches with `FILE`, `LINE` and `FAULT`. Before a batch is returned,
its text was checked to be UTF-8 and its values to be complete. The same code runs in the driver and in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.connectors.reading.long_lines import limit_of, too_long
from belvedere.connectors.reading.text_records import FAULT, FILE, LIMIT, LINE, open_file
from belvedere.connectors.reading.typed_records import RecordForm, RecordPart
from belvedere.decode.row_values import Values, typed_values
from belvedere.decode.text_values import Flags, read_in_parts
from belvedere.schema import TIMESTAMP
from belvedere.values.decimals import DIGITS
from belvedere.values.rejections import RejectionKind, code

T = pa.types
PLACES = (pa.field(FILE, pa.string()), pa.field(LINE, pa.int64()), pa.field(FAULT, pa.string()))
MAX_ROWS, BATCH_BYTES = 65_536, 64 << 20
"""Maximum numbers of rows and bytes that are read together."""
_PLAIN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_LISTS = (T.is_list, T.is_large_list, T.is_fixed_size_list, T.is_list_view, T.is_large_list_view)
_MOST = {"s": (2**63 - 1) // 1_000_000, "ms": (2**63 - 1) // 1_000}
"""Maximum times by unit whose microseconds fit 64 bits."""


def parquet_schema(path: str, names: Collection[str]) -> pa.Schema:
    """Return the plain columns of a file among `names` (ignoring case), and the position columns.

    Raises an error if it is not a Parquet file.
    """
    found = pq.read_schema(open_file(path))
    empty = found.empty_table().select([n for n in found.names if n.casefold() in names])
    return pa.schema([*plain_types(empty).schema, *PLACES]).remove_metadata()


def parquet_records(
    path: str, name: str, schema: pa.Schema, groups: Sequence[int] | None = None, first: int = 1, limit: int = LIMIT
) -> Iterator[pa.RecordBatch]:
    """Return the rows with the columns of `schema`: all rows, or those of row groups, the first with number `first`.

    A row with more than `limit` bytes of text has only NULLs and a fault.
    """
    for batch in parquet_batches(path, schema, groups):
        yield from _records(
            batch, name, schema, np.arange(first, first + batch.num_rows), _bytes_of_rows(batch) > limit
        )
        first += batch.num_rows


def parquet_parts(
    path: str, name: str, schema: pa.Schema, form: RecordForm, groups: Sequence[int] | None = None, first: int = 1
) -> Iterator[RecordPart]:
    """Return the same rows in the types of a table; the file's types differ from these at most in width
    (`has_types`)."""
    limit = limit_of(form.options)
    found = {n.casefold(): n for n in schema.names[: -len(PLACES)]}
    for batch in parquet_batches(path, schema, groups):
        long = _bytes_of_rows(batch) > limit
        lines = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        names = {c: found[c.name.casefold()] for c in form.columns if c.name.casefold() in found}
        values: Values = {c.name: _widened(batch.column(n), c.type) for c, n in names.items()}
        rows, left = typed_values(values, form.columns, batch.num_rows)
        places = np.flatnonzero(left | long)
        records = None
        if len(places):
            some = batch.take(pa.array(places))
            records = pa.Table.from_batches(
                list(_records(some, name, schema, lines[places], long[places]))
            ).combine_chunks()
        yield RecordPart(name, rows, lines, places, records.to_batches()[0] if records is not None else None)


def has_types(path: str, form: RecordForm) -> bool:
    """Return whether a file's columns have the table's types, or narrower ones, so values need no further check."""
    requested = {c.name.casefold(): c.type for c in form.columns}
    found = [(f.name.casefold(), f.type) for f in pq.read_schema(open_file(path)) if f.name.casefold() in requested]
    return len({name for name, _ in found}) == len(found) and all(
        _is_as(type_, requested[name]) for name, type_ in found
    )


def _is_as(given: pa.DataType, requested: pa.DataType) -> bool:
    if T.is_dictionary(given):
        return _is_as(given.value_type, requested)
    if T.is_timestamp(given):
        return bool(given.unit in ("ms", "us") and requested == TIMESTAMP)
    if T.is_integer(given) and T.is_signed_integer(requested):
        return bool(given.bit_width + (not T.is_signed_integer(given)) <= requested.bit_width)
    if T.is_list(given) and T.is_list(requested):
        return _is_as(given.value_type, requested.value_type)
    if T.is_struct(given) and T.is_struct(requested):
        return [f.name for f in given] == [f.name for f in requested] and all(
            _is_as(a.type, b.type) for a, b in zip(given, requested, strict=True)
        )
    if T.is_large_string(given) or T.is_string_view(given):
        return bool(T.is_string(requested))
    return bool(given == requested and not T.is_nested(given))


def _widened(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags | None]:
    """Return values in the table's type, and flags of values with a time out of TIMESTAMP's range."""
    return (values, None) if values.type == type_ else read_in_parts(lambda v, t: v.cast(t), values, type_)


def parquet_batches(path: str, schema: pa.Schema, groups: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
    """Yield the columns of `schema` in the file's types."""
    with open_file(path) as opened, pq.ParquetFile(opened) as file:
        for batch in file.iter_batches(
            _batch_rows(file.metadata), row_groups=groups, columns=schema.names[: -len(PLACES)]
        ):
            batch.validate(full=True)  # a damaged file may hold any bytes as text
            yield batch


def _records(
    batch: pa.RecordBatch, name: str, schema: pa.Schema, lines: npt.NDArray[np.int64], long: npt.NDArray[np.bool_]
) -> Iterator[pa.RecordBatch]:
    columns = schema.names[: -len(PLACES)]
    whole, lost = without_lost_times(batch)
    table, size, flags = plain_types(pa.Table.from_batches([whole]).select(columns)), batch.num_rows, pa.array(long)
    if long.any():
        table = pa.table({n: pc.if_else(flags, pa.scalar(None, table[n].type), table[n]) for n in columns})
    places = [
        pa.array([name]).take(pa.array(np.zeros(size, dtype=np.int64))),
        pa.array(lines),
        pc.if_else(flags, pa.scalar(too_long("the row").coded, pa.string()), lost),
    ]
    yield from pa.table([*table.columns, *places], schema=schema).combine_chunks().to_batches()


def _batch_rows(file: pq.FileMetaData) -> int:
    """Return the number of rows to read together: fewer if they are large."""
    sizes = ((g.total_byte_size, g.num_rows) for g in (file.row_group(n) for n in range(file.num_row_groups)))
    widest = max((size / max(1, rows) for size, rows in sizes), default=1.0)
    return int(max(1, min(MAX_ROWS, BATCH_BYTES / max(1.0, widest))))


def _bytes_of_rows(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the bytes of text and binary values of each row, without those within lists and structs."""
    found = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        values = column.dictionary_decode() if T.is_dictionary(column.type) else column
        if values.type in (pa.string_view(), pa.binary_view()):
            values = values.cast(plain_type(values.type))
        if T.is_string(values.type) or T.is_binary(values.type) or T.is_large_string(values.type):
            found += pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def without_lost_times(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
    """Replace times that microseconds cannot represent exactly by NULL, and return the reasons by row."""
    lost = pa.nulls(batch.num_rows, pa.string())
    for place, field in enumerate(batch.schema):
        if not T.is_timestamp(field.type) or field.type.unit == "us":
            continue
        column = batch.column(place)
        numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        most = _MOST.get(field.type.unit)
        bad = pa.array(numbers % 1000 != 0 if most is None else np.abs(numbers) > most)
        if not bad.true_count:
            continue
        texts = column.cast(pa.string()) if most is None else column.cast(pa.int64()).cast(pa.string())
        requested = "has more digits than a TIMESTAMP keeps" if most is None else "is not a TIMESTAMP"
        begin = code(RejectionKind.LOSS, f'column "{field.name}" {requested}') + f'column "{field.name}":'
        said = pc.binary_join_element_wise(begin, texts, requested, " ")
        lost = pc.if_else(pc.and_(bad, pc.is_null(lost)), said, lost)
        batch = batch.set_column(place, field, pc.if_else(bad, pa.scalar(None, field.type), column))
    return batch, lost


def plain_types(table: pa.Table) -> pa.Table:
    """Return the table with Spark's types: no dictionaries, no unsigned integers, no views, microseconds in UTC.

    Decimals with too many digits become texts, which are checked later. Raises if a value would change.
    """
    columns = [c if (plain := plain_type(c.type)) == c.type else _plain(c, plain) for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _plain(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], column.type.storage_type)
    if T.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(type_)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type as which a file's type is read."""
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if T.is_dictionary(type_):
        return plain_type(type_.value_type)
    if T.is_timestamp(type_):
        return pa.timestamp("us", tz="UTC")
    if T.is_decimal(type_):
        return pa.string() if type_.precision > DIGITS else pa.decimal128(type_.precision, type_.scale)
    if T.is_time(type_):
        return pa.string()
    if T.is_fixed_size_binary(type_):
        return pa.binary()
    if T.is_map(type_):
        return pa.map_(plain_type(type_.key_type), type_.item_field.with_type(plain_type(type_.item_type)))
    if any(is_kind(type_) for is_kind in _LISTS):
        return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)))
    if T.is_struct(type_):
        return pa.struct([f.with_type(plain_type(f.type)) for f in type_])
    return _PLAIN.get(type_, type_)
