"""Diagnostics: what went wrong, where, and what to write instead.

In: nothing. Out: the immutable types `Span`, `Label`, `Diagnostic` and the one exception that carries them. Rendering
for a terminal lives in `console_text`-style callers; this module only holds data and a plain-text form that tests read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Severity(StrEnum):
    """How serious a diagnostic is: only errors stop a compile."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters `[start, end)` of one file's text."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Label:
    """A related place and what it has to do with the matter."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """An edit that a tool can apply: replace the span's text by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a script, a row or a run, as data.

    `message` is lower case without a full stop and names the thing; `hint` says what to write instead.
    """

    code: str
    message: str
    severity: Severity = Severity.ERROR
    span: Span | None = None
    labels: tuple[Label, ...] = ()
    detail: str | None = None
    hint: str | None = None
    fix: Fix | None = None
    reason: str | None = None
    """The part of the message that says why, for messages about something else that have the same cause."""


class BelvedereError(Exception):
    """Raised where work cannot go on; carries the diagnostics that say why."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics))


def fail(
    code: str,
    message: str,
    *,
    span: Span | None = None,
    hint: str | None = None,
    detail: str | None = None,
    reason: str | None = None,
) -> BelvedereError:
    """An error with one diagnostic, ready to raise."""
    return BelvedereError(Diagnostic(code, message, span=span, hint=hint, detail=detail, reason=reason))


def in_other_text(diagnostic: Diagnostic, file: str, by: int, to: str) -> Diagnostic:
    """The diagnostic of a text that was made of another: what points into `file` points `by` characters further ahead into `to`.

    Labels for what the other text does not have are left out; places in other files stay.
    """

    def there(span: Span) -> Span:
        return span if span.file != file else Span(to, max(0, span.start - by), max(0, span.end - by))

    labels = tuple(replace(label, span=there(label.span)) for label in diagnostic.labels if label.span.start >= by)
    fix = replace(diagnostic.fix, span=there(diagnostic.fix.span)) if diagnostic.fix else None
    return replace(diagnostic, span=there(diagnostic.span) if diagnostic.span else None, labels=labels, fix=fix)
