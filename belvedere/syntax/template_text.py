"""`{{name}}` in a script, and sections of Mustache: the text that they stand for, with a map back to what is written.

In: a script's text and the variables, None where they are not known (a script is laid out without its project). Out:
`Expanded`: the text that is read, places of the script for each of its places, and diagnostics at the script's own
places. Comments are left alone.

`{{name}}`, `{{{name}}}` and `{{&name}}` are the variable's value, as it is. `{{#name}} ... {{/name}}` is there where
the variable is set, and neither empty nor `false`, `no`, `off` or `0`; `{{^name}} ... {{/name}}` is there where it is
not. `{{! ... }}` is a comment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from belvedere.errors import Diagnostic, Span
from belvedere.syntax.wording import did_you_mean, nearest_name

NAME = r"[A-Za-z_][\w.\-]*"
TAG = re.compile(
    rf"\{{\{{\{{\s*(?P<raw>{NAME})\s*\}}\}}\}}"
    rf"|\{{\{{(?:!(?P<note>[^}}]*)|\s*(?P<kind>[#^/&>=]?)\s*(?P<name>{NAME})\s*=?)\}}\}}"
)
QUIET = re.compile(r"--[^\n]*|/\*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`", re.DOTALL)
IMPORTED = re.compile(r"\bIMPORT\s+[\w.`{}\- ]*$", re.IGNORECASE)
FALSE = frozenset(("", "false", "no", "off", "0"))


@dataclass(frozen=True)
class TextPart:
    """A stretch of the text that is read: `start` there, and its place in the script. Of a value all is at the place
    of its tag.
    """

    start: int
    written: tuple[int, int]
    is_value: bool


@dataclass(frozen=True)
class Expanded:
    """The text that a script's text stands for."""

    text: str
    pieces: tuple[TextPart, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    """Places of the script with a variable that has no value."""
    put_in: tuple[tuple[int, int], ...] = ()
    """Places of the script with a variable that has one."""

    def start(self, offset: int) -> int:
        """The place in the script where something begins that begins at an offset of the text."""
        piece = self._piece(offset)
        if piece is None:
            return offset
        return piece.written[0] if piece.is_value else piece.written[0] + offset - piece.start

    def end(self, offset: int) -> int:
        """The place in the script where something ends that ends before an offset of the text."""
        piece = self._piece(max(offset - 1, 0))
        if piece is None:
            return offset
        return piece.written[1] if piece.is_value else piece.written[0] + offset - piece.start

    def _piece(self, offset: int) -> TextPart | None:
        at = bisect_right(self.pieces, offset, key=lambda p: p.start) - 1
        return self.pieces[at] if at >= 0 else None


@dataclass
class _Section:
    """A section that is open."""

    name: str
    place: Span
    shown: bool


@dataclass
class _TemplateText:
    """The text so far."""

    text: str
    file: str
    variables: Mapping[str, str] | None
    parts: list[str] = field(default_factory=list)
    pieces: list[TextPart] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    put_in: list[tuple[int, int]] = field(default_factory=list)
    sections: list[_Section] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, written: tuple[int, int], *, is_value: bool) -> None:
        if text and all(s.shown for s in self.sections):
            self.parts.append(text)
            self.pieces.append(TextPart(self.length, written, is_value))
            self.length += len(text)

    def refuse(self, code: str, message: str, place: Span, hint: str) -> None:
        self.diagnostics.append(Diagnostic(code, message, span=place, hint=hint))

    def take(self, tag: re.Match[str]) -> None:
        """One tag."""
        place = Span(self.file, tag.start(), tag.end())
        kind, name = tag["kind"] or "", tag["raw"] or tag["name"]
        if tag["note"] is not None:
            return
        if kind in ("#", "^"):
            known = self.variables is None or (self.variables.get(name, "").casefold() not in FALSE) == (kind == "#")
            self.sections.append(_Section(name, place, known))
        elif kind == "/":
            self._close(name, place)
        elif kind in (">", "="):
            what = "partials" if kind == ">" else "other delimiters"
            hint = "write IMPORT for what another script has"
            self.refuse("B1025", f"{what} of Mustache are not supported", place, hint)
        elif all(s.shown for s in self.sections):
            self._value(name, place)

    def _close(self, name: str, place: Span) -> None:
        if self.sections and self.sections[-1].name == name:
            self.sections.pop()
            return
        last = self.sections[-1].name if self.sections else None
        opened = f"close `{last}` first" if last is not None else f"write {{{{#{name}}}}} where it begins"
        self.refuse("B1025", f"section `{name}` is closed here, and was not opened last", place, opened)
        if any(s.name == name for s in self.sections):
            while self.sections.pop().name != name:
                pass

    def _value(self, name: str, place: Span) -> None:
        written = place.start, place.end
        if self.variables is None:
            as_it_is = IMPORTED.search(self.text, max(0, place.start - 200), place.start) is not None
            word = name.replace(".", "_").replace("-", "_")
            self.add(self.text[place.start : place.end] if as_it_is else word, written, is_value=not as_it_is)
        elif name in self.variables:
            self.put_in.append(written)
            self.add(self.variables[name], written, is_value=True)
        else:
            self.missing.append(written)
            hint = f'write `{name} = "..."` under [variables] in belvedere.toml, or --var {name}=...'
            if nearest_name(name, list(self.variables)) is not None:
                hint = did_you_mean(name, self.variables) or hint
            self.refuse("B6109", f"variable `{name}` is not defined", place, hint)
            self.add("missing", written, is_value=True)


def expand(text: str, file: str, variables: Mapping[str, str] | None) -> Expanded:
    """The text of a script with its variables put in. Never raises: what is wrong is among the diagnostics (B6109,
    B1025).
    """
    if "{{" not in text:
        return Expanded(text)
    made = _TemplateText(text, file, variables)
    at = 0
    for tag in _tags(text):
        made.add(text[at : tag.start()], (at, tag.start()), is_value=False)
        made.take(tag)
        at = tag.end()
    made.add(text[at:], (at, len(text)), is_value=False)
    for left in made.sections:
        hint = f"write {{{{/{left.name}}}}} where it ends"
        made.refuse("B1025", f"section `{left.name}` is never closed", left.place, hint)
    found = (made.pieces, made.diagnostics, made.missing, made.put_in)
    return Expanded("".join(made.parts), *map(tuple, found))  # type: ignore[arg-type]


def _tags(text: str) -> Iterator[re.Match[str]]:
    """The tags of a text, those in comments aside."""
    quiet = [(m.start(), _end(text, m)) for m in QUIET.finditer(text) if m.group()[:2] in ("--", "/*")]
    starts = [start for start, _ in quiet]
    for tag in TAG.finditer(text):
        at = bisect_right(starts, tag.start()) - 1
        if at < 0 or quiet[at][1] <= tag.start():
            yield tag


def _end(text: str, comment: re.Match[str]) -> int:
    if comment.group() != "/*":
        return comment.end()
    end = text.find("*/", comment.end())
    return len(text) if end < 0 else end + 2
