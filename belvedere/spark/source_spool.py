"""Many rows of files on their way to an epoch: in scratch files, in the order of the files that they come from, a batch at a time.

In: a data frame of `source_large`. Out: `Rows`, whose scratch files go when nobody holds them any more, and what was refused.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.engine.render import quote
from belvedere.engine.rows import Rows
from belvedere.spark.scratch import PREFIX, scratch_rows, write_frame, written_rows
from belvedere.spark.source_formats import Reading
from belvedere.spark.source_large import local_path
from belvedere.spark.source_rows import FILE, LINE, REASON, TEXT, collectable

PLACES = pa.schema([(FILE, pa.string()), (LINE, pa.int64()), (REASON, pa.string()), (TEXT, pa.string())])
ORDER, PLACE = "_order", "_place"


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
    # within a file this number grows with the lines; whole files Spark reads in the order of their lengths
    placed = collectable(frame).select("*", F.monotonically_increasing_id().alias(PLACE))
    names = [*schema.names, PLACE]
    write_frame(placed.select(*[F.col(quote(n)).alias(f"c{k}") for k, n in enumerate(names)]), folder / "read")
    found = written_rows(folder / "read", schema)
    if found.num_rows and len({local_path(p) for b in found.batches([FILE]) for p in b.column(0).unique().to_pylist()}) > 1:
        write_frame(_by_file(found, reading, names), folder / "ordered")
        found = written_rows(folder / "ordered", schema)
    refused: list[pa.RecordBatch] = []
    counts = {"kept": 0, "all": 0}

    def fitting() -> Iterator[pa.RecordBatch]:
        for batch in found.batches():
            fits = pc.is_null(batch.column(REASON))
            bad = batch.filter(pc.invert(fits)).select(PLACES.names)
            counts["all"] += bad.num_rows
            if bad.num_rows and counts["kept"] < most_refused:
                refused.append(bad.slice(0, most_refused - counts["kept"]))
                counts["kept"] += refused[-1].num_rows
            yield from pa.Table.from_batches([batch.filter(fits)]).select(wanted.names).cast(wanted).to_batches()

    rows = scratch_rows(pa.RecordBatchReader.from_batches(wanted, fitting()))
    shutil.rmtree(folder, ignore_errors=True)
    return Spooled(rows, pa.Table.from_batches(refused, PLACES), counts["all"])


def _by_file(found: Rows, reading: Reading, names: list[str]) -> DataFrame:
    """The rows file by file, in the order in which these arrived."""
    places = {path: n for n, path in enumerate(reading.order)}
    paths = dict.fromkeys(p for b in found.batches([FILE]) for p in b.column(0).unique().to_pylist())
    origins = {p: reading.origins.get(local_path(p) or "", local_path(p) or "") for p in paths}
    order = [(p, places.get(o, len(places))) for p, o in origins.items()]
    spark = reading.spark
    known = spark.createDataFrame(pa.table({FILE: [p for p, _ in order], ORDER: pa.array([n for _, n in order], pa.int64())}))
    file, place = f"c{names.index(FILE)}", f"c{names.index(PLACE)}"
    rows = spark.read.parquet(*map(str, found.files or ()))
    joined = rows.join(F.broadcast(known), rows[file] == known[FILE], "left")
    return joined.orderBy(ORDER, place).select(*[f"c{n}" for n in range(len(names))])
