"""The files of state: pieces of Arrow data, each with its checksum, in files that are written once and never changed.

In: record batches. Out: `FileRange`s, and the batches from them, memory-mapped. A file is written completely under a
new name and synced once; nothing is renamed, appended to later, or updated. A missing, short or damaged file is
reported by name, never read. If the state is remote (`Remote`), a file is first written here and stays as a copy. If
there is no copy, or it is damaged, pieces or their blocks are fetched.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from belvedere.errors import BelvedereError, fail
from belvedere.process.durable_files import sync_folder
from belvedere.process.temporary_folders import FULL
from belvedere.state.remote_files import PART, Remote
from belvedere.state.sorted_run import FileRange
from belvedere.state.sparse_copy import BLOCK, SparseCopy, block_checksums, checksums_length, has_blocks, read_checksums

ENDING = ".run"
_ALIGNED = 64


class Writer:
    """A new file that is being written."""

    def __init__(self, folder: Path, remote: Remote | None = None):
        self.remote = remote
        self.name = f"{uuid.uuid4().hex}{ENDING}"
        self.path = folder / self.name
        self.size = 0
        """Bytes written so far."""
        self._is_safe = False
        self._file: BinaryIO | None = None

    def add(self, batch: pa.RecordBatch) -> FileRange:
        """Write a piece. It can be read at once, and is durable after `finish`."""
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
            behind = b"\0" * (-content.size % _ALIGNED)
            if self.remote is not None and has_blocks(content.size):
                behind += block_checksums(content)
                behind += b"\0" * (-len(behind + content) % _ALIGNED)
            self._file.write(behind)
            self._file.flush()
            self.size += content.size + len(behind)
        except OSError as error:
            raise unwritable(self.path, error) from error
        return place

    def finish(self) -> None:
        """Sync the file and its name, or send it to the state's place.

        From then on it survives a crash. Raises B7062, B7064.
        """
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
        """Delete the file, unless it is finished.

        A commit whose answer was lost may name a finished file; otherwise the next start deletes it.
        """
        if self._file is not None and not self._is_safe:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
                self._file.close()  # last: it writes once more, which fails if the disk is full


class Files:
    """The files in one folder, for reading."""

    def __init__(self, folder: Path, remote: Remote | None = None):
        self.folder, self.remote = folder, remote
        self._mapped: dict[str, pa.Buffer] = {}
        self._sparse: dict[str, dict[FileRange, SparseCopy]] = {}
        """Pieces of remote files that have no copy here."""
        self._compared: dict[str, set[FileRange]] = {}
        """The pieces of each file whose checksums were verified, or that were written here."""
        self._named: dict[str, set[str]] = {}
        """The files in the last snapshot of each arrangement, in a task's process."""

    def writer(self) -> Writer:
        """Return a new file."""
        return Writer(self.folder, self.remote)

    def read(self, place: FileRange) -> pa.RecordBatch:
        """Return one piece, memory-mapped. Its checksum is verified the first time.

        Raises B7061 if the file is missing, too short or damaged, B7064 if it cannot be fetched.
        """
        content = self._whole(place)
        with ipc.open_file(pa.BufferReader(content)) as reader:
            return reader.get_batch(0)

    def blocks(self, place: FileRange) -> SparseCopy | None:
        """Open a remote piece whose blocks are fetched as needed, or return None if the piece is here.

        Raises B7061, B7064.
        """
        if self.remote is None or self._copy(place) is not None:
            return None
        return self._sparse_copy(place, self.remote)

    def _sparse_copy(self, place: FileRange, remote: Remote) -> SparseCopy:
        held = self._sparse.setdefault(place.file, {})
        if (found := held.get(place)) is None:
            block, checksums = place.length, np.array([place.checksum], np.uint32)
            if has_blocks(place.length):
                behind = place.offset + place.length + -place.length % _ALIGNED
                given = read_checksums(self._fetched(remote, place.file, behind, checksums_length(place.length)))
                if given is not None:  # a file restored from a backup of a local state has none
                    block, checksums = BLOCK, given
            found = held[place] = SparseCopy(
                self.folder,
                place.length,
                block,
                checksums,
                lambda first, count: self._fetched(remote, place.file, place.offset + first, count),
                lambda: self._differs(place),
            )
        return found

    def _fetched(self, remote: Remote, name: str, offset: int, length: int) -> bytes:
        try:
            return remote.fetch(name, offset, length)
        except FileNotFoundError as error:
            raise damaged(self.folder / name, f"it does not exist, also not in {remote.address}", str(error)) from error

    def _whole(self, place: FileRange) -> pa.Buffer:
        """Return the bytes of a piece after verifying its checksum."""
        if self.remote is None:
            content = self._content(place)
            self._compare(place, content)
            return content
        if (copy := self._copy(place)) is not None:
            return copy
        content = pa.py_buffer(self._fetched(self.remote, place.file, place.offset, place.length))
        if not _fits(content, place):
            raise self._differs(place)
        return content

    def _copy(self, place: FileRange) -> pa.Buffer | None:
        """Return a piece of a remote file from the copy written here, or None if the copy is missing or damaged."""
        with contextlib.suppress(BelvedereError):
            content = self._content(place)
            if place in self._compared.get(place.file, ()):
                return content
            if _fits(content, place):
                self.trust(place)
                return content
        self._mapped.pop(place.file, None)
        return None

    def hold(self, places: Iterable[FileRange]) -> None:
        """Map the files of pieces. They stay readable even if others delete them. Raises B7061."""
        for place in places if self.remote is None else ():
            self._content(place)

    def trust(self, place: FileRange) -> FileRange:
        """Skip the checksum of a piece from now on: it was just written, or is verified."""
        self._compared.setdefault(place.file, set()).add(place)
        return place

    def _compare(self, place: FileRange, content: pa.Buffer) -> None:
        if place in self._compared.get(place.file, ()):
            return
        if not _fits(content, place):
            raise self._differs(place)
        self.trust(place)

    def _content(self, place: FileRange) -> pa.Buffer:
        known = self._mapped.get(place.file)
        if known is None or known.size < place.offset + place.length:
            path = self.folder / place.file
            try:
                with pa.memory_map(str(path)) as mapped:
                    known = mapped.read_buffer()
            except (OSError, pa.ArrowInvalid) as error:
                raise damaged(path, "it does not exist", str(error)) from error
            if known.size < place.offset + place.length:
                raise damaged(path, f"it is truncated at byte {known.size:,} of {place.offset + place.length:,}")
            self._mapped[place.file] = known
        return known.slice(place.offset, place.length)

    def _differs(self, place: FileRange) -> BelvedereError:
        return damaged(self.folder / place.file, f"the bytes from {place.offset:,} on have a wrong checksum")

    def copies(self, least: int) -> dict[str, int]:
        """Return the local bytes of each remote file. A file with fetched blocks counts as at least `least`."""
        found = {n: max(least, sum(s.bytes for s in held.values())) for n, held in self._sparse.items() if held}
        with contextlib.suppress(OSError):
            for path in self.folder.glob(f"*{ENDING}"):
                found[path.name] = found.get(path.name, 0) + path.stat().st_size
        return found

    def let_go(self, name: str) -> None:
        """Delete a local file. A copy is fetched again when it is read."""
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)
        self._close(name)  # last: another thread may map the remaining files

    def _close(self, name: str) -> None:
        self._mapped.pop(name, None)
        self._compared.pop(name, None)
        self._sparse.pop(name, None)

    def keep_only(self, arrangement: str, named: set[str]) -> None:
        """Close the earlier files of an arrangement except those in `named`. No file is deleted."""
        gone = self._named.get(arrangement, set()) - named
        self._named[arrangement] = named
        for name in gone.difference(*self._named.values()):
            self._close(name)

    def missing(self, names: Collection[str]) -> str | None:
        """Return one of the files that is missing at the state's place, or None if there is none or this is not
        known."""
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
        """Verify checksums. Raises B7061 for the first wrong one."""
        for place in places:
            self._whole(place)

    def present(self) -> set[str]:
        """Return the names of the existing files, here or at the state's place; empty if they cannot be listed."""
        there = set[str]()
        with contextlib.suppress(OSError):
            there.update(p.name for end in (ENDING, PART) for p in self.folder.glob(f"*{end}"))
            there.update(self.remote.names() if self.remote is not None else ())
        return there

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
    """Return the diagnostic for a file of state that cannot be read."""
    hint = (
        "restore the folder from the same backup as the store; otherwise start with an empty store, which "
        "re-reads all input"
    )
    return fail("B7061", f"the state file {path} is damaged or missing: {what}", hint=hint, detail=detail)


def unwritable(path: Path, error: OSError) -> BelvedereError:
    """Return the diagnostic for a file that cannot be written."""
    full = error.errno in FULL
    what = f"the disk of {path.parent} is full" if full else f"{path.parent} cannot be written"
    hint = (
        "free some space and start again: the store is at its last good epoch"
        if full
        else "give this user the right to write to the folder"
    )
    return fail("B7062", what, hint=hint, detail=str(error))
