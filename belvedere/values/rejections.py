"""Reasons why rows are rejected: a text for users, with its kind for programs.

In: kind and text of a reason. Out: a `Reason`. In columns of Arrow and Spark reasons are encoded as texts. `reason_of`
decodes them, and joins the reasons of one row (separated by `NEXT`) into one. No code parses the text for users.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

THEN, NEXT = "\x1f", "\x1e"
"""Separators of encoded reasons: after the kind and after the general text, and between two reasons of one row."""


class RejectionKind(StrEnum):
    """Kind of problem of a rejected row or file."""

    MISFIT = "misfit"
    """A value is not of its column's type."""
    LOSS = "loss"
    """A value does not fit its column without loss: digits, a time of day."""
    NULL = "null"
    """A NOT NULL column is NULL."""
    NOT_JSON = "not json"
    FIELDS = "fields"
    """A CSV record has more or fewer fields than its header."""
    NEW_COLUMN = "new column"
    ENCODING = "encoding"
    SCHEMA = "schema"
    """A message does not match its schema, or names no schema."""
    NO_VALUE = "no value"
    KEY = "key"
    """The key of a message is not a key of its table."""
    TOO_LONG = "too long"
    """The row is too long: only its beginning is stored."""
    FILE = "file"
    """A whole file cannot be read."""
    OTHER = "other"


_KINDS = {kind.value: kind for kind in RejectionKind}


class Reason(str):
    """Why a row or a file is rejected. `general` is the text without the parts that vary by row."""

    kind: RejectionKind
    general: str

    def __new__(cls, text: str, kind: RejectionKind = RejectionKind.OTHER, general: str = "") -> Self:
        """Create a reason; `general` defaults to the text."""
        made = super().__new__(cls, text)
        made.kind, made.general = kind, general or text
        return made

    def with_text(self, text: str) -> Reason:
        """Return the same reason with another text."""
        return Reason(text, self.kind, text if self.general == self else self.general)

    @property
    def coded(self) -> str:
        """Return the reason as a text that `reason_of` decodes."""
        return code(self.kind, "" if self.general == self else self.general) + self


def code(kind: RejectionKind, general: str = "") -> str:
    """Return the prefix of a coded reason; without a general text the reason's own text serves as one."""
    return f"{kind.value}{THEN}{general}{THEN}"


def reason_of(coded: str) -> Reason:
    """Return the reason of an encoded text. Other texts have the kind OTHER."""
    found: list[Reason] = []
    for part in coded.split(NEXT):
        kind, *rest = part.split(THEN, 2)
        if len(rest) == 2 and kind in _KINDS:
            found.append(Reason(rest[1], _KINDS[kind], rest[0]))
        elif found:  # a quoted value contains the separator
            found[-1] = found[-1].with_text(f"{found[-1]}{NEXT}{part}")
        else:
            found.append(Reason(part))
    kinds = (reason.kind for reason in found if reason.kind is not RejectionKind.OTHER)
    return Reason("; ".join(found), next(kinds, RejectionKind.OTHER), "; ".join(reason.general for reason in found))
