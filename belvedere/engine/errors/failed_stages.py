"""Failed stages in an epoch's row, and the relations that are in quarantine because of them.

In: the row's `extra`. Out: the failed stages, the relations with their last good epochs. It makes no decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from belvedere.errors import Diagnostic

DOCUMENT = "quarantined"
"""In the epoch row's `extra`: the stages that have failed, as JSON."""
FINGERPRINT = "meaning"
"""In that document: the definition fingerprint of a stage."""


@dataclass(frozen=True)
class Failed:
    """A stage that failed, with why, and of each served relation behind it the last epoch whose answer it shows (None: no epoch yet)."""

    stage: str
    fingerprint: str
    """Its definition fingerprint."""
    owner: str
    since: int
    """The epoch that it failed in first."""
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
    """The inputs' clocks before that epoch, as their document, of one that resumes."""
    lost: str = ""
    """Why what it has missed is not kept any more; it does not heal then."""
    reason: str | None = None
    """The part of the message that says why, without the name of the view."""

    def as_document(self) -> dict[str, Any]:
        """As the epoch's row has it."""
        return {FINGERPRINT if name == "fingerprint" else name: value for name, value in asdict(self).items()}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Failed:
        """The inverse of `as_document`."""
        known = dict(document)
        return cls(fingerprint=known.pop(FINGERPRINT), **known)

    def reported(self, diagnostic: Diagnostic) -> Failed:
        """The same with what it says now."""
        said = {name: getattr(diagnostic, name) for name in ("code", "message", "detail", "hint", "reason")}
        return replace(self, **said)


def failures_of(extra: Mapping[str, Any]) -> tuple[Failed, ...]:
    """The failed stages that an epoch's row knows."""
    return tuple(map(Failed.of_document, extra.get(DOCUMENT) or ()))


def failures_document(failed: Iterable[Failed]) -> dict[str, Any]:
    """The inverse, as a part of `extra`; nothing where nothing has failed."""
    found = [f.as_document() for f in failed]
    return {DOCUMENT: found} if found else {}


def quarantined(failed: Iterable[Failed]) -> dict[str, int | None]:
    """The served relations in quarantine, each with its last good epoch; None where no epoch has filled it."""
    found: dict[str, int | None] = {}
    for one in failed:
        for name, epoch in one.good.items():
            found[name] = earlier(found.get(name, epoch), epoch)
    return found


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two last good epochs; None, no epoch yet, comes before all."""
    return None if one is None or other is None else min(one, other)
