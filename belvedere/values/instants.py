"""Instants as numbers: microseconds since 1970, as bounds, clocks and stores count them.

In: a datetime, or such a number. Out: the other one. It reads no text and knows no zone but UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant 0."""


def microseconds(time: datetime) -> int:
    """Microseconds since 1970 of a time; one without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def instant(since: int) -> datetime:
    """The inverse of `microseconds`, in UTC. Raises OverflowError outside the years 1 to 9999."""
    return EPOCH + timedelta(microseconds=since)
