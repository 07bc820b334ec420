"""Elements of a statement that `belvedere fmt` lays out: words, comments and bracket groups.

`script_layout` creates them from a statement's tokens; `spacing` and `statement_layout` write them to lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType as T


@dataclass(frozen=True)
class Word:
    """A token as written. `adjacent`: no space precedes it; `typed`: part of a type."""

    text: str
    kind: T
    keyword: bool = False
    adjacent: bool = False
    typed: bool = False


@dataclass(frozen=True)
class Mark:
    """A comment. `own`: on its own line; `breaks`: a line ends after it."""

    text: str
    own: bool
    breaks: bool


@dataclass(frozen=True)
class Brackets:
    """The contents of brackets."""

    opening: Word
    items: tuple[LayoutItem, ...]
    closing: Word


LayoutItem = Word | Mark | Brackets
