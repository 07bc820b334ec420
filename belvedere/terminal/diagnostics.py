"""Diagnostics for people and tools.

In: diagnostics and the texts to which they refer. Out: text in the manner of a modern compiler, or plain values for
JSON. Prints nothing itself.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.errors import Diagnostic, Severity, Span, counted

COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTICE: "36"}
TAB = 4


@dataclass(frozen=True)
class LinePlace:
    """Line and column of an offset, both from 1, and the line's text without its end."""

    line: int
    column: int
    text: str


class LineLookup:
    """A text in which offsets are looked up."""

    def __init__(self, text: str):
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def place(self, offset: int) -> LinePlace:
        """Return the place of an offset. Offsets beyond the end are at the end."""
        index = min(bisect_right(self.starts, max(offset, 0)) - 1, len(self.lines) - 1)
        text = self.lines[index]
        return LinePlace(index + 1, min(offset - self.starts[index], len(text)) + 1, text.rstrip("\r"))


def render(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str], *, colour: bool = False) -> str:
    """Return all diagnostics in sequence, with the source lines to which they refer."""
    lines = {file: LineLookup(text) for file, text in texts.items()}
    return "\n".join(render_one(d, lines, colour=colour) for d in diagnostics)


def render_one(diagnostic: Diagnostic, lines: Mapping[str, LineLookup], *, colour: bool = False) -> str:
    """Return one diagnostic as several lines of text, ending with a line break."""
    paint = _painter(colour, COLOURS[diagnostic.severity])
    out = [paint(f"{diagnostic.severity}[{diagnostic.code}]", bold=True) + f": {diagnostic.message}"]
    pointers = [(diagnostic.span, "")] if diagnostic.span else []
    pointers += [(label.span, label.text) for label in diagnostic.labels]
    places = [(span, text, lines[span.file].place(span.start)) for span, text in pointers if span.file in lines]
    width = max((len(str(place.line)) for _, _, place in places), default=1)
    for number, (span, text, place) in enumerate(places):
        arrow = "-->" if number == 0 else ":::"
        out.append(f"{' ' * width}{arrow} {span.file}:{place.line}:{place.column}")
        out.append(f"{' ' * width} |")
        out.append(f"{place.line:>{width}} | {_expand(place.text)}")
        out.append(f"{' ' * width} | " + paint(_carets(span, place) + (f" {text}" if text else "")))
    if diagnostic.span and not places:
        out.append(f"{' ' * width}--> {diagnostic.span.file}")
    for word, said in (("detail", diagnostic.detail), ("hint", diagnostic.hint)):
        if said:
            out.append(f"{' ' * width} = {word}: " + said.replace("\n", "\n" + " " * (width + 3)))
    return "\n".join(out) + "\n"


def _painter(colour: bool, code: str) -> Any:
    def paint(text: str, bold: bool = False) -> str:
        return f"\x1b[{'1;' if bold else ''}{code}m{text}\x1b[0m" if colour else text

    return paint


def _expand(text: str) -> str:
    return text.replace("\t", " " * TAB)


def _cells(text: str) -> int:
    """Return the number of terminal columns of a text."""
    wide = sum(1 for c in text if unicodedata.east_asian_width(c) in "WF")
    return len(_expand(text)) + wide - sum(1 for c in text if unicodedata.combining(c))


def _carets(span: Span, place: LinePlace) -> str:
    before = place.text[: place.column - 1]
    marked = place.text[place.column - 1 : place.column - 1 + max(span.end - span.start, 0)]
    return " " * _cells(before) + "^" * max(_cells(marked), 1)


def as_json(diagnostic: Diagnostic, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a diagnostic as plain values: offsets from 0, lines and columns from 1."""
    lines = {file: LineLookup(text) for file, text in texts.items()}
    result: dict[str, Any] = {
        "code": diagnostic.code,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        "span": _span_json(diagnostic.span, lines),
        "labels": [{"span": _span_json(label.span, lines), "text": label.text} for label in diagnostic.labels],
        "detail": diagnostic.detail,
        "hint": diagnostic.hint,
    }
    fix = diagnostic.fix
    result["fix"] = {"span": _span_json(fix.span, lines), "text": fix.text} if fix else None
    return result


def _span_json(span: Span | None, lines: Mapping[str, LineLookup]) -> dict[str, Any] | None:
    if span is None:
        return None
    result: dict[str, Any] = {"file": span.file, "start": span.start, "end": span.end}
    if span.file in lines:
        place, end = lines[span.file].place(span.start), lines[span.file].place(span.end)
        result |= {"line": place.line, "column": place.column, "end_line": end.line, "end_column": end.column}
    return result


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """Return for example `2 errors, 1 notice`, or the empty string."""
    found = list(diagnostics)
    counts = [(s, sum(d.severity is s for d in found)) for s in Severity]
    return ", ".join(counted(n, s) for s, n in counts if n)
