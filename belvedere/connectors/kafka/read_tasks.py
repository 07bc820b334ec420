"""Read many messages with Spark tasks: each reads a part of the ranges and writes its rows to a file of the scratch
folder.

In: ranges, the table's shape. Out: chunks, as the driver's own reader returns them. A task returns a report on its
file, and the messages that are not rows yet; the rows do not pass through Spark.
"""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.connectors.kafka.client import Settings
from belvedere.connectors.kafka.message_chunks import Gathered, Gathering, gathered
from belvedere.connectors.kafka.message_rows import Chunk, MessageShape, Refused, Undecided
from belvedere.connectors.kafka.ranges import MessageRange, reader_of
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import PREFIX, not_shared, write_frame
from belvedere.errors import fail
from belvedere.process.temporary_folders import scratch_folder
from belvedere.values.rejections import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORTED = pa.schema(
    [
        ("file", pa.string()),
        ("label", pa.string()),
        ("rows", pa.int64()),
        ("place", pa.int64()),
        ("offset", pa.int64()),
        ("text", pa.binary()),
        ("reason", pa.string()),
    ]
)
"""Columns of a task's report. A chunk is a row with the file of its rows, which is one row group.

The chunk's messages that are not rows follow it.
"""


def read_by_tasks(
    spark: SparkSession, table: str, settings: Settings, ranges: Sequence[MessageRange], shape: MessageShape
) -> Gathered:
    """Return the rows, ordered by range within each partition.

    Raises B7036 if executors have another scratch folder.
    """
    folder = scratch_folder(PREFIX)
    try:
        parts = cut(ranges, spark.sparkContext.defaultParallelism)
        numbers = spark.range(0, len(parts), 1, len(parts))
        frame = numbers.mapInArrow(_task(settings, parts, shape, folder), from_arrow_schema(REPORTED))
        reported = write_frame(frame.toDF(*[f"c{n}" for n in range(len(REPORTED))]), folder / "told", REPORTED)
        if any(batch.column(0).null_count < len(batch) for batch in reported.batches(["place"])):
            found = gathered(spark, table, shape, _chunks(reported.batches(), shape, folder))
            shutil.rmtree(folder, ignore_errors=True)
            return found
        return _as_written(spark, table, reported, shape, folder)
    except PySparkException as error:
        shutil.rmtree(folder, ignore_errors=True)
        detail = next(
            (line for line in reversed(str(error).split("\n")) if "belvedere." in line), str(error).split("\n")[0]
        )
        raise fail("B6201", "Spark's tasks could not read the messages", detail=detail.strip()[:500]) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _as_written(spark: SparkSession, table: str, reported: Rows, shape: MessageShape, folder: Path) -> Gathered:
    """Return the rows in the files that the tasks wrote, if all messages are rows."""
    into, files = Gathering(spark, table, shape), dict[str, None]()
    for file, label, count in (
        r
        for batch in reported.batches(["file", "label", "rows"])
        for r in zip(*batch.to_pydict().values(), strict=True)
    ):
        files.setdefault(file)
        into.count(count, label)
    rows = Rows(
        schema=shape.schema, files=tuple(_seen(folder / f) for f in files), count=sum(n for n, _ in into.producers)
    )
    weakref.finalize(rows, shutil.rmtree, folder, True)
    return Gathered(rows, (), 0, tuple(into.producers))


def _seen(file: Path) -> Path:
    """Return a file that an executor wrote. Raises B7036 if it is not visible."""
    if not file.exists():
        raise not_shared(file.parent.parent, f"the file {file}, which an executor wrote, is missing")
    return file


def cut(ranges: Sequence[MessageRange], parts: int) -> list[tuple[MessageRange, ...]]:
    """Split the ranges into `parts` parts of equal length, in order."""
    size = -(-sum(r.end - r.start for r in ranges) // parts)
    found: list[list[MessageRange]] = [[]]
    room = size
    for range_ in ranges:
        start = range_.start
        while start < range_.end:
            end = min(range_.end, start + room)
            found[-1].append(MessageRange(range_.topic, range_.partition, start, end))
            room -= end - start
            start = end
            if not room:
                found.append([])
                room = size
    return [tuple(part) for part in found if part]


def _task(
    settings: Settings, parts: Sequence[Sequence[MessageRange]], shape: MessageShape, folder: Path
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = pa.schema([f.with_name(f"c{n}") for n, f in enumerate(shape.schema)])

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (n for batch in numbers for n in batch.column(0).to_pylist()):
            os.makedirs(folder, exist_ok=True)
            file = folder / f"{number:06d}-{uuid.uuid4().hex}.parquet"
            with pq.ParquetWriter(file, schema, compression="lz4", write_statistics=False) as writer:
                for range_, messages in reader_of(settings).read(parts[number]):
                    chunk = shape.chunk(range_.label, messages)
                    writer.write_table(
                        chunk.rows.rename_columns(schema.names), row_group_size=max(1, chunk.rows.num_rows)
                    )
                    yield _reported(file.name, chunk)

    return read


def _reported(file: str, chunk: Chunk) -> pa.RecordBatch:
    rows: list[tuple[object, ...]] = [(file, chunk.label, chunk.rows.num_rows, None, None, None, None)]
    rows += [(None, None, None, u.place, u.offset, u.text, None) for u in chunk.undecided]
    rows += [
        (None, None, None, r.place, r.offset, None if r.text is None else r.text.encode(), r.reason.coded)
        for r in chunk.refused
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), REPORTED, strict=True)], schema=REPORTED
    )


def _chunks(reported: Iterator[pa.RecordBatch], shape: MessageShape, folder: Path) -> Iterator[Chunk]:
    """Yield the chunks that tasks reported, a row group each."""
    groups: dict[str, int] = {}
    begun: tuple[str, str] | None = None
    undecided: list[Undecided] = []
    refused: list[Refused] = []

    def chunk(file: str, label: str) -> Chunk:
        group = groups[file] = groups.get(file, -1) + 1
        with pq.ParquetFile(_seen(folder / file)) as opened:
            rows = opened.read_row_group(group, use_threads=False).rename_columns(shape.schema.names).cast(shape.schema)
        return Chunk(label, rows, tuple(undecided), tuple(refused))

    for row in (r for batch in reported for r in batch.to_pylist()):
        if row["file"] is not None:
            if begun is not None:
                yield chunk(*begun)
            begun, undecided, refused = (row["file"], row["label"]), [], []
        elif row["reason"] is None:
            undecided.append(Undecided(row["place"], row["offset"], row["text"]))
        else:
            text = None if row["text"] is None else row["text"].decode()
            refused.append(Refused(row["place"], row["offset"], text, reason_of(row["reason"])))
    if begun is not None:
        yield chunk(*begun)
