"""Why rows are rejected: a text for people, with its kind for programs.

In: what the makers of reasons know. Out: a `Reason`. On their way through columns of Arrow and Spark reasons are coded texts, and
`reason_of` reads them again: of several reasons of one row, joined by `NEXT`, it makes one. Nothing takes the text for people apart.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

THEN, NEXT = "\x1f", "\x1e"
"""Separators of coded reasons: the end of the kind and of the general text, and between two reasons of one row."""


class RejectionKind(StrEnum):
    """Kind of problem of a rejected row or file."""

    MISFIT = "misfit"
    """A value is not of its column's type."""
    LOSS = "loss"
    """A value has more than its column keeps: digits, a time of day."""
    NULL = "null"
    """A column that must not be NULL is."""
    NOT_JSON = "not json"
    FIELDS = "fields"
    """A CSV record has more or fewer fields than its header."""
    NEW_COLUMN = "new column"
    ENCODING = "encoding"
    SCHEMA = "schema"
    """A message is not what its schema says, or names none."""
    NO_VALUE = "no value"
    KEY = "key"
    """The key of a message is none of its table."""
    TOO_LONG = "too long"
    """The row is too long: only its beginning is stored."""
    FILE = "file"
    """A whole file cannot be read."""
    OTHER = "other"


_KINDS = {kind.value: kind for kind in RejectionKind}


class Reason(str):
    """Why a row or a file is rejected. `general` is the text without what differs from row to row."""

    kind: RejectionKind
    general: str

    def __new__(cls, text: str, kind: RejectionKind = RejectionKind.OTHER, general: str = "") -> Self:
        """`general` is the text itself where it is not given."""
        made = super().__new__(cls, text)
        made.kind, made.general = kind, general or text
        return made

    def with_text(self, text: str) -> Reason:
        """The same in another text."""
        return Reason(text, self.kind, text if self.general == self else self.general)

    @property
    def coded(self) -> str:
        """The reason as a text that `reason_of` reads."""
        return code(self.kind, "" if self.general == self else self.general) + self


def code(kind: RejectionKind, general: str = "") -> str:
    """Return the prefix of a coded reason; without a general text the reason's own text serves as one."""
    return f"{kind.value}{THEN}{general}{THEN}"


def reason_of(coded: str) -> Reason:
    """The reason of a coded text. A text that is not coded is of the kind OTHER."""
    found: list[Reason] = []
    for part in coded.split(NEXT):
        kind, *rest = part.split(THEN, 2)
        if len(rest) == 2 and kind in _KINDS:
            found.append(Reason(rest[1], _KINDS[kind], rest[0]))
        elif found:  # a value that is cited has the separator in it
            found[-1] = found[-1].with_text(f"{found[-1]}{NEXT}{part}")
        else:
            found.append(Reason(part))
    kinds = (reason.kind for reason in found if reason.kind is not RejectionKind.OTHER)
    return Reason("; ".join(found), next(kinds, RejectionKind.OTHER), "; ".join(reason.general for reason in found))
