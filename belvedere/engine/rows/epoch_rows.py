"""Rows of an epoch: in the driver as Arrow, in scratch Parquet files, or in Spark as a data frame.

In: tables, files, frames. Out: the same rows as a stream of batches, or whole if they are few. `Memory` limits how much
the driver holds; code that creates rows consults it. In scratch files, columns have numbers as names, since a relation
can use any name.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.schema import WEIGHT
from belvedere.state.hashing import Numbers, distinct

WEIGHT_FIELD = pa.field(WEIGHT, pa.int64(), nullable=False)
BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20
"""Approximate bytes of a batch of wide rows, which has fewer rows."""


R = TypeVar("R")
Batch = TypeVar("Batch", pa.Table, pa.RecordBatch)


class PassedRows:
    """Bytes of rows that have come into this process since its start: from Spark, scratch files, sources and state."""

    def __init__(self) -> None:
        self.bytes = 0

    def count(self, rows: Batch) -> Batch:
        """Count rows once, where they come in."""
        self.bytes += rows.nbytes
        return rows


PASSED = PassedRows()


class SparkFrame(Protocol):
    """A data frame of Spark, which the engine only passes on. The packages that run it import PySpark."""

    def __getattr__(self, name: str) -> Any: ...


class Memory:
    """Bytes of an epoch's rows that the driver holds, and their limit."""

    def __init__(self, bound: int):
        self.bound = bound
        self.held = 0

    @property
    def chunk(self) -> int:
        """Return the bytes that one step can hold at once.

        A step has several copies (old, new and flat rows, their difference).
        """
        return max(1, self.bound // 16)

    @property
    def large(self) -> int:
        """Return the maximum bytes of rows that come to the driver whole."""
        return self.bound // 8

    @property
    def room(self) -> int:
        """Return the remaining bytes that can be held: a quarter of all, since steps have copies."""
        return max(0, self.bound // 4 - self.held)

    def has_room(self, size: int) -> bool:
        return size <= min(self.large, self.room)

    def hold(self, rows: R, size: int) -> R:
        """Count these rows as held until they are freed."""
        self.held += size
        weakref.finalize(rows, self._release, size)
        return rows

    def _release(self, size: int) -> None:
        self.held -= size


def is_frame(rows: pa.Table | Rows | SparkFrame) -> TypeGuard[SparkFrame]:
    """Return whether rows are a data frame in Spark."""
    return not isinstance(rows, (pa.Table, Rows))


class Rows:
    """A relation's rows: an Arrow table, scratch files, or a data frame.

    A frame also becomes a table once a table is requested.
    """

    def __init__(
        self,
        table: pa.Table | None = None,
        frame: Any = None,
        schema: pa.Schema | None = None,
        files: tuple[Path, ...] | None = None,
        count: int | None = None,
        guess: int = 0,
        text: str = "",
        going: int | None = None,
    ):
        """`frame`: a DataFrame of Spark; `guess`: its approximate number of rows, if not counted; `text`: its query, if
        known.

        `going`: number of deletions among the rows of a change, if counted.
        """
        self._table = table
        self.frame = frame
        self._schema = table.schema if table is not None else schema
        self.files = files
        self._count = count
        self.guess = guess
        self.text = text
        self.going = going

    @property
    def schema(self) -> pa.Schema:
        """Return names and types; of a frame without a given schema, those with which it is collected."""
        return self._schema if self._schema is not None else self.table.schema

    @property
    def table(self) -> pa.Table:
        """Return all rows in the driver. Use it only for few rows, or if the caller needs them whole."""
        if self._table is None and self.files is not None:
            return pa.Table.from_batches(self.batches(), self._schema)
        if self._table is None:
            if self.frame is None:
                raise AssertionError("rows without a table, files or a frame")
            found = PASSED.count(self.frame.toArrow())
            self._table = conform(found, self._schema) if self._schema else found
        return self._table

    @property
    def num_rows(self) -> int:
        """Return the number of rows. A frame may be run for it."""
        if self._table is not None:
            return int(self._table.num_rows)
        if self._count is None:
            self._count = self.frame.count() if self.frame is not None else self.table.num_rows
        return self._count

    @property
    def known_rows(self) -> int:
        """Return the number of rows as known without running a frame."""
        return self._table.num_rows if self._table is not None else self._count or self.guess

    @property
    def known_values(self) -> int:
        """Return the number of values as known without running a frame."""
        return self.known_rows * len(self._schema or ())

    @property
    def is_collected(self) -> bool:
        """Return whether the rows are already in the driver."""
        return self._table is not None

    @property
    def is_empty(self) -> bool:
        """Return whether there is no row. A frame that was not counted is assumed to have rows."""
        return (self._table.num_rows if self._table is not None else self._count) == 0

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these columns, a batch at a time."""
        if self.files is None:
            table = self.table
            yield from (table if columns is None else table.select(columns)).to_batches()
            return
        assert self._schema is not None
        names = self._schema.names if columns is None else list(columns)
        requested = pa.schema([self._schema.field(n) for n in names])
        places = [f"c{self._schema.get_field_index(n)}" for n in names]
        for path in self.files:
            # without memory map and read-ahead a file is read column by column, a few pages at a time
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
                for batch in file.iter_batches(
                    batch_size=_batch_rows(file.metadata), columns=places, use_threads=False
                ):
                    found = (
                        pa.Table.from_batches([PASSED.count(batch)])
                        .select(places)
                        .rename_columns(names)
                        .cast(requested)
                    )
                    yield from found.to_batches()

    def short_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `BATCH_ROWS`, also for rows in the driver."""
        return iter(self.table.to_batches(max_chunksize=BATCH_ROWS)) if self.is_collected else self.batches()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows in their present form: one table in the driver, else one for each batch."""
        if self.is_collected:
            yield self.table
        else:
            yield from (pa.Table.from_batches([b]) for b in self.batches())

    def reader(self, columns: Sequence[str] | None = None, names: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Return the rows of these columns as a stream, under other `names` if given."""
        requested = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(n) for n in requested])
        if names is not None:
            schema = pa.schema([f.with_name(n) for f, n in zip(schema, names, strict=True)])
        named = (pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in self.batches(requested))
        return pa.RecordBatchReader.from_batches(schema, named)

    def weighted(self, weight: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows, a batch at a time, each with this weight."""
        return ((b, weight) for b in self.batches())

    def where(
        self, test: Callable[[pa.RecordBatch], pa.Array], columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return a stream of the rows for which `test` is true. `columns` are those to keep."""
        kept = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(n) for n in kept])
        found = (_filtered(b.select(kept), test(b)) for b in self.batches())
        return pa.RecordBatchReader.from_batches(schema, (b for b in found if b.num_rows))


