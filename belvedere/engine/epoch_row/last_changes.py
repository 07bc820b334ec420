"""When each served relation changed last: the epoch, and its time.

In: the document of the epoch before, the changes of this one. Out: the document that the epoch's row keeps (`{relation: [epoch,
microseconds]}`), and its values for the status. What changed is not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

DOCUMENT = "changed"
Document = Mapping[str, Any]


class LastChange(NamedTuple):
    """The last epoch that changed a relation, and when it was committed, in microseconds since 1970."""

    epoch: int
    time: int


def with_changes(
    known: Document, changed: Iterable[str], served: Iterable[str], epoch: int, time: int
) -> dict[str, Any]:
    """The document after an epoch that changed these relations; only those that are served stay in it."""
    now = {n: [epoch, time] for n in changed}
    merged = {**known, **now}
    return {n: merged[n] for n in served if n in merged}


def last_change(document: Document, relations: Iterable[str]) -> LastChange | None:
    """The latest change of any of these relations; None where none is known."""
    return max((LastChange(*document[n]) for n in relations if n in document), default=None)
