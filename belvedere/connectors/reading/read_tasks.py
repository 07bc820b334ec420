"""Tasks that read files: typed rows go into files as they are, the raw records that are left to Spark beside them.

In: the pieces of a task. Out: answers with places and counts. A second task of the same rows puts Spark's verdicts in
their places, and leaves out the rows of files that could not be read to their end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.reading.file_pieces import Piece, what_is_wrong
from belvedere.connectors.reading.file_rows import REASON
from belvedere.connectors.reading.formats import MAX_REJECTED
from belvedere.connectors.reading.text_records import FILE, LINE, READ_ERRORS, TEXT
from belvedere.connectors.reading.typed_files import parts_of
from belvedere.connectors.reading.typed_records import Places, RecordForm
from belvedere.decode.text_values import Flags
from belvedere.engine.by_tasks.file_tasks import new_file, written
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import NumberedFile

NUMBER, ORDER = "__number", "__order"
"""The file of a raw record, and its place among the rows of all tasks."""
TASK_BITS = 40
PLACES = pa.schema([(FILE, pa.string()), (LINE, pa.int64()), (REASON, pa.string()), (TEXT, pa.string())])


def left_schema(raw: pa.Schema) -> pa.Schema:
    """Return the columns of records that are left, which are called by number in their files."""
    return pa.schema([pa.field(NUMBER, pa.int32()), pa.field(ORDER, pa.int64()), *raw])


@dataclass(frozen=True)
class ReadTask:
    """Reads pieces of files of one format. `numbers` are those of the files by name; `first` numbers the first row."""

    pieces: tuple[Piece, ...]
    form: RecordForm
    numbers: Mapping[str, int]
    first: int
    folder: Path

    def __call__(self) -> Any:
        file = new_file(self.folder, self.form.schema)
        left = new_file(self.folder, left_schema(self.pieces[0].schema))
        runs: list[tuple[int, int]] = []
        lefts: Counter[int] = Counter()
        faults: dict[int, str] = {}
        for piece in self.pieces:
            number = self.numbers[piece.name]
            try:
                for part in parts_of(piece, self.form):
                    if not part.rows.num_rows:
                        continue
                    if part.left is not None and part.left.num_rows:
                        places = self.first + file.count + part.places
                        lefts[number] += len(places)
                        numbers = pa.array(np.full(len(places), number, np.int32))
                        left.add(_batch([numbers, pa.array(places), *part.left.columns], left_schema(piece.schema)))
                    for batch in part.rows.combine_chunks().to_batches():
                        file.add(batch)
                    runs.append((number, part.rows.num_rows))
            except READ_ERRORS as error:
                faults.setdefault(number, what_is_wrong(piece.format, error).coded)
        return {
            "rows": written(file),
            "left": written(left),
            "runs": _joined(runs),
            "lefts": sorted(lefts.items()),
            "faults": sorted(faults.items()),
        }


def _batch(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [c.cast(f.type) for c, f in zip(columns, schema, strict=True)],
        schema=pa.schema([f.with_nullable(True) for f in schema]),
    )


def _joined(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return pairs of a file and a number of its rows; those of one file that follow each other are one."""
    found: list[tuple[int, int]] = []
    for number, count in runs:
        before = found.pop()[1] if found and found[-1][0] == number else 0
        found.append((number, before + count))
    return found


@dataclass(frozen=True)
class Verdicts:
    """Spark's verdicts on the records that a task has left: some rows of files, in the order of the records."""

    parts: tuple[tuple[Path, int, int], ...]
    """Files, each with the first row and the number of rows."""
    schema: pa.Schema

    def table(self) -> pa.Table:
        """Return all of them: their number is that of the records that a task has left."""
        found = [
            pa.Table.from_batches(Rows(schema=self.schema, files=(path,)).batches(), self.schema).slice(first, count)
            for path, first, count in self.parts
        ]
        return pa.concat_tables(found) if found else self.schema.empty_table()


@dataclass(frozen=True)
class VerdictTask:
    """Puts verdicts in their places among the rows that a task has read, and leaves out the files `bad`."""

    rows: str
    left: str | None
    runs: Sequence[tuple[int, int]]
    raw: pa.Schema
    form: RecordForm
    bad: frozenset[int]
    verdicts: Verdicts
    folder: Path

    def __call__(self) -> Any:
        file, refused = new_file(self.folder, self.form.schema), new_file(self.folder, PLACES)
        numbers = np.repeat([n for n, _ in self.runs], [c for _, c in self.runs])
        counts: Counter[int] = Counter()
        places, decided = self._places(), self.verdicts.table()
        fits = np.asarray(pc.is_null(decided[REASON]).combine_chunks())
        _add(refused, decided.filter(pa.array(~fits)).select(PLACES.names).slice(0, MAX_REJECTED))
        start = used = 0
        for given in Rows(schema=self.form.schema, files=(Path(self.rows),)).batches():
            own, end = numbers[start : start + given.num_rows], int(np.searchsorted(places, start + given.num_rows))
            found, keep = with_decided(
                pa.Table.from_batches([given]), places[used:end] - start, decided.slice(used, end - used)
            )
            good = ~np.isin(own, list(self.bad))
            found, own = found.filter(pa.array(good[keep])), own[keep & good]
            _add(file, found)
            counts.update(dict(zip(*(a.tolist() for a in np.unique(own, return_counts=True)), strict=True)))
            start, used = start + given.num_rows, end
        return {
            "rows": written(file),
            "runs": sorted(counts.items()),
            "refused": int((~fits).sum()),
            "rejected": written(refused),
        }

    def _places(self) -> Places:
        """Return the places of the records that have verdicts, in order."""
        if self.left is None:
            return np.zeros(0, np.int64)
        schema = left_schema(self.raw)
        found = [
            np.asarray(b.column(1))[~np.isin(np.asarray(b.column(0)), list(self.bad))]
            for b in Rows(schema=schema, files=(Path(self.left),)).batches([NUMBER, ORDER])
        ]
        places: npt.NDArray[np.int64] = np.concatenate(found) & ((1 << TASK_BITS) - 1)
        return places


def with_decided(found: pa.Table, places: Places, decided: pa.Table) -> tuple[pa.Table, Flags]:
    """Return the valid rows, including Spark's rows at `places`, and flags of the positions that have a row."""
    if not len(places):
        return found, np.ones(found.num_rows, np.bool_)
    fits = np.asarray(pc.is_null(decided[REASON]).combine_chunks())
    keep, index = np.ones(found.num_rows, np.bool_), np.arange(found.num_rows)
    keep[places[~fits]] = False
    index[places[fits]] = found.num_rows + np.arange(int(fits.sum()))
    good = decided.filter(pa.array(fits)).select(found.schema.names).cast(found.schema)
    return pa.concat_tables([found, good]).combine_chunks().take(pa.array(index[keep])), keep


def _add(file: NumberedFile, rows: pa.Table) -> None:
    for batch in rows.combine_chunks().to_batches():
        file.add(batch)


def rejected_rows(paths: Sequence[str | None]) -> Iterator[dict[str, Any]]:
    """Yield the rejected rows that tasks have written."""
    for path in (p for p in paths if p is not None):
        for batch in Rows(schema=PLACES, files=(Path(path),)).batches():
            yield from batch.to_pylist()
