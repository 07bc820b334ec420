"""Control rows: bounds among the rows of JSON files.

In: records of a file. Out: `PlacedMark`s; a record that is one is no row. A source is one producer, so its bounds name none. Once
placed among the rows they go through scratch files as these do: there may be as many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from belvedere.engine.rows import Rows
from belvedere.errors import BelvedereError, fail
from belvedere.intake.read import read_act
from belvedere.schema import CONTROL
from belvedere.spark.arrived import Mark
from belvedere.spark.records import RejectedRow, SourceFile
from belvedere.spark.scratch import Scratch
from belvedere.spark.source_formats import PlacedMark, Reading, format_of
from belvedere.spark.source_text import CHUNK, TextRecord, open_bytes
from belvedere.time.entries import Act, ProducerAct
from belvedere.time.intake import Intake

SIGN = f'"{CONTROL}"'


def has_marks(reading: Reading, files: Sequence[SourceFile]) -> bool:
    """Whether one of the files may have control rows."""
    if reading.bounds_of is None:
        return False
    return any(format_of(f.path, reading.options) == "json" and _contains(f.path, SIGN.encode()) for f in files)


def _contains(path: str, wanted: bytes) -> bool:
    tail = b""
    try:
        with open_bytes(path) as stream:
            while chunk := stream.read(CHUNK):
                if wanted in tail + chunk:
                    return True
                tail = chunk[-len(wanted) :]
    except (OSError, EOFError):
        return False  # whoever reads it says so
    return False


def take_mark(reading: Reading, path: str, record: TextRecord) -> bool:
    """Whether a record is a control row; it is then in `reading.marks`, or among the rejected rows with what is wrong."""
    table = reading.bounds_of
    if table is None or SIGN not in record.text:
        return False
    try:
        given = json.loads(record.text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(given, dict) or set(given) != {CONTROL}:
        return False
    try:
        act = read_act(Act.BOUND, table, given[CONTROL])
        if act.producer is not None:
            raise fail("B5025", f'a bound in a file of "{table.name}" names no producer: a source is one')
        act = replace(act, column=Intake.event_time_column(table, act.column))
    except BelvedereError as error:
        reading.refuse(RejectedRow(reading.table, path, record.line, record.text, error.diagnostics[0].message))
        return True
    reading.marks.append(PlacedMark(path, record.line, act))
    return True


MARKS = pa.schema([("position", pa.int64()), ("time", pa.int64()), ("column", pa.string()), ("strict", pa.bool_())])
GATHERED = 1_000


class MarkScratch:
    """Takes marks in, however many; gives them back as `Marks`."""

    def __init__(self, table: str):
        self._table, self._scratch = table, Scratch(MARKS)
        self._held: list[Mark] = []

    def add(self, mark: Mark) -> None:
        """Take in one more."""
        self._held.append(mark)
        if len(self._held) >= GATHERED:
            self._gather()

    def _gather(self) -> None:
        rows = [(m.position, m.act.time, m.act.column, m.act.strict) for m in self._held]
        self._scratch.add(pa.Table.from_pylist([dict(zip(MARKS.names, r, strict=True)) for r in rows], MARKS))
        self._held.clear()

    def marks(self) -> Marks:
        """All that came."""
        self._gather()
        return Marks(self._table, self._scratch.rows())


@dataclass(frozen=True)
class Marks:
    """The bounds among the rows of an input, in order; read anew each time."""

    table: str
    rows: pa.Table | Rows

    def __bool__(self) -> bool:
        return bool(self.rows.num_rows)

    def __iter__(self) -> Iterator[Mark]:
        for batch in self.rows.batches() if isinstance(self.rows, Rows) else self.rows.to_batches(max_chunksize=GATHERED):
            for row in batch.to_pylist():
                act = ProducerAct(Act.BOUND, self.table, 0, None, row["time"], row["column"], row["strict"])
                yield Mark(row["position"], act)
