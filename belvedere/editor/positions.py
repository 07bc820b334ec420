r"""Offsets of a text as lines and characters, in the units of the Language Server Protocol.

In: a text, an encoding (`utf-8`, `utf-16`, `utf-32`). Out: offsets in characters, or lines and units, all from 0. A
line ends at `\n`, `\r\n` or `\r`. A position beyond the end of a line or of the text is moved to that end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

_ENDS = re.compile(r"\r\n|\n|\r")
_BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def units(text: str, encoding: str) -> int:
    """Return the length of a text in code units of an encoding."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    codec, size = _BYTES[encoding]
    return len(text.encode(codec, "surrogatepass")) // size


class LineIndex:
    """A text with an index of its lines."""

    def __init__(self, text: str):
        self.text = text
        ends = [m.span() for m in _ENDS.finditer(text)]
        self.starts: Sequence[int] = [0, *(end for _, end in ends)]
        self.ends: Sequence[int] = [*(start for start, _ in ends), len(text)]

    def offset(self, line: int, character: int, encoding: str = "utf-16") -> int:
        """Return the offset of a position."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line]
        content = self.text[start : self.ends[line]]
        if encoding == "utf-32" or content.isascii():
            return start + min(max(character, 0), len(content))
        for n, char in enumerate(content):
            character -= units(char, encoding)
            if character < 0:
                return start + n
        return start + len(content)

    def position(self, offset: int, encoding: str = "utf-16") -> tuple[int, int]:
        """Return the line and the character of an offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self.starts, offset) - 1
        start = self.starts[line]
        return line, units(self.text[start : min(offset, self.ends[line])], encoding)
