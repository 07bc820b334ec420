"""Columns that a file has and its table lacks. The source's settings decide: ignore and report, add, or reject.

In: a file, its format, the table's columns. Out: names with their first lines. For JSON only the beginning is read. An
unreadable file has no names here, since its reader reports the error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.connectors.reading.csv_text import delimiter_that_fits, repeated_names, said_twice
from belvedere.connectors.reading.formats import delimiter_of, format_of, has_header
from belvedere.connectors.reading.text_records import READ_ERRORS, first_csv_record, open_file, text_head
from belvedere.schema import CONTROL, Column
from belvedere.values.rejections import Reason

LOOKED_AT = 64 << 10
MAX_LINES = 100
MAX_HEADER_LENGTH = 200


def unknown_columns(
    path: str, format_: str, columns: Sequence[Column], options: Mapping[str, Any]
) -> dict[str, int | None]:
    """Return the names, each with the first line that has it, None for files without lines.

    JSON names are case-sensitive.
    """
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


def what_header_lacks(header: Sequence[str], delimiter: str, columns: Sequence[Column]) -> Reason | None:
    """Return the reason for rejecting a file with this header: no name is a column, or a name is repeated; else
    None."""
    known = {c.name.casefold() for c in columns}
    if known.isdisjoint(n.strip().casefold() for n in header):
        shown = delimiter.join(header)[:MAX_HEADER_LENGTH]
        other = delimiter_that_fits(list(header), delimiter, known)
        advice = (
            "" if other is None else f"; its delimiter seems to be {other!r}: write delimiter = {json.dumps(other)}"
        )
        return Reason(f"has the header `{shown}`, which has none of its table's columns{advice}")
    pair = next((p for p in repeated_names(header) if p[0].casefold() in known), None)
    return None if pair is None else Reason(f"{said_twice(pair)} in its header")


def ambiguous_member(path: str, columns: Sequence[Column]) -> tuple[str, str] | None:
    """Return two members of one object, at the beginning of a JSON file, that match the same column; None without
    any."""
    fields = {c.name.casefold(): c.type for c in columns}
    try:
        return next((p for _, found in _objects(path) for p in _repeated(found, fields)), None)
    except READ_ERRORS:
        return None


def _repeated(value: Any, fields: Mapping[str, pa.DataType]) -> Iterator[tuple[str, str]]:
    """Yield members of an object, and of nested objects, that match the same field. The keys of a MAP are data."""
    if not isinstance(value, _Members):
        return
    yield from (p for p in repeated_names(n for n, _ in value) if p[0].casefold() in fields)
    for name, member in value:
        type_, inner = fields.get(name.casefold()), member
        while type_ is not None and pa.types.is_list(type_):
            type_, inner = type_.value_type, next(iter(inner), None) if type(inner) is list else None
        if type_ is not None and pa.types.is_struct(type_):
            yield from _repeated(inner, {f.name.casefold(): f.type for f in type_})


def names_in(paths: Iterable[str], columns: Sequence[Column], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the column names of files, in the table's spelling if their format ignores case."""
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
    yield from ((number, name) for number, members in _objects(path) for name, _ in members)


class _Members(list[tuple[str, Any]]):
    """The members of an object as written, including repeated ones."""


def _objects(path: str) -> Iterator[tuple[int, _Members]]:
    """Yield the first lines that are objects, with their numbers."""
    lines = text_head(path, LOOKED_AT).split(b"\n")
    for number, line in enumerate(lines[:MAX_LINES], 1):
        try:
            value = json.loads(line, object_pairs_hook=_Members)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, _Members):
            yield number, value
