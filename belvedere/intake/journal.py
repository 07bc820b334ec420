"""The journal: numbered records on disk that survive a crash at any moment.

In: payloads of bytes. Out: the uncommitted payloads, in order. A segment is a file of frames
(`belvedere.intake.segments`); its first frame is a JSON header. `append` returns when its records are on disk. When the
journal is opened, a torn end is cut off and kept in a separate file. `belvedere.intake.entry_bytes` defines the content
of the payloads.

A suspended process may continue after another one has taken over its journal. So a process that opens a journal which
was not closed starts a new term and writes into its own segments. Their headers record where the segments before end:
the first of them may be deleted while the other process is still suspended.

After each write, a process checks the journal's claim (`journal_claim`) and acknowledges only if it still owns the
journal. An acknowledged record was therefore on disk before the other process read the journal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belvedere.errors import fail
from belvedere.intake.journal_claim import Claim, read_claim, write_claim
from belvedere.intake.segments import (
    ENDING,
    VERSION,
    counting,
    cut_torn_end,
    damaged,
    frame,
    read_frames,
    seed_of,
    segment_name,
    term_of,
)
from belvedere.process.durable_files import sync_folder

SEGMENT_BYTES = 16 << 20
"""Bytes after which a new segment is started."""
SPENT_BYTES = 1 << 20
"""Bytes of committed records after which a new segment is started and the old one is deleted."""
LOCK = "lock"

__all__ = ["ENDING", "LOCK", "Journal", "JournalPosition", "JournalTakeover"]


@dataclass
class _Segment:
    path: Path
    first: int
    last: int
    """Number of its last record; `first - 1` if it has none."""
    size: int = 0
    seed: int | None = None
    """Initial value of the checksums of its frames."""


@dataclass(frozen=True)
class JournalPosition:
    """The committed position of a store in a journal: the journal's id and the number of the last record."""

    journal: str = ""
    sequence: int = 0


class JournalTakeover(OSError):
    """Another process has taken over the journal. It may or may not have read the last written records."""


