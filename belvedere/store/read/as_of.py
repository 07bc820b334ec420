"""A request for an earlier state, and the versions of a relation's rows that were valid then.

In: an epoch's number or a time. Out: a condition over the columns of a history in a store's dialect. It does not know
which versions still exist.
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
    """An earlier state: `epoch`, or `time` in microseconds since 1970. Exactly one is given."""

    epoch: int | None = None
    time: int | None = None

    @classmethod
    def of(cls, value: int | datetime) -> AsOf:
        """Return the state of an epoch's number or a timestamp."""
        return cls(time=microseconds(value)) if isinstance(value, datetime) else cls(epoch=value)

    def __str__(self) -> str:
        return f"epoch {self.epoch}" if self.time is None else instant(self.time).isoformat()

    def valid_versions(self, dialect: Dialect) -> str:
        """Return the condition under which a version of a row was valid then."""
        then = str(int(self.epoch or 0)) if self.time is None else dialect.instant(self.time)
        return valid_versions(then, by_time=self.time is not None)


def valid_versions(then: str, by_time: bool) -> str:
    """Return the condition under which a version of a row was valid then.

    `then` is an epoch's number or a time in SQL.
    """
    since, until = (SINCE_TIME, UNTIL_TIME) if by_time else (SINCE_EPOCH, UNTIL_EPOCH)
    return f"{identifier(since)}<={then} AND ({identifier(until)} IS NULL OR {identifier(until)}>{then})"
