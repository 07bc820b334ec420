"""Instants as numbers: microseconds since 1970, the form of bounds, clocks and stores.

In: a datetime, or such a number. Out: the other form. It parses no text and uses only UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant 0."""


def microseconds(time: datetime) -> int:
    """Return the microseconds since 1970 of a time; a naive time is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def instant(since: int) -> datetime:
    """Return the inverse of `microseconds`, in UTC. Raises OverflowError outside the years 1 to 9999."""
    return EPOCH + timedelta(microseconds=since)
