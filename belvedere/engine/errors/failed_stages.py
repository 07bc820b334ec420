"""Failed stages in an epoch's row, and the relations that are in quarantine because of them.

In: the row's `extra`. Out: the failed stages, the relations with their last good epochs. It makes no decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from belvedere.errors import Diagnostic

DOCUMENT = "quarantined"
"""Name in the epoch row's `extra`: the failed stages, as JSON."""
FINGERPRINT = "meaning"
"""Name in that document: the definition fingerprint of a stage."""


@dataclass(frozen=True)
class Failed:
    """A failed stage with its reason, and for each served relation behind it the last epoch whose answer it shows
    (None: no epoch yet)."""

    stage: str
    fingerprint: str
    """Its definition fingerprint."""
    owner: str
    since: int
    """The epoch in which it failed first."""
    at: int
    """That epoch's clock, in microseconds."""
    code: str
    message: str
    detail: str | None = None
    hint: str | None = None
    good: Mapping[str, int | None] = field(default_factory=dict)
    resumes: bool = False
    """Whether it continues with the changes it missed, if the rows to recompute it are not kept."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """The inputs' clocks before that epoch, as their document, for a stage that resumes."""
    lost: str = ""
    """Why its missed changes are no longer kept. It does not heal then."""
    reason: str | None = None
    """The part of the message with the reason, without the name of the view."""

    def as_document(self) -> dict[str, Any]:
        """Return the record in the form of the epoch's row."""
        return {FINGERPRINT if name == "fingerprint" else name: value for name, value in asdict(self).items()}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Failed:
        """Parse the data of `as_document`."""
        known = dict(document)
        return cls(fingerprint=known.pop(FINGERPRINT), **known)

    def reported(self, diagnostic: Diagnostic) -> Failed:
        """Return the stage with its present diagnostic."""
        said = {name: getattr(diagnostic, name) for name in ("code", "message", "detail", "hint", "reason")}
        return replace(self, **said)


def failures_of(extra: Mapping[str, Any]) -> tuple[Failed, ...]:
    """Return the failed stages in an epoch's row."""
    return tuple(map(Failed.of_document, extra.get(DOCUMENT) or ()))


def failures_document(failed: Iterable[Failed]) -> dict[str, Any]:
    """Return the failed stages as a part of `extra`; empty if none failed."""
    found = [f.as_document() for f in failed]
    return {DOCUMENT: found} if found else {}


def quarantined(failed: Iterable[Failed]) -> dict[str, int | None]:
    """Return the served relations in quarantine, each with its last good epoch, or None if no epoch has filled it."""
    found: dict[str, int | None] = {}
    for one in failed:
        for name, epoch in one.good.items():
            found[name] = earlier(found.get(name, epoch), epoch)
    return found


def earlier(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two last good epochs. None (no epoch yet) is the earliest."""
    return None if one is None or other is None else min(one, other)
