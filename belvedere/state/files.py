"""The files of state: pieces of Arrow data, each with its checksum, in files that are written once and never changed.

In: record batches. Out: `FileRange`s, and the batches again, memory-mapped. A file is made whole under a new name and synced
once; nothing is renamed, appended to later, or updated. What is not there, is too short, or has another checksum is told by
name, never read as it is. Where the state lies elsewhere (`Remote`), the folder has copies of its files: a file is written
there first, and fetched where its copy is missing or damaged.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import ipc

from belvedere.errors import BelvedereError, fail
from belvedere.process.durable_files import sync_folder
from belvedere.process.temporary_folders import FULL
from belvedere.state.remote_files import PART, Remote
from belvedere.state.sorted_run import FileRange

ENDING = ".run"
_ALIGNED = 64


class Writer:
    """One new file, while it is written."""

    def __init__(self, folder: Path, remote: Remote | None = None):
        self.remote = remote
        self.name = f"{uuid.uuid4().hex}{ENDING}"
        self.path = folder / self.name
        self.size = 0
        """Bytes written so far."""
        self._is_safe = False
        self._file: BinaryIO | None = None

    def add(self, batch: pa.RecordBatch) -> FileRange:
        """Write a piece; it can be read at once, and is safe once the file is `finish`ed."""
        try:
            if self._file is None:
                if not self.path.parent.is_dir():
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    for folder in self.path.parents[1:3]:  # the names of the new folders
                        sync_folder(folder)
                self._file = self.path.open("xb")
            sink = pa.BufferOutputStream()
            with ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            content = sink.getvalue()
            place = FileRange(self.name, self.size, content.size, zlib.crc32(content))
            self._file.write(content)
            self._file.write(b"\0" * (-content.size % _ALIGNED))
            self._file.flush()
            self.size += content.size + -content.size % _ALIGNED
        except OSError as error:
            raise unwritable(self.path, error) from error
        return place

    def finish(self) -> None:
        """Sync the file and its name, or send it where the state lies: from now on it survives a crash. Raises B7062, B7064."""
        if self._file is None:
            return
        if self.remote is not None:
            self._file.close()
            self.remote.put(self.path)
            self._is_safe = True
            return
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            sync_folder(self.path.parent)
            self._is_safe = True
        except OSError as error:
            raise unwritable(self.path, error) from error

    def discard(self) -> None:
        """Delete the file; not once it is safe: a commit whose answer was lost may name it, else the next start sweeps it."""
        if self._file is not None and not self._is_safe:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
                self._file.close()  # last: it writes once more, which fails where the disk is full


class Files:
    """The files in one folder, as they are read."""

    def __init__(self, folder: Path, remote: Remote | None = None):
        self.folder, self.remote = folder, remote
        self._mapped: dict[str, pa.Buffer] = {}
        self._compared: dict[str, set[FileRange]] = {}
        """The pieces of each file that have their checksums, or were written here."""

    def writer(self) -> Writer:
        """A new file."""
        return Writer(self.folder, self.remote)

    def read(self, place: FileRange) -> pa.RecordBatch:
        """One piece, in the memory of the file; its checksum is compared the first time.

        Raises B7061 where the file is not there, is too short or has other bytes, B7064.
        """
        content = self._content(place) if self.remote is None else self._copied(place, self.remote)
        if self.remote is None:
            self._compare(place, content)
        with ipc.open_file(pa.BufferReader(content)) as reader:
            return reader.get_batch(0)

    def hold(self, places: Iterable[FileRange]) -> None:
        """Map the files of pieces: they can be read from now on, although others delete them meanwhile. Raises B7061."""
        for place in places if self.remote is None else ():
            self._content(place)

    def trust(self, place: FileRange) -> FileRange:
        """Compare the checksum of a piece no more: it was written just now, or is compared."""
        self._compared.setdefault(place.file, set()).add(place)
        return place

    def _compare(self, place: FileRange, content: pa.Buffer) -> None:
        if place in self._compared.get(place.file, ()):
            return
        if not _fits(content, place):
            raise self._differs(place)
        self.trust(place)

    def _copied(self, place: FileRange, remote: Remote) -> pa.Buffer:
        """The same of a copy, which is fetched again where it is not what it should be."""
        with contextlib.suppress(BelvedereError):
            if _fits(content := self._content(place), place):
                return content
        self._mapped.pop(place.file, None)
        path = self.folder / place.file
        try:
            remote.get(path)
        except FileNotFoundError as error:
            raise damaged(path, f"it is not there, nor in {remote.address}", str(error)) from error
        if not _fits(content := self._content(place), place):
            raise self._differs(place)
        return content

    def _content(self, place: FileRange) -> pa.Buffer:
        known = self._mapped.get(place.file)
        if known is None or known.size < place.offset + place.length:
            path = self.folder / place.file
            try:
                with pa.memory_map(str(path)) as mapped:
                    known = mapped.read_buffer()
            except (OSError, pa.ArrowInvalid) as error:
                raise damaged(path, "it is not there", str(error)) from error
            if known.size < place.offset + place.length:
                raise damaged(path, f"it ends at byte {known.size:,} of {place.offset + place.length:,}")
            self._mapped[place.file] = known
        return known.slice(place.offset, place.length)

    def _differs(self, place: FileRange) -> BelvedereError:
        return damaged(self.folder / place.file, f"the bytes from {place.offset:,} on have another checksum")

    def copies(self) -> dict[str, int]:
        """The bytes of each copy of a file that lies elsewhere."""
        with contextlib.suppress(OSError):
            return {p.name: p.stat().st_size for p in self.folder.glob(f"*{ENDING}")}
        return {}

    def let_go(self, name: str) -> None:
        """Delete a file of the folder; a copy is fetched again when it is read."""
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)
        self._mapped.pop(name, None)  # last: another thread may map what is still there
        self._compared.pop(name, None)

    def missing(self, names: Collection[str]) -> str | None:
        """One of the files that is not where the state lies; None where all are, or where that cannot be told."""
        if self.remote is not None:
            there = set(self.remote.names())
            return min(set(names) - there, default=None) if there else None
        try:
            return min(set(names) - set(os.listdir(self.folder)), default=None)
        except FileNotFoundError:
            return min(names, default=None)
        except OSError as error:
            raise damaged(self.folder, "it cannot be read", str(error)) from error

    def check(self, places: Iterable[FileRange]) -> None:
        """Compare checksums. Raises B7061 for the first that differs."""
        for place in places:
            self._compare(place, self._content(place))

    def sweep(self, named: Collection[str]) -> None:
        """Delete the files that nobody names."""
        with contextlib.suppress(OSError):
            there = [p.name for end in (ENDING, PART) for p in self.folder.glob(f"*{end}")]
            there += self.remote.names() if self.remote is not None else []
            self.forget(set(there) - set(named))

    def forget(self, names: Iterable[str]) -> None:
        """Delete files."""
        names = list(names)
        if self.remote is not None:
            self.remote.delete(names)
        for name in names:
            self.let_go(name)


def _fits(content: pa.Buffer, place: FileRange) -> bool:
    return zlib.crc32(content) == place.checksum


def damaged(path: Path, what: str, detail: str | None = None) -> BelvedereError:
    """The diagnostic for a file of state that cannot be read."""
    hint = "put the folder back from the backup that the store's is from; else start with an empty store, which reads all input again"
    return fail("B7061", f"the file of state {path} is damaged or missing: {what}", hint=hint, detail=detail)


def unwritable(path: Path, error: OSError) -> BelvedereError:
    """The diagnostic for a file that cannot be written."""
    full = error.errno in FULL
    what = f"the disk of {path.parent} is full" if full else f"{path.parent} cannot be written"
    hint = (
        "free some space and start again: the store is at its last good epoch"
        if full
        else "give the folder's rights to this user"
    )
    return fail("B7062", what, hint=hint, detail=str(error))
