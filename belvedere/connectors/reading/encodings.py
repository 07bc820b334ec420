"""Conversion of UTF-16, which some Windows programs write, to UTF-8.

In: the chunks of a file's bytes. Out: the same text as chunks of UTF-8, without a byte order mark. Raises OSError if
bytes that begin as UTF-16 are not valid.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

BYTE_ORDER_MARK = codecs.BOM_UTF8
HEAD = 4
"""Number of bytes that identify the encoding."""


def utf16_of(head: bytes) -> str | None:
    """Return the UTF-16 variant of a text, from its byte order mark or the zeros of its first two characters; None for
    UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) < HEAD:
        return None
    zeros = [n for n, byte in enumerate(head[:HEAD]) if not byte]
    return "utf-16-le" if zeros == [1, 3] else "utf-16-be" if zeros == [0, 2] else None


def as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks as UTF-8, without a byte order mark."""
    head = b""
    while len(head) < HEAD and (more := next(chunks, None)) is not None:
        head += more
    encoding = utf16_of(head)
    if encoding is None:
        yield head.removeprefix(BYTE_ORDER_MARK)
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        yield decoder.decode(head).encode()
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise OSError("it begins as UTF-16 but is not valid UTF-16") from error
