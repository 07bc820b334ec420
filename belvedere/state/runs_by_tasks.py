"""Runs that are made where the rows are: by tasks of other processes, each a file of its own.

In: a task's rows as batches. Out: batches that say where its runs lie. The files count once the state takes the places over and the epoch
is committed; those of a task that was run again or given up are named by no manifest, and the next start deletes them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from belvedere.state.arrangement import pieces
from belvedere.state.files import Writer
from belvedere.state.remote_files import Remote
from belvedere.state.sorted_run import Arranged, FileRange, make_run, with_indexes

PLACES = pa.schema(
    [
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("checksum", pa.int64()),
        ("rows", pa.int64()),
    ]
)
UNSEEN = ""
"""As the name of a file: the task does not see the state's folder."""
RunTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def writing(arranged: Arranged, folder: Path, mark: str, run_bytes: int, remote: Remote | None = None) -> RunTask:
    """A task's function; `mark` is a file that its folder has if it is the same one as here. To a `remote` it sends what it writes."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_seen = (folder / mark).exists()
        if not is_seen and remote is None:
            yield pa.RecordBatch.from_pylist([dict.fromkeys(PLACES.names[1:], 0) | {"file": UNSEEN}], PLACES)
            return
        writer = Writer(folder if is_seen else Path(tempfile.mkdtemp(prefix="belvedere-runs-")), remote)
        found = []
        for piece in pieces(batches, arranged.schema, run_bytes):
            place = writer.add(with_indexes(make_run(piece, arranged)))
            found.append([place.file, place.offset, place.length, place.checksum, len(piece)])
        writer.finish()
        if not is_seen:
            shutil.rmtree(writer.path.parent, ignore_errors=True)
        if found:
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in zip(*found, strict=True)], schema=PLACES)

    return write


def places_of(written: pa.Table) -> list[FileRange] | None:
    """The places that tasks gave; None where one of them does not see the folder."""
    if UNSEEN in written["file"].to_pylist():
        return None
    return [FileRange(*row) for row in zip(*(written[n].to_pylist() for n in PLACES.names[:4]), strict=True)]
