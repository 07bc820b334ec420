"""Diagnostics of a script, and their hints as edits.

In: a document. Out: diagnostics of this file and of others, and `Remedy`s at a position. A fix of the compiler becomes
a remedy. So does a hint that gives a replacement for the one word at the diagnostic's span.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from belvedere.editor.document import Document
from belvedere.editor.quoted_names import written
from belvedere.errors import Diagnostic
from belvedere.syntax.fmt.script_layout import format_script
from belvedere.syntax.parse import parse_script

_NAMED = re.compile(r"did you mean `([^`]+)`\?")


@dataclass(frozen=True)
class Remedy:
    """An edit that fixes a diagnostic: replace the text from `start` to `end`."""

    title: str
    diagnostic: Diagnostic
    start: int
    end: int
    text: str


def diagnostics(document: Document) -> dict[str, list[Diagnostic]]:
    """Return the diagnostics by file; this file always has an entry, which includes those without a position."""
    found: dict[str, list[Diagnostic]] = {document.file: []}
    for d in document.compile().diagnostics:
        found.setdefault(d.span.file if d.span is not None else document.file, []).append(d)
    return found


def remedies(document: Document, start: int, end: int) -> list[Remedy]:
    """Return the edits that fix diagnostics between two offsets."""
    inside = [
        d
        for d in diagnostics(document)[document.file]
        if d.span is not None and d.span.start <= end and start <= d.span.end
    ]
    return [r for d in inside if (r := remedy(d, document.text)) is not None]


def remedy(diagnostic: Diagnostic, text: str) -> Remedy | None:
    """Return the edit that fixes a diagnostic; None if the fix needs a decision of the user."""
    if (fix := diagnostic.fix) is not None:
        title = diagnostic.hint or (f"write `{fix.text}`" if fix.text else "remove it")
        return Remedy(title, diagnostic, fix.span.start, fix.span.end, fix.text)
    named = _NAMED.search(diagnostic.hint or "")
    if named is None or diagnostic.span is None:
        return None
    wrong = re.findall(r"`([^`]+)`", diagnostic.message)
    start, end = diagnostic.span.start, diagnostic.span.end
    there = text[start:end].strip("`").casefold()
    last = next((w for w in wrong if there.endswith(w.casefold())), None)
    if last is None:
        return None
    if there != last.casefold():  # `last` is the last name of a path
        start = end - len(last)
    return Remedy(f"write `{named[1]}`", diagnostic, start, end, written(named[1]))


def formatted(document: Document) -> str | None:
    """Return the formatted script; None if it has syntax errors."""
    text = document.text
    return format_script(text) if parse_script(text, document.file).ok else None
