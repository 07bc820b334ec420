"""The connector `files`: a table is `<path>/<Table>/*` and `<path>/<Table>.*`; exports are files named by their epoch.

In: a folder, the names that the store has recorded. Out: the new files, and their rows. A file is read once, when it
appears, so writers must create it complete (write elsewhere, then rename). `reading` parses files into rows;
`event_files` writes events to files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from belvedere.connectors.addresses import same_address
from belvedere.connectors.appended_files import APPENDED, REPLACED, Watch, as_files, in_their_files
from belvedere.connectors.connector import Arrived, FeedRequest, Imported, OffsetRange, Sampled, SourcePart
from belvedere.connectors.exporting.event_files import SUFFIXES, WRITERS
from belvedere.connectors.file_listing import Listing
from belvedere.connectors.file_names import name_below, place_of, recognised, renamed_below
from belvedere.connectors.reading.column_inference import (
    SAMPLED_FILES,
    options_of,
    schema_of_files,
    table_files,
    table_names,
)
from belvedere.connectors.reading.file_columns import names_in, unknown_columns
from belvedere.connectors.reading.formats import format_of
from belvedere.connectors.run_records import SourceFile, in_order, not_as_it_was, path_text
from belvedere.engine.epoch_row.source_spans import PastSpan
from belvedere.errors import fail
from belvedere.project.settings import Sink, Source
from belvedere.schema import CONTROL
from belvedere.time.arrival_columns import ArrivalTimes
from belvedere.values.instants import microseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_BYTES = 32 << 20
"""Maximum bytes of rows that the driver reads at once."""
MIN_CHUNK_BYTES = 64 << 10
PART_BYTES = 4 << 20
"""Maximum bytes of files that are re-read at once: the epochs of running views wait for them."""
reads_again = True
CHANGED_NOTE = "files have changed since they were read; set `appends = true` to read appended lines"
IGNORED = "ignored"
"""Key of a feed's offset: columns that the table does not have, with the first position of each."""


def tables(source: Source) -> tuple[str, ...]:
    """Return the tables that have files now."""
    return tuple(sorted(table_names(source)))


def columns(source: Source, table: str) -> pa.Schema:
    """Return the columns of a table, from a sample of its rows. Raises B6102 (unreadable file), B6103 (no rows)."""
    return schema_of_files(table, table_files(source, table), options_of(source))


def parts(source: Source, imports: Sequence[Imported]) -> Iterator[SourcePart]:
    """Yield the tables with their numbers of files, and of files that the store has not read. Raises B6023."""
    by_table = {i.table: i for i in imports}
    if source.path is None or not source.path.is_dir():
        note = f"the folder {source.path} does not exist"
        yield from (SourcePart(t, imported=i.name, note=note) for t, i in by_table.items())
        if not imports:
            yield SourcePart("", note=note)
        return
    for table in sorted({*tables(source), *by_table}):
        found, imported = Listing(str(source.path), table, ()).new_files(must_list=True), by_table.get(table)
        facts = {"files": len(found), "bytes": sum(f.length for f in found)}
        if imported is None or not imported.offset:
            yield SourcePart(table, imported="" if imported is None else imported.name, facts=facts)
            continue
        known = {name_below(os.path.abspath(source.path), n): imported.lengths.get(n) for n in imported.files}
        behind = sum(f.name not in known for f in found)
        changed = changed_files(found, known)
        facts |= changed
        note = CHANGED_NOTE if changed and not source.options.get("appends") else ""
        taken = len(imported.files)
        yield SourcePart(
            table, imported=imported.name, facts=facts, taken=taken, behind=behind, unit="files", note=note
        )


def changed_files(found: Iterable[SourceFile], known: Mapping[str | None, int | None]) -> dict[str, int]:
    """Return the number of files that are longer or shorter than when they were read, by kind, without zeros."""
    lengths = [(f.length, read) for f in found if (read := known.get(f.name)) is not None]
    counts = {APPENDED: sum(now > read for now, read in lengths), REPLACED: sum(now < read for now, read in lengths)}
    return {how: count for how, count in counts.items() if count}


