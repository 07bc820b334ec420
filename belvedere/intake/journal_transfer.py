"""Copies of a journal for backup and restore of its store.

In: folders of journals, a store's position. Out: the journal in the folder of its store. A journal that a run has open
is not touched.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from belvedere.intake.journal import LOCK, JournalPosition
from belvedere.intake.segments import (
    VERSION,
    Counting,
    SegmentFrames,
    counting,
    frame,
    read_frames,
    seed_of,
    segment_name,
)
from belvedere.process.durable_files import sync_folder


@dataclass(frozen=True)
class JournalContents:
    """Contents of a journal: its segments, and the number of its last record."""

    segments: tuple[SegmentFrames, ...] = ()
    last: int = 0


def read_journal(directory: Path, position: JournalPosition) -> JournalContents | None:
    """Read the journal of a store at `position`; its contents are empty if all its records are committed.

    Return None if a run has it open, or if its records are incomplete from the position on.
    """
    with _unused(directory) as is_unused:
        there = counting(directory) if is_unused else Counting((), {}, ())
        segments = tuple(read_frames(p, there.ends.get(p)) for p in there.paths)
    if not segments:
        return JournalContents() if is_unused else None
    last: int | None = None
    for segment in segments:
        header, is_whole = segment.header, segment.end == segment.size or segment is segments[-1]
        if header is None or header["journal"] != position.journal or segment.goes_on_at is not None or not is_whole:
            return None
        if header["first"] != last + 1 if last is not None else header["first"] > position.sequence + 1:
            return None
        last = int(header["first"]) + len(segment.payloads) - 2
    assert last is not None
    return JournalContents() if last < position.sequence else JournalContents(segments, last)


def write_journal(kept: JournalContents, directory: Path, id_: str) -> None:
    """Write a journal into a new folder, under its own id."""
    for segment in kept.segments:
        directory.mkdir(parents=True, exist_ok=True)
        assert segment.header is not None
        header = {n: v for n, v in segment.header.items() if n != "before"} | {"version": VERSION, "journal": id_}
        data = bytearray(frame(json.dumps(header).encode(), None, 0))
        for payload in segment.payloads[1:]:
            data += frame(payload, seed_of(header), len(data))
        with (directory / segment_name(header["first"], 0)).open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    if kept.segments:
        sync_folder(directory)
        sync_folder(directory.parent)


@contextmanager
def _unused(directory: Path) -> Iterator[bool]:
    """Yield whether no run has the journal open, and keep it locked meanwhile."""
    try:
        lock = os.open(directory / LOCK, os.O_WRONLY)
    except FileNotFoundError:
        yield directory.is_dir()  # a backup's
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(lock)
