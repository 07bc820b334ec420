"""Records of CSV text (RFC 4180), including texts with quotes that never close.

In: lines with their ends. Out: records with their first lines. A quote that is open at the end of the text would take
all lines after it into one field. So its line becomes a record without fields, and the lines after it are read as
records. The same applies to a quote that is open for `MAX_RECORD_LENGTH` characters.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from belvedere.connectors.reading.long_lines import SHOWN, STEP, too_long
from belvedere.values.rejections import Reason

MAX_RECORD_LENGTH = 1 << 24
"""Maximum number of characters in a record."""
DELIMITERS = (",", ";", "\t", "|")
csv.field_size_limit(sys.maxsize)


class CsvRecord(NamedTuple):
    """A record: its first line number and its fields; if a quote never closes, None and the text."""

    line: int
    fields: list[str] | None
    text: str = ""
    fault: Reason | None = None
    """The reason that it is not a record, other than an open quote: it is too long."""


class LongLine(str):
    """The beginning of a line that is too long."""


def bounded_lines(text: io.TextIOBase, limit: int) -> Iterator[str]:
    """Yield the lines with their ends. Of a line above `limit` characters only the beginning is read into memory."""
    while line := text.readline(limit + 1):
        if len(line) <= limit:
            yield line
            continue
        beginning = line[:SHOWN]
        while line and not line.endswith(("\n", "\r")):
            line = text.readline(STEP)
        yield LongLine(beginning)


@dataclass
class _Lines:
    """Lines for the parser; `held` are those of the present record."""

    lines: Iterator[str]
    held: list[str] = field(default_factory=list)
    ended: bool = False
    size: int = 0
    long: LongLine | None = None
    """A line that is too long, which ends the record."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = None if self.size > MAX_RECORD_LENGTH else next(self.lines, None)
        if line is None:
            self.ended = True
            raise StopIteration
        if isinstance(line, LongLine):
            self.ended, self.long = True, line
            raise StopIteration
        self.held.append(line)
        self.size += len(line)
        return line


def csv_records_of(lines: Iterable[str], delimiter: str, *, is_whole: bool = True) -> Iterator[CsvRecord]:
    """Yield the records that are not empty.

    Unless `is_whole`, the text may continue, so its last record is left out.
    """
    rest, start = iter(lines), 1
    while True:
        given = _Lines(rest)
        for fields in csv.reader(given, delimiter=delimiter):
            if given.ended:  # the parser asks for a further line only within quotes
                break
            if fields:
                yield CsvRecord(start, fields)
            start += len(given.held)
            given.held, given.size = [], 0
        if given.long is not None:
            rest = chain([given.long], rest) if given.held else rest
            if not given.held:
                yield CsvRecord(start, None, given.long, too_long("the line"))
                start += 1
                continue
        if not given.held or not is_whole:
            return
        yield CsvRecord(start, None, given.held[0].rstrip("\r\n"))
        start += 1
        rest = chain(given.held[1:], rest)


def delimiter_that_fits(line: list[str], delimiter: str, names: Iterable[str]) -> str | None:
    """Return another delimiter with which a header has some of these names; None if no usual one does."""
    known, text = {n.casefold() for n in names}, delimiter.join(line)
    for other in (d for d in DELIMITERS if d != delimiter):
        if known & {n.strip().casefold() for n in next(csv.reader([text], delimiter=other), [])}:
            return other
    return None


def repeated_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that are equal or differ in case only, each with the first such name."""
    first: dict[str, str] = {}
    found = []
    for name in (n.strip() for n in names):
        if name and name.casefold() in first:
            found.append((first[name.casefold()], name))
        first.setdefault(name.casefold(), name)
    return found


def said_twice(pair: tuple[str, str]) -> Reason:
    """Return the reason for rejecting such a pair."""
    one, other = pair
    return Reason(f'has "{one}" twice' if one == other else f'has "{one}" and "{other}", which differ only in case')