class Journal:
    """An open journal, owned by one process at a time. Not thread-safe."""

    def __init__(
        self,
        directory: Path,
        committed: JournalPosition,
        snapshot: Callable[[], Mapping[str, Any]] = dict,
        owner: str = "",
        before: str | None = None,
    ):
        """Open or create the journal in `directory`, for a store that has committed up to `committed`.

        `snapshot` returns extra fields for a new segment's header. `before` is the former owner of the store: it may be
        suspended and still hold the journal's lock.

        Raises B6141 (the journal belongs to another store, or lacks records that the store needs), B6142 (damaged),
        B6143 (in use) or B6140 (not writable).
        """
        self.directory, self._snapshot = directory, snapshot
        self._file: int | None = None
        self._broken = False
        self._takes_over = False
        """Whether the next record starts a new segment because the last segment is of another term."""
        self._before: Mapping[str, Any] | None = None
        """The last segment and its end when the term began; None if there was no earlier term."""
        self._lock: int | None = None
        self._segments: list[_Segment] = []
        self.committed_sequence = committed.sequence
        self.headers: list[Mapping[str, Any]] = []
        self.notices: list[str] = []
        """Notices on the files' state at the start."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            sync_folder(directory.parent)
            claimed = read_claim(directory)
            self._lock = _locked(directory, takes_over=bool(before) and claimed.owner == before)
            self._claim = Claim(owner or uuid.uuid4().hex, claimed.term + bool(claimed.owner))
            write_claim(directory, self._claim)
        except OSError as error:
            raise _unwritable(directory, error) from error
        try:
            self._load(committed)
        except BaseException:
            self.close()
            raise

    @property
    def last(self) -> int:
        """Number of the last record."""
        return self._segments[-1].last if self._segments else self.committed_sequence

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all remaining records with their numbers, including committed ones."""
        for segment in self._segments:
            for number, payload in enumerate(read_frames(segment.path, segment.size).payloads, start=segment.first - 1):
                if number >= segment.first:
                    yield number, payload

    @property
    def is_ours(self) -> bool:
        """Return whether this process still owns the journal."""
        return read_claim(self.directory) == self._claim

    def append(self, payloads: Sequence[bytes]) -> None:
        """Write records and return when they are on disk.

        Raises OSError on failure. Then no record is in the journal, except after `JournalTakeover`.
        """
        if self._broken:
            raise OSError(errno.EIO, "an earlier write failed and could not be taken back")
        segment = self._writable()
        data = bytearray()
        for payload in payloads:
            data += frame(payload, segment.seed, segment.size + len(data))
        assert self._file is not None
        try:
            _write(self._file, data)
            os.fdatasync(self._file)
        except OSError:
            self._broken = True  # until the half-written end is off again
            if self.is_ours:
                self._cut(segment)
                self._broken = False
            raise
        if not self.is_ours:
            self._broken = True
            raise JournalTakeover(errno.EIO, "another process has the journal")
        segment.size += len(data)
        segment.last += len(payloads)

    def committed(self, sequence: int) -> None:
        """Mark all records up to `sequence` as committed, and delete segments that contain no others."""
        self.committed_sequence = max(self.committed_sequence, sequence)
        for segment in self._segments[:-1]:
            if segment.last > self.committed_sequence:
                break
            with contextlib.suppress(OSError):  # deleted on the next attempt
                segment.path.unlink()
                self._segments.remove(segment)

    def close(self) -> None:
        """Close the files and release the journal."""
        self._close_file()
        with contextlib.suppress(OSError):  # the next one takes it over
            if hasattr(self, "_claim") and self.is_ours:
                write_claim(self.directory, Claim("", self._claim.term))
                del self._claim
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    # --- segments

    def _load(self, committed: JournalPosition) -> None:
        there = counting(self.directory)
        for path in there.paths:
            self._add(path, there.ends.get(path), path == there.paths[-1])
        found = {str(h["journal"]) for h in self.headers}
        if committed.journal and found - {committed.journal}:
            raise _not_ours(self.directory, "belongs to another store")
        if self._segments and self._segments[0].first > committed.sequence + 1:
            what = (
                f"no longer has the records {committed.sequence + 1} to {self._segments[0].first - 1}, "
                "which the store does not have"
            )
            raise _not_ours(self.directory, what)
        for path in there.void:
            path.unlink(missing_ok=True)
        self.id = committed.journal or next(iter(found), "") or uuid.uuid4().hex
        if self._segments and self.last < committed.sequence:  # an old copy was put back: all of it is in the store
            for segment in self._segments:
                segment.path.unlink()
            self._segments.clear()
        self._begin_term()

    def _begin_term(self) -> None:
        """Find where the term began: at the present end, or before its first segment if it has segments already."""
        last = self._segments[-1] if self._segments else None
        self._takes_over = self._claim.term > (term_of(last.path) if last else 0)
        if self._takes_over:
            self._before = {"name": last.path.name if last else "", "end": last.size if last else 0}
        else:
            self._before = self.headers[-1].get("before") if last else None

    def _add(self, path: Path, end: int | None, newest: bool) -> None:
        """Read a segment up to `end`, and cut off the torn end of the newest one. Raises B6142."""
        found = read_frames(path, end)
        previous = self._segments[-1] if self._segments else None
        if found.header is None or (previous and found.header["first"] != previous.last + 1):
            raise damaged(path, 0)
        if found.goes_on_at is not None or (found.end < found.size and not newest):
            raise damaged(path, found.end, found.goes_on_at)
        if found.end < found.size:
            self.notices.append(cut_torn_end(path, found))
        first = int(found.header["first"])
        self._segments.append(_Segment(path, first, first + len(found.payloads) - 2, found.end, seed_of(found.header)))
        self.headers.append(found.header)

    def _writable(self) -> _Segment:
        """Return the segment for the next records, open for writing."""
        last = self._segments[-1] if self._segments else None
        spent = last is not None and last.last <= self.committed_sequence and last.size > SPENT_BYTES
        if last is None or self._takes_over or last.size > SEGMENT_BYTES or spent:
            self._close_file()
            last = self._start(self.last + 1)
        if self._file is None:
            self._file = os.open(last.path, os.O_WRONLY | os.O_APPEND)
        return last

    def _start(self, first: int) -> _Segment:
        header = {"version": VERSION, "journal": self.id, "first": first, **self._snapshot()}
        if self._before is not None:
            header["before"] = self._before
        data = frame(json.dumps(header).encode(), None, 0)
        path = self.directory / segment_name(first, self._claim.term)
        scratch = path.with_suffix(".new")
        file = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write(file, data)
            os.fsync(file)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        os.replace(scratch, path)
        sync_folder(self.directory)
        self._takes_over = False
        self._segments.append(_Segment(path, first, first - 1, len(data), seed_of(header)))
        self.committed(self.committed_sequence)
        return self._segments[-1]

    def _cut(self, segment: _Segment) -> None:
        """Undo a failed write.

        After a failed sync the file is reopened, since the system's cache of it is not reliable.
        """
        self._close_file()
        with open(segment.path, "rb+") as file:
            file.truncate(segment.size)
            os.fsync(file.fileno())

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write(file: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _locked(directory: Path, takes_over: bool) -> int | None:
    """Lock the folder. If the journal is taken over from the lock's owner, return None; else raise B6143."""
    descriptor = os.open(directory / LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        if takes_over:
            return None
        raise fail("B6143", f"the journal {directory} is in use", hint="stop the other `belvedere run` first") from None
    return descriptor


def _not_ours(directory: Path, why: str) -> Exception:
    return fail(
        "B6141",
        f"the journal {directory} {why}",
        hint="restore the store that it belongs to, or move the folder away to continue without its rows",
    )


def _unwritable(directory: Path, error: OSError) -> Exception:
    hint = "check that this user can write there, and that the disk has space"
    return fail("B6140", f"the journal {directory} cannot be written", hint=hint, detail=str(error))
