"""The statements of a text: queries, which end with `;`, and the prompt's commands, each on a line of its own.

In: text from a terminal or a pipe. Out: complete statements, and the incomplete rest. Nothing is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|;""", re.DOTALL)
_BLANK = re.compile(r"(?:\s|;|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMAND = re.compile(r"\s*(?:\\.*|(?:help|quit|exit)\s*;?\s*)", re.IGNORECASE)


def is_blank(text: str) -> bool:
    """Return whether a text is only space and comments."""
    return _BLANK.fullmatch(text) is not None


def is_command(line: str) -> bool:
    """Return whether a line is a command of the prompt."""
    return _COMMAND.fullmatch(line.rstrip("\n")) is not None


def statements_in(text: str) -> tuple[list[str], str]:
    """Return the complete statements, and the rest."""
    if is_command(text):
        return [text], ""
    found, start = list[str](), 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            found.append(text[start : token.end()].lstrip())
            start = token.end()
    return found, text[start:].lstrip()


def is_whole(text: str) -> bool:
    """Return whether a text ends with the end of a statement, or has none."""
    return is_blank(statements_in(text)[1])


def piped(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements of a file or pipe. The last one needs no `;`."""
    text = ""
    for line in lines:
        text = line if is_blank(text) and is_command(line) else text + line
        found, text = statements_in(text)
        yield from found
    yield text
