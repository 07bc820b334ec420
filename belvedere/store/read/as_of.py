"""Which former state is asked for, and which versions of a relation's rows held then.

In: an epoch's number or a time. Out: a condition over the columns of a history in a store's dialect. Knows nothing of what is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from belvedere.schema import SINCE_EPOCH, SINCE_TIME, UNTIL_EPOCH, UNTIL_TIME
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.identifiers import identifier
from belvedere.values.instants import instant, microseconds


@dataclass(frozen=True)
class AsOf:
    """A former state: `epoch`, or `time` in microseconds since 1970. Exactly one is given."""

    epoch: int | None = None
    time: int | None = None

    @classmethod
    def of(cls, value: int | datetime) -> AsOf:
        """An epoch's number or an instant."""
        return cls(time=microseconds(value)) if isinstance(value, datetime) else cls(epoch=value)

    def __str__(self) -> str:
        return f"epoch {self.epoch}" if self.time is None else instant(self.time).isoformat()

    def valid_versions(self, dialect: Dialect) -> str:
        """The condition under which a version of a row held then."""
        then = str(int(self.epoch or 0)) if self.time is None else dialect.instant(self.time)
        return valid_versions(then, by_time=self.time is not None)


def valid_versions(then: str, by_time: bool) -> str:
    """The condition under which a version of a row held then, an epoch's number or a time in SQL."""
    since, until = (SINCE_TIME, UNTIL_TIME) if by_time else (SINCE_EPOCH, UNTIL_EPOCH)
    return f"{identifier(since)}<={then} AND ({identifier(until)} IS NULL OR {identifier(until)}>{then})"
