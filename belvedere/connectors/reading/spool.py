"""Many rows of files on their way to an epoch: in scratch files, in the order of the files that they come from, a batch at a time.

In: a data frame that tasks read. Out: `Rows`, whose scratch files go when nobody holds them any more, and what was refused.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.connectors.reading.formats import Reading
from belvedere.connectors.reading.records import FILE, LINE, TEXT
from belvedere.connectors.reading.rows import REASON, collectable
from belvedere.engine.render import quote
from belvedere.engine.rows import Rows
from belvedere.engine.scratch import PREFIX, scratch_rows, write_frame, written_rows

PLACES = pa.schema([(FILE, pa.string()), (LINE, pa.int64()), (REASON, pa.string()), (TEXT, pa.string())])


@dataclass(frozen=True)
class Spooled:
    """The rows that fit their table; of the others the first few, and how many there are."""

    rows: Rows
    refused: pa.Table
    refused_rows: int


def spool(frame: DataFrame, reading: Reading, wanted: pa.Schema, most_refused: int) -> Spooled:
    """Run the data frame once and part its rows. Raises what Spark raises."""
    schema = pa.schema([f.with_nullable(True) for f in wanted])
    for field in PLACES:
        schema = schema.append(field)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=reading.scratch))
    named = [F.col(quote(n)).alias(f"c{k}") for k, n in enumerate(schema.names)]
    write_frame(collectable(frame).select(*named), folder / "read")
    found = written_rows(folder / "read", schema)
    faults = reject_faults(reading, found.batches([FILE, LINE, REASON]))
    refused: list[pa.RecordBatch] = []
    counts = {"refused": 0, "all": 0}

    def fitting() -> Iterator[pa.RecordBatch]:
        for batch in (without(faults, b) for b in found.batches()):
            fits = pc.is_null(batch.column(REASON))
            bad = batch.filter(pc.invert(fits)).select(PLACES.names)
            counts["all"] += bad.num_rows
            if bad.num_rows and counts["refused"] < most_refused:
                refused.append(bad.slice(0, most_refused - counts["refused"]))
                counts["refused"] += refused[-1].num_rows
            yield from pa.Table.from_batches([batch.filter(fits)]).select(wanted.names).cast(wanted).to_batches()

    rows = scratch_rows(pa.RecordBatchReader.from_batches(wanted, fitting()))
    shutil.rmtree(folder, ignore_errors=True)
    return Spooled(rows, pa.Table.from_batches(refused, PLACES), counts["all"])


def reject_faults(reading: Reading, batches: Iterable[pa.RecordBatch]) -> pa.Array:
    """The files that tasks could not read to their end, each rejected once: of those no row counts. A fault has no line."""
    faults: dict[str, str] = {}
    for batch in batches:
        for row in batch.filter(pc.is_null(batch.column(LINE))).to_pylist():
            faults.setdefault(row[FILE], row[REASON])
    for file, reason in faults.items():
        reading.reject(file, reason)
    return pa.array(list(faults), pa.string())


Found = TypeVar("Found", pa.RecordBatch, pa.Table)


def without(faults: pa.Array, rows: Found) -> Found:
    """The rows of other files."""
    return rows.filter(pc.invert(pc.is_in(rows.column(FILE), value_set=faults))) if len(faults) else rows
