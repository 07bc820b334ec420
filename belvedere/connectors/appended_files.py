"""Files that change after they were read: appended lines are read or reported, replaced files are reported.

In: the listing of a table's files, and the store's records of them. Out: the parts of files to read now, the
number of files that changed otherwise, and notices. A part goes from the end of the last read to the end of the last
complete line. It is read as a separate scratch file, which begins with the header of a CSV file.
"""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from belvedere.connectors.file_listing import Listing
from belvedere.connectors.reading.formats import format_of, has_header
from belvedere.connectors.reading.text_records import COMPRESSIONS, line_breaks
from belvedere.connectors.run_records import RejectedRow, SourceFile, path_text
from belvedere.engine.rows.scratch_rows import PREFIX
from belvedere.process.temporary_folders import scratch_folder

PART_BYTES = 256 << 20
"""Maximum bytes of a file that one epoch reads, so that a large file needs no large copy."""
BLOCK = 1 << 20
PAUSE_SECONDS, REST_SECONDS = 30.0, 1.0
"""Seconds between two checks of files that were read; with `appends` the second applies."""
SHARE = 20
"""Inverse of the maximum share of time that a check may take."""
APPENDED, REPLACED = "grown", "replaced"
"""Keys of an offset: the number of files with appended lines that are not read, and of files with changed content."""


