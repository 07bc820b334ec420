"""Rows of COPY in Postgres' format for texts.

In: pieces of what the server sends. Out: rows of values, as bytes: whether they are texts is for who makes columns of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Copied = tuple[bytes | None, ...]
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANINGS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def copied_rows(pieces: Iterable[bytes | bytearray | memoryview]) -> Iterator[Copied]:
    """The rows; a line break within a value is escaped, so that each line is a row."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + bytes(piece)).split(b"\n")
        for line in lines:
            yield tuple(map(_value, line.split(b"\t")))


def _value(text: bytes) -> bytes | None:
    if b"\\" not in text:
        return text
    return None if text == rb"\N" else _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), text)
