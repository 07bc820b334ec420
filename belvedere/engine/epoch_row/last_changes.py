"""The last change of each served relation: the epoch, and its time.

In: the document of the previous epoch, the changes of this one. Out: the document for the epoch's row (`{relation:
[epoch, microseconds]}`), and its values for the status. It does not contain the changes themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

DOCUMENT = "changed"
Document = Mapping[str, Any]


class LastChange(NamedTuple):
    """The last epoch that changed a relation, and its commit time in microseconds since 1970."""

    epoch: int
    time: int


def with_changes(
    known: Document, changed: Iterable[str], served: Iterable[str], epoch: int, time: int
) -> dict[str, Any]:
    """Return the document after an epoch that changed these relations. Only served relations stay in it."""
    now = {n: [epoch, time] for n in changed}
    merged = {**known, **now}
    return {n: merged[n] for n in served if n in merged}


def last_change(document: Document, relations: Iterable[str]) -> LastChange | None:
    """Return the latest change of any of these relations, or None if none is known."""
    return max((LastChange(*document[n]) for n in relations if n in document), default=None)
