"""Expansion of `{{name}}` and sections of Mustache in a script, with a map back to the script's text.

In: a script's text and the variables, None if they are unknown (a script is formatted without its project). Out:
`Expanded`: the expanded text, the script position of each of its positions, and diagnostics with script positions.
Comments remain unchanged.

`{{name}}`, `{{{name}}}` and `{{&name}}` are replaced by the variable's value. `{{#name}} ... {{/name}}` is kept if the
variable is set, and is not empty, `false`, `no`, `off` or `0`; `{{^name}} ... {{/name}}` is kept otherwise. `{{! ...
}}` is a comment.
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
    """A part of the expanded text: its `start` there, and its position in the script. All characters of a value have
    the position of its tag."""

    start: int
    written: tuple[int, int]
    is_value: bool


@dataclass(frozen=True)
class Expanded:
    """The expanded text of a script."""

    text: str
    pieces: tuple[TextPart, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    """Positions in the script of variables without a value."""
    put_in: tuple[tuple[int, int], ...] = ()
    """Positions in the script of variables with a value."""

    def start(self, offset: int) -> int:
        """Return the script position of the start of a range that begins at this offset of the expanded text."""
        piece = self._piece(offset)
        if piece is None:
            return offset
        return piece.written[0] if piece.is_value else piece.written[0] + offset - piece.start

    def end(self, offset: int) -> int:
        """Return the script position of the end of a range that ends at this offset of the expanded text."""
        piece = self._piece(max(offset - 1, 0))
        if piece is None:
            return offset
        return piece.written[1] if piece.is_value else piece.written[0] + offset - piece.start

    def _piece(self, offset: int) -> TextPart | None:
        at = bisect_right(self.pieces, offset, key=lambda p: p.start) - 1
        return self.pieces[at] if at >= 0 else None


@dataclass
class _Section:
    """An open section."""

    name: str
    place: Span
    shown: bool


@dataclass
class _TemplateText:
    """The text expanded so far."""

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
        """Process one tag."""
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
    """Return the expanded text of a script. Never raises: errors are diagnostics (B6109, B1025)."""
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
    """Yield the tags of a text outside comments."""
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
