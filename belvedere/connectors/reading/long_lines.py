"""Lines that are too long: skipped with bounded memory, and rejected with their beginning.

In: chunks of bytes. Out: the lines; a `TooLong` for a line above the limit. The lines after it are read normally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.values.rejections import Reason, RejectionKind

LIMIT_MB = 32
"""Default maximum size in megabytes of a line, a CSV record or a message (`max_line_mb` of the source)."""
SHOWN = 1_000
"""Number of characters of a too long line that its rejection keeps."""
MAY_BE_LONG = ("the line", "the row", "the message")
STEP = 1 << 20
"""Number of characters that are processed together while a record is skipped."""


@dataclass(frozen=True)
class TooLong:
    """The beginning of a line or record above the limit."""

    text: str
    reason: Reason


def limit_of(options: Mapping[str, Any]) -> int:
    """Return the maximum size of a line in bytes: `max_line_mb` of the source."""
    return int(float(options.get("max_line_mb", LIMIT_MB)) * (1 << 20))


def too_long(what: str) -> Reason:
    """Return the reason for rejecting a too long line, row or message (one of `MAY_BE_LONG`)."""
    return Reason(f"{what} is longer than its source allows (`max_line_mb`)", RejectionKind.TOO_LONG)


def whole_lines(chunks: Iterable[bytes], limit: int) -> Iterator[bytes | TooLong]:
    """Yield the bytes in blocks of complete lines, without the last line end, and between them lines that are too
    long."""
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
    """Return whether a stored reason says that the row was too long, so its text is truncated."""
    return reason in _STORED


_STORED = frozenset(map(too_long, MAY_BE_LONG))
