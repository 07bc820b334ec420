"""Rows of an epoch before its transaction: in a table if they are few, else in a scratch file.

In: rows as they arrive, a table or batch at a time. Out: a table, or `Rows` whose scratch file is deleted when they are
no longer used.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.engine.rows import epoch_rows as held
from belvedere.engine.rows.epoch_rows import Memory, Rows, SparkFrame, as_rows, fits_parquet
from belvedere.errors import BelvedereError, counted, fail
from belvedere.process.temporary_folders import scratch_folder

FEW_BYTES = 1 << 20
"""Maximum number of bytes that are kept without a file."""
PREFIX = "read-"
observe: Callable[[Any], tuple[Any, Callable[[], int]]] | None = None
"""In a cluster: function that makes a data frame count its rows while it is written.

Files in an unshared folder would be lost silently.
"""


class Scratch:
    """Accepts rows of one schema. It holds at most `few` bytes, unless their types are not supported in files.

    With `memory` it holds as many as fit now; the owner of the rows counts them there. Rows in a file are written and
    read twice before an epoch has them.
    """

    def __init__(self, schema: pa.Schema, few: int = FEW_BYTES, memory: Memory | None = None):
        self.schema = schema
        self._few = few if memory is None else max(few, memory.room)
        self.count = 0
        self._held: list[pa.RecordBatch] = []
        self._size = self._rows_held = 0
        self._folder: Path | None = None
        self._writer: pq.ParquetWriter | None = None
        self._fits = fits_parquet(schema)

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add more rows."""
        if not rows.num_rows:
            return
        self.count += rows.num_rows
        self._size += rows.nbytes
        self._rows_held += rows.num_rows
        self._held += rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        if not self._fits or self._size <= self._few:
            return
        if self._writer is None or self._rows_held >= held.BATCH_ROWS or self._size >= FEW_BYTES:
            self._write()

    def _write(self) -> None:
        """Write the held rows as one row group, since parts can be as small as a row."""
        numbered = pa.schema([f.with_name(f"c{n}").with_nullable(True) for n, f in enumerate(self.schema)])
        if self._writer is None:
            self._folder = scratch_folder(PREFIX)
            self._gone = weakref.finalize(self, shutil.rmtree, self._folder, True)
            # without statistics, as in `Exchange`: Arrow leaves NaN out of them
            self._writer = pq.ParquetWriter(
                self._folder / "rows.parquet", numbered, compression="lz4", write_statistics=False
            )
            self._few = 0
        batches = [pa.RecordBatch.from_arrays(b.columns, schema=numbered) for b in self._held]
        self._writer.write_table(pa.Table.from_batches(batches, numbered).combine_chunks())
        self._held, self._size, self._rows_held = [], 0, 0

    def rows(self, always: bool = False) -> pa.Table | Rows:
        """Return all rows received; `always`: from a file, even if they are few. No rows can be added afterwards."""
        if self._writer is None and not (always and self._fits):
            return pa.Table.from_batches(self._held, self.schema)
        if self._held or self._writer is None:
            self._write()
        assert self._writer is not None
        assert self._folder is not None
        self._writer.close()
        found = Rows(schema=self.schema, files=(self._folder / "rows.parquet",), count=self.count)
        self._gone.detach()
        weakref.finalize(found, shutil.rmtree, self._folder, True)
        return found


def scratch_rows(rows: pa.RecordBatchReader) -> Rows:
    """Return streamed rows as a scratch file, which is deleted with them."""
    scratch = Scratch(rows.schema, few=0)
    for batch in rows:
        scratch.add(batch)
    return as_rows(scratch.rows(always=True))


def scratch_frame(frame: SparkFrame) -> pa.Table | Rows:
    """Return the rows of a data frame in its order. Executors write them if their types are supported in files."""
    schema = frame.limit(0).toArrow().schema
    if not fits_parquet(schema):
        return frame.toArrow()
    folder = scratch_folder(PREFIX)
    try:
        found = write_frame(frame.toDF(*[f"c{n}" for n in range(len(schema))]), folder / "rows", schema)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, folder, True)
    return found


class NumberedFile:
    """A scratch file that is written once and read soon, with numbered columns. It is created with its first row.

    Values are not encoded or packed, which would cost more than it saves for a single read. Statistics are not written,
    since Arrow leaves NaN out of a column's least and greatest value, and Spark would skip rows that are greater than
    all others.
    """

    def __init__(self, path: Path, schema: pa.Schema, group: int = 80_000):
        """`group`: number of rows of a row group, which a reader or writer holds at once."""
        self.path, self.count = path, 0
        self._schema = pa.schema([f.with_name(f"c{n}").with_nullable(True) for n, f in enumerate(schema)])
        self._group = group
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path, self._schema, compression="none", use_dictionary=False, write_statistics=False
            )
        self.count += batch.num_rows
        self._writer.write_batch(
            pa.RecordBatch.from_arrays(batch.columns, schema=self._schema), row_group_size=self._group
        )

    def close(self) -> None:
        """Write the end of the file."""
        if self._writer is not None:
            self._writer.close()


def uri(path: Path) -> str:
    """Return a path as a URI that Spark reads from this machine even if another file system is its default."""
    return f"file://{path}"


def write_frame(frame: SparkFrame, folder: Path, schema: pa.Schema, block: int = 128 << 20) -> Rows:
    """Let the executors write a data frame with numbered columns. The rows are in the order of the partitions.

    `block`: bytes of a row group. Raises B7036 if this process cannot see the executors' files.
    """
    observed, written = observe(frame) if observe is not None else (frame, None)
    observed.write.option("compression", "lz4_raw").option("parquet.block.size", block).parquet(uri(folder))
    files = tuple(sorted(folder.glob("*.parquet")))
    count = sum(pq.read_metadata(f).num_rows for f in files)
    if written is not None and (expected := written()) != count:
        raise not_shared(
            folder.parent, f"executors wrote {counted(expected, 'row')} to {folder}, but the driver finds {count:,}"
        )
    return Rows(schema=schema, files=files, count=count)


def not_shared(folder: Path, detail: str) -> BelvedereError:
    """Return the diagnostic B7036: executors have another folder with this name."""
    hint = (
        "set `scratch` under [run] in belvedere.toml to a folder that all machines of the cluster mount at the "
        "same path"
    )
    return fail(
        "B7036", f"the scratch folder {folder} is not shared by the driver and its executors", hint=hint, detail=detail
    )
