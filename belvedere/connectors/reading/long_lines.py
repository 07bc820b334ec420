"""Lines that are too long: passed over in memory that does not grow with them, and rejected with their beginning.

In: chunks of bytes. Out: the lines; of one above the limit a `TooLong`. The lines behind it are read as any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.values.rejections import Reason, RejectionKind

LIMIT_MB = 32
"""Megabytes that a line, a CSV record or a message may have, unless its source says otherwise (`max_line_mb`)."""
SHOWN = 1_000
"""Characters of what is too long that its rejection keeps."""
MAY_BE_LONG = ("the line", "the row", "the message")
STEP = 1 << 20
"""Characters that are looked at together while a record is passed over."""


@dataclass(frozen=True)
class TooLong:
    """The beginning of a line or record above the limit."""

    text: str
    reason: Reason


def limit_of(options: Mapping[str, Any]) -> int:
    """Bytes that a line may have: `max_line_mb` of the source."""
    return int(float(options.get("max_line_mb", LIMIT_MB)) * (1 << 20))


def too_long(what: str) -> Reason:
    """Why such a line, row or message (one of `MAY_BE_LONG`) is rejected."""
    return Reason(f"{what} is longer than its source allows (`max_line_mb`)", RejectionKind.TOO_LONG)


def whole_lines(chunks: Iterable[bytes], limit: int) -> Iterator[bytes | TooLong]:
    """The bytes cut at ends of lines, which are left out: blocks of lines, and between them lines that are too long."""
    begun = bytearray()
    passing: bytes | None = None
    for chunk in chunks:
        start = 0
        if passing is not None:
            start = chunk.find(b"\n") + 1
            if not start:
                continue
            yield _beginning(passing)
            passing = None
        first = chunk.find(b"\n", start)
        if first >= 0 and len(begun) + first - start > limit:
            yield _beginning(bytes(begun + chunk[start:first])[: 4 * SHOWN])
            begun, start = bytearray(), first + 1
        end = chunk.rfind(b"\n", start)
        if end >= 0:
            yield bytes(begun) + chunk[start:end]
            begun, start = bytearray(), end + 1
        begun += chunk[start:]
        if len(begun) > limit:
            passing, begun = bytes(begun[: 4 * SHOWN]), bytearray()
    yield bytes(begun) if passing is None else _beginning(passing)


def _beginning(data: bytes) -> TooLong:
    return TooLong(data.decode("utf-8", "replace")[:SHOWN], too_long("the line"))


def is_beginning(reason: str) -> bool:
    """Whether what was rejected for this reason, as the store has it, was too long: its text is only its beginning."""
    return reason in _STORED


_STORED = frozenset(map(too_long, MAY_BE_LONG))
