"""Which former state is asked for, and which versions of a relation's rows held then.

In: an epoch's number or a time. Out: a condition over the columns of a history in a store's dialect. Knows nothing of what is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from belvedere.instants import instant, microseconds
from belvedere.schema import SINCE_EPOCH, SINCE_TIME, UNTIL_EPOCH, UNTIL_TIME
from belvedere.store.identifiers import identifier


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


def held(as_of: AsOf, dialect: str) -> str:
    """The condition under which a version of a row held then."""
    if as_of.time is None:
        since, until, then = SINCE_EPOCH, UNTIL_EPOCH, str(int(as_of.epoch or 0))
    else:
        since, until, then = SINCE_TIME, UNTIL_TIME, str(int(as_of.time))
        if dialect == "postgres":
            seconds, micros = divmod(as_of.time, 1_000_000)
            then = f"(TIMESTAMPTZ 'epoch' + INTERVAL '{seconds} seconds {micros} microseconds')"
    return f"{identifier(since)}<={then} AND ({identifier(until)} IS NULL OR {identifier(until)}>{then})"
