"""Columns that a file has and its table has not: they are ignored, and reported.

In: a file, its format, the table's columns. Out: names. Of JSON only the beginning is looked at; a file that cannot be read has none,
since its reader reports that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from belvedere.connectors.reading.formats import delimiter_of, has_header
from belvedere.connectors.reading.records import READ_ERRORS, first_csv_record, open_bytes, open_file
from belvedere.schema import CONTROL, Column

LOOKED_AT = 64 << 10
MOST_LINES = 100


def unknown_columns(path: str, format_: str, columns: Sequence[Column], options: Mapping[str, Any]) -> list[str]:
    """The names, each once. JSON names are compared with their case, as they are read."""
    try:
        match format_:
            case "json":
                known = {CONTROL, *(c.name for c in columns)}
                return [n for n in dict.fromkeys(_members(path)) if n not in known]
            case "csv":
                names = first_csv_record(path, delimiter_of(path, options)) if has_header(options) else []
            case _:
                names = pq.read_schema(open_file(path)).names
    except (*READ_ERRORS, ValueError):
        return []
    folded = {c.name.casefold() for c in columns}
    return [n.strip() for n in dict.fromkeys(names) if n.strip() and n.strip().casefold() not in folded]


def _members(path: str) -> Iterator[str]:
    with open_bytes(path) as stream:
        lines = stream.read(LOOKED_AT).split(b"\n")
    for line in lines[:MOST_LINES]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield from value
