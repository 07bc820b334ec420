"""A segment of the journal: frames of length, check and payload, and what damage has done to them.

In: a file's bytes. Out: its whole frames, and how it ends. The check of a frame covers the segment's name and the frame's place in it:
zeros, older bytes and bytes of other files behind the end are never taken for records. Nothing is written here but a torn end that is cut.
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

from belvedere.errors import fail
from belvedere.process.durable_files import sync_folder

FRAME = struct.Struct("<II")
PLACE = struct.Struct("<QI")
VERSION = 2
SEEDLESS = 1
"""Version of journals whose checks cover the payload alone."""
ENDING = ".journal"
TORN = ".torn"
"""Ending of a file that keeps what was cut off a segment."""


@dataclass(frozen=True)
class SegmentFrames:
    """The whole frames of a segment from its start: payloads, and the place where the last one ends. `header` is that of the first one."""

    payloads: tuple[bytes, ...]
    end: int
    size: int
    header: Mapping[str, Any] | None
    goes_on_at: int | None = None
    """Place of the first whole frame behind broken bytes; None where there is none."""


def frame(payload: bytes, seed: int | None, place: int) -> bytes:
    """A record's bytes at a place of a segment; without a seed (the header) the check covers the payload alone."""
    return FRAME.pack(len(payload), _check(payload, seed, place)) + payload


def seed_of(header: Mapping[str, Any]) -> int | None:
    """The part of all checks of a segment that says whose it is."""
    return None if header["version"] == SEEDLESS else zlib.crc32(f"{header['journal']} {header['first']}".encode())


def read_frames(path: Path, end: int | None = None) -> SegmentFrames:
    """The frames of a segment, up to a place of the file. A broken header leaves nothing to read."""
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
    """A segment's header; None where it is none that is known here."""
    try:
        header = json.loads(payload)
    except ValueError:
        return None
    return header if isinstance(header, dict) and header.get("version") in (SEEDLESS, VERSION) else None


def header_of(path: Path) -> Mapping[str, Any] | None:
    """A segment's header by itself; None where it is broken."""
    with path.open("rb") as file:
        head = file.read(FRAME.size)
        length = FRAME.unpack(head)[0] if len(head) == FRAME.size else 0
        first = _payload(head + file.read(length), 0, None)
    return None if first is None else read_header(first)


def segment_name(first: int, term: int) -> str:
    """The name of a segment of a term, which begins with record `first`."""
    return f"{first:020}{f'~{term:06}' if term else ''}{ENDING}"


def term_of(path: Path) -> int:
    """The term in which a segment was begun."""
    _, _, term = path.stem.partition("~")
    return int(term) if term.isdecimal() else 0


@dataclass(frozen=True)
class Counting:
    """The segments of a folder that count, in order.

    `ends` has the place up to which a segment counts that another process took over. `void` are segments that a process
    began after it had lost the journal: it acknowledged none of their records.
    """

    paths: tuple[Path, ...]
    ends: Mapping[Path, int]
    void: tuple[Path, ...]


def counting(directory: Path) -> Counting:
    """Return the segments of a journal's folder that count.

    Each header of a term names the segment that was the last one when the term began. Where that is no longer there, the store has
    all that came before the term. The newest term decides first: an older one may have gone on after it was taken over.
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
    """Cut what is behind the last whole frame, keep it beside the segment, and return a sentence that reports it."""
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
    moved = f"its last {frames.size - frames.end} bytes were moved to {kept.name}"
    return f"the journal's file {path} had an incomplete end, left by a crash: {moved}"


def damaged(path: Path, place: int, behind: int | None = None) -> Exception:
    """B6142, with the place of the damage and of the next whole record."""
    more = "" if behind is None else f"; complete records follow from byte {behind} on"
    return fail(
        "B6142",
        f"the journal's file {path} is damaged at byte {place}{more}",
        hint="restore it from a backup, or move it away to continue without its records; the file was not changed",
    )


def _payload(data: bytes, place: int, seed: int | None) -> bytes | None:
    """The payload of a whole frame at a place. No record is empty: zeros are none."""
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
    """The first place behind `place` where a whole frame begins."""
    left = len(data) - FRAME.size - place - 1
    if left <= 0:
        return None
    values = np.frombuffer(data, np.uint8)[place + 1 :].astype(np.int64)
    lengths = values[:left] | values[1 : left + 1] << 8 | values[2 : left + 2] << 16 | values[3 : left + 3] << 24
    possible = np.flatnonzero((lengths > 0) & (lengths <= left - np.arange(left)))
    places = (int(p) + place + 1 for p in possible)
    return next((p for p in places if _payload(data, p, seed) is not None), None)
