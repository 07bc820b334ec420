"""Columns that a file has and its table has not: ignored and reported, added, or a reason to reject, as the source says.

In: a file, its format, the table's columns. Out: names with their first lines. Of JSON only the beginning is looked at; a file that
cannot be read has none, since its reader reports that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from belvedere.connectors.reading.formats import delimiter_of, format_of, has_header
from belvedere.connectors.reading.records import READ_ERRORS, first_csv_record, open_bytes, open_file
from belvedere.schema import CONTROL, Column

LOOKED_AT = 64 << 10
MOST_LINES = 100


def unknown_columns(path: str, format_: str, columns: Sequence[Column], options: Mapping[str, Any]) -> dict[str, int | None]:
    """The names, each with the first line that has it, None where files have no lines. JSON names are compared with their case."""
    line: int | None = None
    try:
        match format_:
            case "json":
                known, found = {CONTROL, *(c.name for c in columns)}, dict[str, int | None]()
                for number, name in _members(path):
                    if name not in known:
                        found.setdefault(name, number)
                return found
            case "csv":
                line = 1
                names = first_csv_record(path, delimiter_of(path, options)) if has_header(options) else []
            case _:
                names = pq.read_schema(open_file(path)).names
    except (*READ_ERRORS, ValueError):
        return {}
    folded = {c.name.casefold() for c in columns}
    return {n.strip(): line for n in names if n.strip() and n.strip().casefold() not in folded}


def names_in(paths: Iterable[str], columns: Sequence[Column], options: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns that files have, in the table's spelling where their format does not tell cases apart."""
    spelled = {c.name.casefold(): c.name for c in columns}
    found: dict[str, None] = {}
    for path in paths:
        format_ = format_of(path, options)
        names: Iterable[str] = unknown_columns(path, format_, (), options)
        if format_ == "csv" and not has_header(options):
            names = spelled.values()
        found |= dict.fromkeys(n if format_ == "json" else spelled.get(n.casefold(), n) for n in names)
    return tuple(found)


def _members(path: str) -> Iterator[tuple[int, str]]:
    with open_bytes(path) as stream:
        lines = stream.read(LOOKED_AT).split(b"\n")
    for number, line in enumerate(lines[:MOST_LINES], 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield from ((number, name) for name in value)