def open_feed(requested: FeedRequest) -> FileFeed:
    """Open the feed of one table's files."""
    if requested.source.path is None:
        raise fail("B6020", f'source "{requested.source.name}" has no path', hint='write `path = "data/..."`')
    return FileFeed(requested)


def sample(requested: FeedRequest, rows: int, spark: Callable[[], SparkSession]) -> Sampled:
    """Return the first and last rows of the first and last files. Raises B6020, B6022, B6023."""
    return open_feed(requested).sample(rows, spark)


@dataclass(frozen=True)
class NewFiles:
    """New data: files, and undeclared columns, each with its position."""

    files: tuple[SourceFile, ...]
    ignored: Mapping[str, str]
    epoch: int | None = None
    """The epoch that has read them, if they are read again."""
    appends: bool = False
    """Whether lines may have been appended since."""
    left: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """Rejected rows of re-read files: the lines by path, None for the whole file."""

    def check(self, table: str) -> None:
        """Raise B7070 if files that are read again have changed."""
        for file in self.files if self.epoch is not None else ():
            _check_unchanged(file, table, self.epoch or 0, self.appends)


class FileFeed:
    """The feed of one table's files. Its offset is their number; the store records the name of each that was read."""

    def __init__(self, requested: FeedRequest):
        source, table = requested.source, requested.input
        assert source.path is not None
        self.id, self.table = table.id, requested.table
        self.options = options_of(source, requested.options)
        self.columns = requested.columns
        self.new_columns = source.new_columns if table.source is not None else "ignore"
        if self.new_columns == "reject":
            self.options["new_columns"] = "reject"
        self.bounded = table if table.watermarks and table.schema.find(CONTROL) is None else None
        self.reports_ignored = (
            table.source is not None and table.source.columns is not None and self.new_columns != "reject"
        )
        self.ignored: dict[str, str] = dict(requested.offset.get(IGNORED, {}))
        """Columns that files have and the table does not, each with its first position.

        Each is reported once per store.
        """
        self.chunk = min(CHUNK_BYTES, max(MIN_CHUNK_BYTES, requested.memory.chunk))
        self.memory = requested.memory
        self.directory = os.path.abspath(source.path)
        known = (name_below(self.directory, n) for n in requested.files)
        self.listing = Listing(self.directory, self.table, (n for n in known if n is not None))
        self._renames = renamed_below(self.directory, requested.files)
        self._noted = requested.noted if requested.files else None
        self._watch = Watch(
            self.listing, self.options, self._as_named(requested.noted) if requested.files else tuple, self.table
        )
        self._changed = {k: requested.offset[k] for k in (APPENDED, REPLACED) if k in requested.offset}
        """Number of files that have changed since they were read, from the last epoch's row."""
        self._parts = int(requested.offset.get("parts", 0))
        self._notices: list[str] = []

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the files that were not read yet, oldest first, at most `max_files`."""
        found = self.listing.new_files(must_list=once)
        found = self._watch.first_parts(self._without_moved(found) if self._noted is not None else found)
        parts, notices = self._watch.look(at_once=once)
        self._notices += notices
        new = in_order([*found, *parts])
        most = self.options.get("max_files")
        new = new if most is None else new[: max(1, int(most))]
        changed = self._watch.changed()
        if not new and changed == self._changed:
            return None
        ignored = self._ignored(new) if self.reports_ignored else {}
        if ignored and self.new_columns == "add":
            name, place = next(iter(ignored.items()))
            hint = (
                'restart to add the column and read the file; set `new_columns = "ignore"` to read the file without it'
            )
            raise fail(
                "B6025", f'"{self.table}" gets the column "{name}" of {self._shown(place)} at the next start', hint=hint
            )
        end: dict[str, Any] = {"files": len(self.listing.known) + sum(not f.start for f in new), **changed}
        if self._watch.appends:
            end["parts"] = self._parts + len(new)
        if reported := self.ignored | ignored:
            end[IGNORED] = reported
        return OffsetRange(end, NewFiles(tuple(new), ignored))

    def _as_named(self, noted: Callable[[], Sequence[SourceFile]]) -> Callable[[], Sequence[SourceFile]]:
        """Return the store's records under the present names of the files."""
        return lambda: [replace(f, name=self._renames.get(f.name, f.name)) for f in noted()]

    def _without_moved(self, found: Sequence[SourceFile]) -> Sequence[SourceFile]:
        """Remove files that were read in another folder, on the first look, if no recorded file exists under its
        name."""
        assert self._noted is not None
        if not found and not self.listing.met:
            return found  # the folder is not there yet
        noted, self._noted = (() if self.listing.met else self._noted()), None
        moved = recognised(noted, found)
        if not moved:
            return found
        none = f'none of the files read for "{self.table}" is in {path_text(self.directory)}'
        left = len(found) - len(moved)
        others = f"; new files: {left:,}" if left else ""
        self._notices.append(
            f"{none}: files of the same name, length and time are treated as the same files ({len(moved):,}){others}"
        )
        self._renames = {**self._renames, **moved}
        self.listing.known |= set(moved.values())
        return [f for f in found if f.name not in self.listing.known]

    def renames(self) -> Mapping[str, str]:
        """Return recorded names with the present names of the same files."""
        return self._renames

    def renamed(self) -> None:
        """Forget the renames, after the store has recorded the present names."""
        self._renames = {}

    def notices(self) -> Sequence[str]:
        """Return notices on renamed files, each once."""
        reported, self._notices = self._notices, []
        return reported

    def _shown(self, place: str) -> str:
        """Return the position of a column in a file as a text for users."""
        return place if place.startswith("file:") else os.path.join(str(path_text(self.directory)), place)

    def _ignored(self, files: Iterable[SourceFile]) -> dict[str, str]:
        """Return new columns of these files that the table does not have, with `file:line` of each."""
        found: dict[str, str] = {}
        for file in files:
            with as_files([file], self.options) as (part,):
                unknown = unknown_columns(part.path, format_of(file.path, self.options), self.columns, self.options)
            for name, line in unknown.items():
                if name not in self.ignored:
                    found.setdefault(name, f"{file.name}{'' if line is None or file.start else f':{line}'}")
        return found

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Return the rows of these files."""
        from belvedere.connectors.reading.reader import read_files  # loads PySpark, which takes a second

        new, ignored = cast(NewFiles, span.content).files, cast(NewFiles, span.content).ignored
        cast(NewFiles, span.content).check(self.table)
        left = cast(NewFiles, span.content).left
        whole = [f for f in new if f.path in left and left[f.path] is None]
        new = tuple(f for f in new if f not in whole)
        lines = {str(path_text(f.path)): found for f in new if (found := left.get(f.path))}
        with as_files(new, self.options) as files:
            taken = read_files(
                spark,
                self.id,
                files,
                self.columns,
                self.options,
                bounds_of=self.bounded,
                apart=True,
                chunk=self.chunk,
                memory=self.memory,
                left=lines,
            )
        rejected = in_their_files(taken.rejected, files, new, self.options)
        cast(NewFiles, span.content).check(self.table)  # check that the files are unchanged
        hint = "it is ignored until `belvedere schema accept`"
        notices = tuple(
            f'{self._shown(p)} has the column "{n}", which "{self.table}" does not have: {hint}'
            for n, p in ignored.items()
        )
        rows = taken.rows.table if taken.rows.is_collected else taken.rows
        counts = [taken.counts.get(str(path_text(f.path)), 0) for f in files]
        times = ArrivalTimes.of((n, microseconds(f.modified)) for n, f in zip(counts, new, strict=True))
        return Arrived(rows, rejected, taken.refused + len(whole), new, taken.marks, notices, times=times)

    def sample(self, rows: int, spark: Callable[[], SparkSession]) -> Sampled:
        """Return the first and last rows of the first and last files, whether or not they were read."""
        from belvedere.connectors.reading.reader import read_files  # loads PySpark, which takes a second

        files = [f for f in in_order(self.listing.new_files(must_list=True)) if f.length]
        half = SAMPLED_FILES // 2
        files = files if len(files) <= SAMPLED_FILES else [*files[:half], *files[-half:]]
        if not files:
            return Sampled(Arrived(pa.schema([pa.field(c.name, c.type) for c in self.columns]).empty_table()))
        most = max(1, rows // len(files))
        taken = read_files(spark(), self.id, files, self.columns, self.options, bounds_of=self.bounded, most=most)
        names = names_in([f.path for f in files], self.columns, self.options)
        return Sampled(Arrived(taken.rows, taken.rejected, taken.refused, tuple(files), taken.marks), names)

    def past(self, past: PastSpan, files: Sequence[SourceFile]) -> Iterator[OffsetRange]:
        """Yield the files of a past epoch, a few at a time. Raises B7070 if one is missing or changed."""
        part: list[SourceFile] = []
        left = {} if self._watch.appends else {place_of(self.directory, f, self.table): n for f, n in past.left.items()}
        for file in (replace(f, path=place_of(self.directory, f.name, self.table)) for f in files):
            _check_unchanged(file, self.table, past.epoch, self._watch.appends)
            if part and sum(f.length - f.start for f in (*part, file)) > PART_BYTES:
                yield OffsetRange({}, NewFiles(tuple(part), {}, past.epoch, self._watch.appends, left))
                part = []
            part.append(file)
        if part:
            yield OffsetRange({}, NewFiles(tuple(part), {}, past.epoch, self._watch.appends, left))

    def committed(self, span: OffsetRange) -> None:
        """Mark these files as recorded by the store."""
        content = cast(NewFiles, span.content)
        self.listing.add(content.files)
        self._watch.committed(content.files)
        self._changed = {k: span.end[k] for k in (APPENDED, REPLACED) if k in span.end}
        self._parts = int(span.end.get("parts", 0))
        self.ignored |= content.ignored

    def close(self) -> None:
        """Do nothing: no resource is open."""


def _check_unchanged(file: SourceFile, table: str, epoch: int, appends: bool) -> None:
    """Raise B7070 if a file has changed since an epoch read it. With `appends` it may have become longer."""
    try:
        found = os.stat(file.path)
    except OSError as error:
        what = "is gone" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    else:
        modified = datetime.fromtimestamp(found.st_mtime, UTC)
        if (found.st_size, modified) == (file.length, file.modified) or (appends and found.st_size >= file.length):
            return
        then, now = (
            f"{size:,} bytes of {at:%Y-%m-%d %H:%M:%S}"
            for size, at in ((file.length, file.modified), (found.st_size, modified))
        )
        what = f"has changed: its time is {now} UTC, and was {then}"
    raise not_as_it_was(f"{path_text(file.path)}, which epoch {epoch} read, {what}", table)


def place(sink: Sink, target: str) -> str:
    """Return the folder of an export. The names of its files contain only the epoch."""
    return same_address(str((sink.path or Path()) / target))


def write(sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
    """Write the events of an epoch to one file, atomically. Writing the same epoch again replaces the file."""
    if sink.format not in SUFFIXES:
        raise fail(
            "B6130",
            f'sink "{sink.name}" has the format "{sink.format}", which is not supported',
            hint='write format = "json", "csv" or "parquet"',
        )
    if sink.path is None:
        raise fail("B6131", f'sink "{sink.name}" has no path', hint='write path = "..." in belvedere.toml')
    folder, suffix = sink.path / target, SUFFIXES[sink.format]
    name = f"{target}-{epoch:012d}.{suffix}"
    part = folder / f".{name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            WRITERS[suffix](pieces, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / name)
    except OSError as error:
        raise fail(
            "B6132",
            f'sink "{sink.name}" cannot write {folder / name}: {error.strerror or error}',
            hint=(
                "free some space or give this user the rights; undelivered events stay in the store and are "
                "delivered at the next start"
            ),
        ) from error


__all__ = ["FileFeed", "columns", "open_feed", "parts", "place", "sample", "tables", "write"]