@dataclass
class Watch:
    """The files of one table that were read, and their changes since."""

    listing: Listing
    options: Mapping[str, Any]
    noted: Callable[[], Sequence[SourceFile]]
    table: str
    _ends: dict[str, SourceFile] | None = None
    _changed: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, SourceFile] = field(default_factory=dict)
    """Files as the last check found them."""
    _next: float = 0.0

    def __post_init__(self) -> None:
        self._next = 0.0 if self.appends else time.monotonic() + PAUSE_SECONDS

    @property
    def appends(self) -> bool:
        """Whether appended lines are read."""
        return bool(self.options.get("appends"))

    def changed(self) -> dict[str, int]:
        """Return the number of files that have changed since they were read, by kind of change, without zeros."""
        kinds = list(self._changed.values())
        return {k: kinds.count(k) for k in (APPENDED, REPLACED) if k in kinds}

    def first_parts(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Return new files up to their last complete line; other files unchanged."""
        found = []
        for file in files:
            if not self.appends or not _has_lines(file, self.options):
                found.append(file)
            elif end := whole_end(file.path, 0, file.length, self._is_csv(file)):
                found.append(replace(file, length=end))
        return found

    def look(self, at_once: bool) -> tuple[list[SourceFile], list[str]]:
        """Return the new parts of files that were read, and notices on the other files, each once."""
        now = time.monotonic()
        if now < self._next and not at_once:
            return [], []
        if self._ends is None:
            self._ends = {f.name: f for f in self.noted()}
        parts, reported = list[SourceFile](), list[str]()
        for file in self.listing.known_files():
            before = self._ends.get(file.name)
            if before is None:
                continue
            if (before.length, before.modified) == (file.length, file.modified):
                self._seen[file.name] = file
                continue
            if self.appends and _has_lines(file, self.options) and file.length >= before.length:
                if part := self._part(file, before):
                    parts.append(part)
                continue
            reported += self._reported(file, before)
        took = time.monotonic() - now
        self._next = now + took + max(REST_SECONDS if self.appends else PAUSE_SECONDS, SHARE * took)
        return parts, reported

    def committed(self, files: Iterable[SourceFile]) -> None:
        """Mark these files as recorded by the store."""
        if self._ends is not None:
            self._ends |= {f.name: f for f in files}
        self._next = 0.0 if self.appends else self._next

    def _part(self, file: SourceFile, before: SourceFile) -> SourceFile | None:
        end = whole_end(file.path, before.length, file.length, self._is_csv(file))
        return replace(file, length=end, start=before.length) if end > before.length else None

    def _reported(self, file: SourceFile, before: SourceFile) -> Iterator[str]:
        """Yield notices on a file whose content differs from what was read.

        A new modification time alone counts only if this run saw the file change.
        """
        last = self._seen.setdefault(file.name, file)
        if file.length == before.length and last == file:
            return
        self._seen[file.name] = file
        how = APPENDED if file.length > before.length and not self.appends else REPLACED
        if self._changed.get(file.name) == how:
            return
        self._changed[file.name] = how
        sizes = f"{file.length:,} bytes, and had {before.length:,} when it was read"
        if how == APPENDED:
            what = "its new lines are not read; set `appends = true` under its source if files grow"
        else:
            what = "it was replaced, and is not re-read; put new rows into a file of another name"
        yield f'{path_text(file.path)} of "{self.table}" has {sizes}: {what}'

    def _is_csv(self, file: SourceFile) -> bool:
        return format_of(file.path, self.options) == "csv"


def _has_lines(file: SourceFile, options: Mapping[str, Any]) -> bool:
    """Return whether a file can be read in parts: uncompressed JSON lines or CSV in UTF-8."""
    form = format_of(file.path, options)
    if form not in ("json", "csv") or Path(file.path).suffix.lower() in COMPRESSIONS:
        return False
    with open(file.path, "rb") as opened:
        first = opened.read(1024)
    is_array = form == "json" and first.lstrip().startswith(b"[")
    return not is_array and not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def whole_end(path: str, start: int, size: int, is_csv: bool) -> int:
    """Return the end of the last complete line between two positions of a file, if possible within `PART_BYTES`.

    A CSV record may contain line ends within quotes. The result is `start` if there is no complete line.
    """
    end, quotes, most = start, 0, PART_BYTES
    with open(path, "rb") as opened:
        opened.seek(start)
        place = start
        while place < size and (end == start or place - start < most):
            block = np.frombuffer(opened.read(min(BLOCK, size - place)), np.uint8)
            if not len(block):
                break
            ends = np.flatnonzero(block == ord("\n"))
            if is_csv:
                marks = np.cumsum(block == ord('"')) + quotes
                ends, quotes = ends[marks[ends] % 2 == 0], int(marks[-1])
            end = place + int(ends[-1]) + 1 if len(ends) else end
            place += len(block)
    return end


@contextmanager
def as_files(files: Sequence[SourceFile], options: Mapping[str, Any]) -> Iterator[Sequence[SourceFile]]:
    """Yield the files, with scratch files in place of those that are read in part."""
    folder = scratch_folder(PREFIX)
    try:
        yield [_copied(f, n, folder, options) for n, f in enumerate(files)]
    finally:
        rmtree(folder, ignore_errors=True)


def _copied(file: SourceFile, number: int, folder: Path, options: Mapping[str, Any]) -> SourceFile:
    if not options.get("appends") or not _has_lines(file, options):
        return file
    if not file.start and os.path.getsize(file.path) == file.length:
        return file
    target = folder / f"{number}{Path(file.path).suffix}"
    left = file.length - file.start
    with ExitStack() as stack:
        source, part = stack.enter_context(open(file.path, "rb")), stack.enter_context(target.open("wb"))
        part.write(_header(file, options) if file.start else b"")
        source.seek(file.start)
        while left and (block := source.read(min(BLOCK, left))):
            part.write(block)
            left -= len(block)
    return replace(file, path=str(target))


def _header(file: SourceFile, options: Mapping[str, Any]) -> bytes:
    """Return the first record of a CSV file if it names the columns; else no bytes."""
    if format_of(file.path, options) != "csv" or not has_header(options):
        return b""
    found = b""
    with open(file.path, "rb") as opened:
        for line in opened:
            found += line
            if found.count(b'"') % 2 == 0:
                break
    return found


def in_their_files(
    rejected: Iterable[RejectedRow], read: Sequence[SourceFile], files: Sequence[SourceFile], options: Mapping[str, Any]
) -> tuple[RejectedRow, ...]:
    """Return rejected rows of scratch files with the original files and line numbers."""
    place = {path_text(r.path): f for r, f in zip(read, files, strict=True) if r.path != f.path}
    before = {p: _lines(f.path, f.start) - _header(f, options).count(b"\n") if f.start else 0 for p, f in place.items()}
    found = []
    for row in rejected:
        file = place.get(row.file)
        line = None if row.line is None or file is None else row.line + before[row.file]
        found.append(row if file is None else replace(row, file=path_text(file.path), line=line))
    return tuple(found)


def _lines(path: str, end: int) -> int:
    """Return the number of lines of a file up to a position."""
    count = 0
    with open(path, "rb") as opened:
        while end and (block := opened.read(min(BLOCK, end))):
            count += line_breaks(block)
            end -= len(block)
    return count
