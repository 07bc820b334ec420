"""Control rows: bounds among the rows of JSON files.

In: records of a file. Out: `PlacedMark`s, removed from the records. A source is one producer, so its bounds name none.
Once placed among the rows they go through scratch files like rows, since their number is not limited.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.reading.formats import FileReading, PlacedMark, format_of
from belvedere.connectors.reading.text_records import FILE, LINE, READ_ERRORS, TEXT, chunks_of
from belvedere.connectors.run_records import RejectedRow, SourceFile, is_control
from belvedere.engine.rows.epoch_rows import Rows, as_rows
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.errors import BelvedereError, fail
from belvedere.intake.request_rows import read_act
from belvedere.schema import CONTROL
from belvedere.time.intake_entries import Act, BoundMark, ProducerAct
from belvedere.time.pending_arrivals import Intake

SIGN = f'"{CONTROL}"'


def has_marks(reading: FileReading, files: Sequence[SourceFile]) -> bool:
    """Return whether one of the files may have control rows."""
    if reading.bounds_of is None:
        return False
    return any(format_of(f.path, reading.options) == "json" and _contains(f.path, SIGN.encode()) for f in files)


def _contains(path: str, requested: bytes) -> bool:
    tail = b""
    try:
        for chunk in chunks_of(path):
            if requested in tail + chunk:
                return True
            tail = (tail + chunk)[-len(requested) :]
    except READ_ERRORS:
        return False  # its reader reports that
    return False


def without_marks(reading: FileReading, batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """Return the records that are rows, None if there are none.

    Control rows are appended to `reading.marks`, or rejected with a reason.
    """
    if reading.bounds_of is None:
        return batch
    places = pc.indices_nonzero(pc.match_substring(batch.column(TEXT), SIGN)).to_pylist()
    taken = [n for n in places if _take_mark(reading, *(batch.column(c)[n].as_py() for c in (FILE, LINE, TEXT)))]
    if not taken:
        return batch
    others = np.ones(batch.num_rows, dtype=bool)
    others[taken] = False
    return batch.filter(pa.array(others)) if others.any() else None


def _take_mark(reading: FileReading, file: str, line: int, text: str) -> bool:
    """Return whether a record is a control row, and record it."""
    table = reading.bounds_of
    assert table is not None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not is_control(given):
        return False
    try:
        act = read_act(Act.BOUND, table, given[CONTROL])
        if act.producer is not None:
            raise fail(
                "B5025", f'a bound in a file of "{table.name}" must not name a producer: the source is the producer'
            )
        act = replace(act, column=Intake.event_time_column(table, act.column))
    except BelvedereError as error:
        reading.refuse(RejectedRow(reading.table, file, line, text, error.diagnostics[0].message))
        return True
    reading.marks.append(PlacedMark(file, line, act))
    return True


MARKS = pa.schema([("position", pa.int64()), ("time", pa.int64()), ("column", pa.string()), ("strict", pa.bool_())])
GATHERED = 1_000


class MarkScratch:
    """Collects any number of marks, and returns them as `Marks`."""

    def __init__(self, table: str):
        self._table, self._scratch = table, Scratch(MARKS)
        self._held: list[BoundMark] = []

    def add(self, mark: BoundMark) -> None:
        """Add a mark."""
        self._held.append(mark)
        if len(self._held) >= GATHERED:
            self._gather()

    def _gather(self) -> None:
        rows = [(m.position, m.act.time, m.act.column, m.act.strict) for m in self._held]
        self._scratch.add(pa.Table.from_pylist([dict(zip(MARKS.names, r, strict=True)) for r in rows], MARKS))
        self._held.clear()

    def marks(self) -> Marks:
        """Return all collected marks."""
        self._gather()
        return Marks(self._table, as_rows(self._scratch.rows()))


@dataclass(frozen=True)
class Marks:
    """The bounds among the rows of an input, in order. Each iteration reads them again."""

    table: str
    rows: Rows

    def __bool__(self) -> bool:
        return bool(self.rows.num_rows)

    def __iter__(self) -> Iterator[BoundMark]:
        for batch in self.rows.batches():
            for row in batch.to_pylist():
                act = ProducerAct(Act.BOUND, self.table, 0, None, row["time"], row["column"], row["strict"])
                yield BoundMark(row["position"], act)
