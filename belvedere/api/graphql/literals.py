"""Take the literals out of an operation's text.

In: GraphQL text. Out: the text with a placeholder for every number and string, the literals' values, and their offsets.
Requests that differ only in literals have the same text: it is the key of the plan cache.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from graphql.language.block_string import dedent_block_string_lines

_LITERAL = re.compile(
    r'(?=["#\-0-9])(?:'  # if none of these follows, the regex tries nothing else: three times as fast
    r'"""(?P<block>(?:\\"""|(?!""").)*)"""'
    r'|"(?P<string>(?:[^"\\\n\r]|\\.)*)"'
    r"|(?P<comment>\#[^\n\r]*)"
    r"|(?<![_0-9A-Za-z.])(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![_0-9A-Za-z.]))",
    re.DOTALL,
)


MAX_NUMBER_LENGTH = 400
"""Maximum number of characters of an integer; longer ones, like this power of ten, exceed every type."""


@dataclass(frozen=True, slots=True)
class Literals:
    """A text split into literals and the rest: `rest` has placeholders; `values` and `offsets` are in order of the
    text."""

    rest: str
    values: list[Any]
    offsets: tuple[int, ...]


def take_out(text: str) -> Literals:
    """Return the text without its literals, and the literals. Raises `ValueError` for a string with a broken escape."""
    pieces: list[str] = []
    values: list[Any] = []
    offsets: list[int] = []
    end = 0
    for found in _LITERAL.finditer(text):
        kind = found.lastgroup
        start = found.start()
        pieces.append(text[end:start])
        end = found.end()
        if kind == "comment":
            continue
        placeholder, value = _read(kind, found)
        pieces.append(placeholder)
        values.append(value)
        offsets.append(start)
    pieces.append(text[end:])
    return Literals("".join(pieces), values, tuple(offsets))


def _read(kind: str | None, found: re.Match[str]) -> tuple[str, Any]:
    if kind == "number":
        number = found["number"]
        if "." in number or "e" in number or "E" in number:
            return "0.0", _decimal(number)
        return "0", int(number) if len(number) < MAX_NUMBER_LENGTH else 10**MAX_NUMBER_LENGTH
    if kind == "block":
        lines = re.split("\r\n|[\n\r]", found["block"].replace('\\"""', '"""'))
        return '""', "\n".join(dedent_block_string_lines(lines))
    text = found["string"]
    return '""', _unescaped(text) if "\\" in text else text


def _decimal(number: str) -> Decimal:
    """Return the exact value of a number; infinity or zero if a decimal cannot hold its exponent."""
    try:
        return Decimal(number)
    except InvalidOperation:
        return Decimal(float(number))


def _unescaped(text: str) -> str:
    plain = re.sub(r"\\u\{([0-9a-fA-F]{1,6})\}", lambda m: json.dumps(chr(int(m[1], 16)))[1:-1], text)
    return str(json.loads(f'"{plain}"', strict=False))
