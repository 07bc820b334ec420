"""Diagnostics: the error, its position, and the correction.

In: nothing. Out: the immutable types `Span`, `Label`, `Diagnostic`, and the one exception that carries them. The module
holds data, and a plain-text form for tests; other modules render diagnostics for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a diagnostic; only errors stop a compile."""

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
    """A related position and a description of the relation."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """An edit that a tool can apply: replace the text of the span by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a script, a row or a run, as data.

    `message` is lower case without a full stop and names the object; `hint` shows the correct form.
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
    """The part of the message with the reason, for other messages with the same cause."""


class BelvedereError(Exception):
    """Raised if work cannot continue; carries diagnostics with the reasons."""

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
    """Return an error with one diagnostic, ready to raise."""
    return BelvedereError(Diagnostic(code, message, span=span, hint=hint, detail=detail, reason=reason))


def in_other_text(diagnostic: Diagnostic, file: str, by: int, to: str) -> Diagnostic:
    """Return the diagnostic of a generated text for its original: positions in `file` move by `by` characters into
    `to`.

    Labels for generated parts are omitted; positions in other files are unchanged.
    """

    def there(span: Span) -> Span:
        return span if span.file != file else Span(to, max(0, span.start - by), max(0, span.end - by))

    labels = tuple(replace(label, span=there(label.span)) for label in diagnostic.labels if label.span.start >= by)
    fix = replace(diagnostic.fix, span=there(diagnostic.fix.span)) if diagnostic.fix else None
    return replace(diagnostic, span=there(diagnostic.span) if diagnostic.span else None, labels=labels, fix=fix)


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: `1 column`, `2,000 columns`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
