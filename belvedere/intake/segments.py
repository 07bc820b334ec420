"""A segment of the journal: frames of length, checksum and payload, and the detection of damage.

In: a file's bytes. Out: its complete frames, and how it ends. The checksum of a frame covers the segment's name and the
frame's position. So zeros, older bytes and bytes of other files after the end are never read as records. The only write
here is the removal of a torn end.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from belvedere.errors import counted, fail
from belvedere.process.durable_files import sync_folder

FRAME = struct.Struct("<II")
PLACE = struct.Struct("<QI")
VERSION = 2
SEEDLESS = 1
"""Version of journals whose checksums cover the payload alone."""
ENDING = ".journal"
TORN = ".torn"
"""Suffix of a file that keeps the bytes cut off a segment."""


@dataclass(frozen=True)
class SegmentFrames:
    """The complete frames of a segment from its start: payloads, the end of the last one, and the header of the first
    one."""

    payloads: tuple[bytes, ...]
    end: int
    size: int
    header: Mapping[str, Any] | None
    goes_on_at: int | None = None
    """Position of the first complete frame after damaged bytes; None if there is none."""


def frame(payload: bytes, seed: int | None, place: int) -> bytes:
    """Return the bytes of a record at `place` in a segment.

    Without a seed (header), the checksum covers the payload alone.
    """
    return FRAME.pack(len(payload), _check(payload, seed, place)) + payload


def seed_of(header: Mapping[str, Any]) -> int | None:
    """Return the initial value of all checksums of a segment, which identifies it."""
    return None if header["version"] == SEEDLESS else zlib.crc32(f"{header['journal']} {header['first']}".encode())


def read_frames(path: Path, end: int | None = None) -> SegmentFrames:
    """Read the frames of a segment up to byte `end`. After a damaged header nothing is read."""
    data = path.read_bytes()[:end]
    first = _payload(data, 0, None)
    header = None if first is None else read_header(first)
    if first is None or header is None:
        return SegmentFrames((), 0, len(data), None)
    seed, payloads, place = seed_of(header), [first], FRAME.size + len(first)
    while (payload := _payload(data, place, seed)) is not None:
        payloads.append(payload)
        place += FRAME.size + len(payload)
    return SegmentFrames(tuple(payloads), place, len(data), header, _next_whole(data, place, seed))


def read_header(payload: bytes) -> Mapping[str, Any] | None:
    """Parse a segment's header; None if it is not a header of a known version."""
    try:
        header = json.loads(payload)
    except ValueError:
        return None
    return header if isinstance(header, dict) and header.get("version") in (SEEDLESS, VERSION) else None


def header_of(path: Path) -> Mapping[str, Any] | None:
    """Read the header of a segment file; None if it is damaged."""
    with path.open("rb") as file:
        head = file.read(FRAME.size)
        length = FRAME.unpack(head)[0] if len(head) == FRAME.size else 0
        first = _payload(head + file.read(length), 0, None)
    return None if first is None else read_header(first)


def segment_name(first: int, term: int) -> str:
    """Return the file name of a segment of a term that begins with record `first`."""
    return f"{first:020}{f'~{term:06}' if term else ''}{ENDING}"


def term_of(path: Path) -> int:
    """Return the term of a segment."""
    _, _, term = path.stem.partition("~")
    return int(term) if term.isdecimal() else 0


@dataclass(frozen=True)
class Counting:
    """The valid segments of a folder, in order.

    `ends` is the byte up to which a segment is valid if another process took it over. `void` lists the segments that a
    process began after it had lost the journal; it acknowledged none of their records.
    """

    paths: tuple[Path, ...]
    ends: Mapping[Path, int]
    void: tuple[Path, ...]


def counting(directory: Path) -> Counting:
    """Return the valid segments of a journal's folder.

    Each header of a term names the last segment at the start of the term. If that segment was deleted, the store has
    all records before the term. Newer terms take precedence: a process may have written after its journal was taken
    over.
    """
    left = sorted(directory.glob(f"*{ENDING}"), key=lambda p: (term_of(p), p.name))
    found, ends, void = list[Path](), dict[Path, int](), list[Path]()
    while left:
        term = [p for p in left if term_of(p) == term_of(left[-1])]
        del left[-len(term) :]
        found[:0] = term
        before = next((b for p in term if (b := (header_of(p) or {}).get("before"))), None)
        if before is not None:
            while left and left[-1].name != before["name"]:
                void.append(left.pop())
            if left:
                ends[left[-1]] = int(before["end"])
    return Counting(tuple(found), ends, tuple(void))


def cut_torn_end(path: Path, frames: SegmentFrames) -> str:
    """Cut off the bytes after the last complete frame, keep them in a file beside the segment, and return a notice."""
    kept = path.with_name(f"{path.name}-{frames.end}{TORN}")
    with path.open("rb") as segment, kept.open("wb") as file:
        segment.seek(frames.end)
        file.write(segment.read())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    with path.open("rb+") as segment:
        segment.truncate(frames.end)
        os.fsync(segment.fileno())
    moved = f"its end ({counted(frames.size - frames.end, 'byte')}) was moved to {kept.name}"
    return f"the journal's file {path} had an incomplete end, left by a crash: {moved}"


def damaged(path: Path, place: int, behind: int | None = None) -> Exception:
    """Return B6142 with the position of the damage and of the next complete record."""
    more = "" if behind is None else f"; complete records follow from byte {behind} on"
    return fail(
        "B6142",
        f"the journal's file {path} is damaged at byte {place}{more}",
        hint="restore it from a backup, or move it away to continue without its records; the file was not changed",
    )


def _payload(data: bytes, place: int, seed: int | None) -> bytes | None:
    """Return the payload of the frame at `place`; None if it is not complete.

    No record is empty, so zeros are no frame.
    """
    if place + FRAME.size > len(data):
        return None
    length, check = FRAME.unpack_from(data, place)
    payload = data[place + FRAME.size : place + FRAME.size + length]
    return payload if 0 < length == len(payload) and _check(payload, seed, place) == check else None


def _check(payload: bytes, seed: int | None, place: int) -> int:
    return (
        zlib.crc32(payload) if seed is None else zlib.crc32(payload, zlib.crc32(PLACE.pack(place, len(payload)), seed))
    )


def _next_whole(data: bytes, place: int, seed: int | None) -> int | None:
    """Return the first position after `place` where a complete frame begins; None if there is none."""
    left = len(data) - FRAME.size - place - 1
    if left <= 0:
        return None
    values = np.frombuffer(data, np.uint8)[place + 1 :].astype(np.int64)
    lengths = values[:left] | values[1 : left + 1] << 8 | values[2 : left + 2] << 16 | values[3 : left + 3] << 24
    possible = np.flatnonzero((lengths > 0) & (lengths <= left - np.arange(left)))
    places = (int(p) + place + 1 for p in possible)
    return next((p for p in places if _payload(data, p, seed) is not None), None)
