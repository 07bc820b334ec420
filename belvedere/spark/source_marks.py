"""Control rows: bounds among the rows of JSON files.

In: records of a file. Out: `PlacedMark`s; a record that is one is no row. A source is one producer, so its bounds name none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from belvedere.errors import BelvedereError, fail
from belvedere.incremental.entries import Act
from belvedere.incremental.intake import Intake
from belvedere.intake.read import read_act
from belvedere.schema import CONTROL
from belvedere.spark.records import RejectedRow, SourceFile
from belvedere.spark.source_formats import PlacedMark, Reading, format_of
from belvedere.spark.source_text import CHUNK, TextRecord, open_bytes

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
    except ValueError:
        return False
    if not isinstance(given, dict) or set(given) != {CONTROL}:
        return False
    try:
        act = read_act(Act.BOUND, table, given[CONTROL])
        if act.producer is not None:
            raise fail("B5025", f'a bound in a file of "{table.name}" names no producer: a source is one')
        act = replace(act, column=Intake.event_time_column(table, act.column))
    except BelvedereError as error:
        reading.rejected.append(RejectedRow(reading.table, path, record.line, record.text, error.diagnostics[0].message))
        return True
    reading.marks.append(PlacedMark(path, record.line, act))
    return True