def as_rows(given: pa.Table | Rows | SparkFrame) -> Rows:
    """Return the same rows as `Rows`. Nothing is run."""
    if isinstance(given, Rows):
        return given
    return Rows(frame=given) if is_frame(given) else Rows(given)


def with_hash(column: str, hashes: Numbers) -> Callable[[pa.RecordBatch], pa.Array]:
    """Return a test for rows with one of these sorted hashes in a column.

    Arrow's own test would rebuild its set for each batch.
    """

    def test(batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(column).to_numpy()
        if not len(hashes):
            return pa.array(np.zeros(len(values), np.bool_))
        places = np.minimum(np.searchsorted(hashes, values), len(hashes) - 1)
        return pa.array(hashes[places] == values)

    return test


def hashes_in(rows: Rows, column: str) -> Numbers:
    """Return the distinct hashes in a column of rows, sorted."""
    parts = [distinct(b.column(0).to_numpy()) for b in rows.batches([column])]
    return distinct(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _filtered(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    """Filter a batch. Usually all rows or none are kept, and nothing is copied then."""
    return batch if mask.true_count == len(mask) else batch.filter(mask)


def coming(batch: pa.RecordBatch) -> pa.Array:
    """Return a mask of the insertions in a change."""
    return pc.greater(batch.column(WEIGHT), 0)


def going(batch: pa.RecordBatch) -> pa.Array:
    """Return a mask of the deletions in a change."""
    return pc.less(batch.column(WEIGHT), 0)


def loses(rows: Rows) -> bool:
    """Return whether a change contains a deletion."""
    if rows.going is None:
        return any((pc.min(b.column(0)).as_py() or 1) < 0 for b in rows.batches([WEIGHT]))
    return rows.going > 0


def named_as(schema: pa.Schema, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the same columns with the names and types of `schema`."""
    return pa.RecordBatchReader.from_batches(schema, (b.rename_columns(schema.names).cast(schema) for b in rows))


def weighted_stream(schema: pa.Schema, changes: Iterable[tuple[pa.RecordBatch, int]]) -> pa.RecordBatchReader:
    """Return rows of this schema with the weight of each batch as a column."""
    schema = schema.append(WEIGHT_FIELD)
    batches = (
        pa.RecordBatch.from_arrays([*b.columns, pa.repeat(pa.scalar(weight, pa.int64()), b.num_rows)], schema=schema)
        for b, weight in changes
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _batch_rows(file: pq.FileMetaData) -> int:
    size = sum(file.row_group(n).total_byte_size for n in range(file.num_row_groups))
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES * file.num_rows // max(1, size))))


@dataclass(frozen=True)
class ColumnValues:
    """Values of one column of some rows: distinct and in one array if all rows are in the driver, else streamed from
    their files."""

    parts: tuple[tuple[Rows, str], ...]
    array: pa.Array | None

    @property
    def is_empty(self) -> bool:
        return not len(self.array) if self.array is not None else all(r.is_empty for r, _ in self.parts)

    def given(self) -> pa.Array | pa.RecordBatchReader:
        """Return the keys in the form of a store.

        Each call starts a new stream, in which a key can occur more than once.
        """
        if self.array is not None:
            return self.array
        schema = pa.schema([pa.field("k", self.parts[0][0].schema.field(self.parts[0][1]).type)])
        batches = (
            pa.record_batch([pc.unique(b.column(0))], schema=schema)
            for rows, column in self.parts
            for b in rows.batches([column])
            if b.num_rows
        )
        return pa.RecordBatchReader.from_batches(schema, batches)


def keys_of(parts: Iterable[tuple[Rows, str]], *more: pa.Array) -> ColumnValues:
    """Return the values of a column of each part, and those of `more`."""
    parts = tuple(parts)
    if all(r.is_collected for r, _ in parts):
        chunks = [c for r, column in parts for c in r.table[column].chunks]
        type_ = more[0].type if more else parts[0][0].schema.field(parts[0][1]).type
        return ColumnValues(parts, _each_once(pa.chunked_array([*chunks, *more], type_)))
    extra = tuple((Rows(pa.table([a], ["k"])), "k") for a in more)
    return ColumnValues((*parts, *extra), None)


def _each_once(values: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_int64(values.type) and not values.null_count:
        return pa.array(distinct(values.to_numpy()))
    return combined(pc.unique(values))


def combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one contiguous array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the same rows with exactly the names, order and types of `schema`.

    A NOT NULL column may be NULL in rows of a former script, which subscriptions and exports report as deleted. Raises
    ValueError if it is NULL in new rows.
    """
    found = table.select(schema.names)
    try:
        return found.cast(schema)
    except ValueError:  # NULL in a NOT NULL column or member; another failing cast fails again
        if WEIGHT in schema.names:
            found.filter(pc.greater(found[WEIGHT], 0)).cast(schema)
        return found.cast(pa.schema([pa.field(f.name, _open(f.type)) for f in schema]))


def _open(type_: pa.DataType) -> pa.DataType:
    """Return the type with all members nullable."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _open(f.type)) for f in type_])
    if pa.types.is_list(type_):
        return pa.list_(_open(type_.value_type))
    return type_


def fits_parquet(schema: pa.Schema) -> bool:
    """Return whether Spark and Arrow read each other's Parquet files of these types exactly."""
    return all(_fits(f.type) for f in schema)


def _fits(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return bool(type_.num_fields) and all(_fits(type_.field(n).type) for n in range(type_.num_fields))
    return not (
        pa.types.is_null(type_) or pa.types.is_interval(type_) or pa.types.is_duration(type_) or pa.types.is_time(type_)
    )
