"""All diagnostic codes: the meaning of each, with an example.

In: the Markdown files in this folder, one per area, with a section `## CODE title` per code. Out: `CODES`. `belvedere
explain CODE` and the documentation show these texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

HEADING = re.compile(r"^## (B\d{4}) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Code:
    """A code's title and its long text (Markdown)."""

    code: str
    title: str
    text: str


@cache
def read_codes() -> dict[str, Code]:
    """Return all codes, in order."""
    found: dict[str, Code] = {}
    for file in sorted(files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".md"):
            for code in _sections(file.read_text(encoding="utf-8")):
                found[code.code] = code
    return dict(sorted(found.items()))


def _sections(text: str) -> Iterator[Code]:
    headings = list(HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : following.start() if following else len(text)]
        yield Code(heading.group(1), heading.group(2).strip(), body.strip())


class _Codes(Mapping[str, Code]):
    """Mapping of the codes that reads the files on first use."""

    def __getitem__(self, code: str) -> Code:
        return read_codes()[code]

    def __iter__(self) -> Iterator[str]:
        return iter(read_codes())

    def __len__(self) -> int:
        return len(read_codes())


CODES: Mapping[str, Code] = _Codes()
