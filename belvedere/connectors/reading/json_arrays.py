"""Elements of one JSON array, or objects over several lines, read as a stream: only one value at a time is in memory.

In: chunks of UTF-8. Out: Python values as `json` parses them. Raises ValueError if the bytes have another form.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

SPACE = " \t\n\r"
MAX_ELEMENT_LENGTH = 1 << 25
"""Maximum number of characters that are searched for the end of one element."""


class _PartialText:
    """The text from a position on, as much as was needed so far."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks = chunks
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self.text, self.place = "", 0

    def more(self) -> bool:
        """Read on, at least as much again as is in memory. Return whether there was more."""
        self.text, self.place = self.text[self.place :], 0
        if len(self.text) > MAX_ELEMENT_LENGTH:
            raise ValueError("an element is too long")
        parts, requested = [self.text], max(1, len(self.text))
        while requested > 0 and not self._ended:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            parts.append(self._decoder.decode(chunk or b"", final=chunk is None))
            requested -= len(parts[-1])
        self.text = "".join(parts)
        return any(parts[1:])

    def next(self) -> str:
        """Return the next character that is not a space, without consuming it; empty at the end."""
        while True:
            while self.place < len(self.text) and self.text[self.place] in SPACE:
                self.place += 1
            if self.place < len(self.text):
                return self.text[self.place]
            if not self.more():
                return ""

    def value(self) -> Any:
        """Return the next value."""
        while True:
            try:
                found, end = _DECODER.raw_decode(self.text, self.place)
            except RecursionError:
                raise ValueError("an element is nested too deeply") from None
            except ValueError:
                if not self.more():
                    raise
                continue
            left = len(self.text) - end
            if left <= len("e+") and self.more():
                continue  # a number may continue
            self.place = len(self.text) - left
            return found


_DECODER = json.JSONDecoder()


def read_elements(chunks: Iterator[bytes]) -> Iterator[Any]:
    """Yield the elements of an array."""
    text = _PartialText(chunks)
    _expect(text, "[")
    if text.next() == "]":
        text.place += 1
    else:
        while True:
            text.next()
            yield text.value()
            if _expect(text, ",]") == "]":
                break
    if text.next():
        raise ValueError("something follows the array")


def read_documents(chunks: Iterator[bytes]) -> Iterator[Any]:
    """Yield objects, wherever their lines end."""
    text = _PartialText(chunks)
    while found := text.next():
        if found != "{":
            raise ValueError(f"expected an object, found {found!r}")
        yield text.value()


def _expect(text: _PartialText, requested: str) -> str:
    found = text.next()
    if not found or found not in requested:
        raise ValueError(f"expected one of {requested!r}, found {found!r}")
    text.place += 1
    return found
