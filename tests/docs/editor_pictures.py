"""A picture of an editor with the language server's answers: a script in the grammar's colors.

In: texts of a script, what is shown at a place. Out: the text of an SVG without fonts of other hosts.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.editor.textmate import colours

GRAMMAR = json.loads(
    (Path(__file__).parents[2] / "editors/vscode/syntaxes/sqrl.tmLanguage.json").read_text(encoding="utf-8")
)
CHARACTER, LINE, MARGIN, LEFT = 8.4, 21, 18, 58
"""Pixels: a character's width, a line's height, the space around, where the text of a script begins."""
WIDTH = 1000
WRAPPED = 84
PLAIN, DIM, RED = "#c8ccd4", "#8a919e", "#ef7881"
SCOPES = {
    "comment": "#8a919e",
    "keyword": "#cf8ef0",
    "string": "#a3cf85",
    "constant": "#e0a570",
    "entity": "#efc987",
    "support": "#72b7f5",
    "storage": "#62c3cf",
    "variable": "#ef7881",
}
"""The colours of scopes, by how their names begin."""

Runs = Sequence[tuple[str, str]]
"""A line: texts with their colours."""


@dataclass(frozen=True)
class Popup:
    """What an editor shows below a place: lines, of which one may be chosen."""

    lines: Sequence[Runs]
    chosen: int | None = None


@dataclass(frozen=True)
class Window:
    """Lines `first` to the line of a place, counted from 0, and the popup there. The `wrong` characters of that line
    are underlined; or a cursor stands at the place."""

    text: str
    first: int
    line: int
    character: int
    popup: Popup
    wrong: tuple[int, int] | None = None
    cursor: bool = False


def coloured(text: str) -> list[Runs]:
    """The lines of a script in the colours of the grammar."""
    painted = list(zip(text, (_colour(scopes) for scopes in colours(GRAMMAR, text)), strict=True))
    lines: list[Runs] = [[]]
    for colour, run in groupby(painted, lambda p: p[1]):
        first, *others = "".join(c for c, _ in run).split("\n")
        lines[-1] = [*lines[-1], (first, colour)]
        lines += [[(part, colour)] for part in others]
    return lines


def _colour(scopes: Sequence[str]) -> str:
    return next((SCOPES[found] for s in reversed(scopes) if (found := s.partition(".")[0]) in SCOPES), PLAIN)


def from_markdown(text: str) -> Popup:
    """A popup with Markdown as the server writes it: scripts in fences, paragraphs and lists."""
    lines: list[Runs] = []
    for number, part in enumerate(text.split("```")):
        if number % 2:
            lines += coloured(part.removeprefix("sqrl").strip("\n"))
        elif part.strip():
            lines += [[(line, PLAIN)] for line in _wrapped(part.strip("\n"))]
    return Popup(lines)


def _wrapped(text: str) -> Iterator[str]:
    for line in text.replace("**", "").replace("`", "").replace("*", "").split("\n"):
        yield from textwrap.wrap(line, WRAPPED, subsequent_indent="  " if line.startswith("- ") else "") or [""]


def picture(title: str, windows: Sequence[Window]) -> str:
    """The SVG of an editor, each window below the other."""
    drawn: list[str] = []
    top = MARGIN
    for window in windows:
        parts, bottom = _window(window, title, top)
        drawn += parts
        top = bottom + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="monospace" font-size="14">'
    )
    return "\n".join([head, "<style>text { white-space: pre; }</style>", *drawn, "</svg>", ""])


def _window(window: Window, title: str, top: float) -> tuple[list[str], float]:
    """What draws a window, and where it ends."""
    shown = coloured(window.text)[window.first : window.line + 1]
    body = top + 2 * LINE
    below = body + len(shown) * LINE
    bottom = below + len(window.popup.lines) * LINE + 2.5 * MARGIN
    parts = [
        _box(MARGIN, top, WIDTH - 2 * MARGIN, bottom - top, "#22262e", "#3b414d", 8),
        _text(MARGIN + 16, top + LINE, [(title, DIM)]),
    ]
    for n, runs in enumerate(shown):
        y = body + (n + 0.7) * LINE
        parts += [_text(LEFT - 34, y, [(f"{window.first + n + 1:>2}", "#5c6370")]), _text(LEFT, y, runs)]
    if window.wrong is not None:
        parts.append(_wave(LEFT + window.wrong[0] * CHARACTER, LEFT + window.wrong[1] * CHARACTER, below - 2))
    if window.cursor:
        x = LEFT + window.character * CHARACTER
        parts.append(f'<path d="M{x:.1f} {below - LINE + 2}v{LINE - 4}" stroke="#72b7f5" stroke-width="2"/>')
    return [*parts, *_popup(window.popup, LEFT + window.character * CHARACTER, below + 5)], bottom


def _popup(popup: Popup, x: float, y: float) -> list[str]:
    width = (max(sum(len(t) for t, _ in runs) for runs in popup.lines) + 3) * CHARACTER
    x = max(LEFT, min(x, WIDTH - 2 * MARGIN - width))
    parts = [_box(x, y, width, len(popup.lines) * LINE + 14, "#2d323c", "#4b5263", 4)]
    if popup.chosen is not None:
        parts.append(_box(x + 1, y + 7 + popup.chosen * LINE, width - 2, LINE, "#3d4657", "none", 0))
    return parts + [_text(x + 12, y + 7 + (n + 0.72) * LINE, runs) for n, runs in enumerate(popup.lines)]


def _text(x: float, y: float, runs: Runs) -> str:
    spans, at = [], x
    for text, colour in runs:
        if text.strip():
            size = f'x="{at:.1f}" textLength="{len(text) * CHARACTER:.1f}"'
            spans.append(f'<tspan {size} fill="{colour}">{html.escape(text, quote=False)}</tspan>')
        at += len(text) * CHARACTER
    return f'<text y="{y:.1f}">{"".join(spans)}</text>'


def _box(x: float, y: float, width: float, height: float, fill: str, edge: str, radius: int) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="{radius}" fill="{fill}" stroke="{edge}"/>'


def _wave(start: float, end: float, y: float) -> str:
    steps = round((end - start) / 4)
    waves = "".join(f"l2 {-3 if n % 2 else 3}l2 0" for n in range(steps))
    return f'<path d="M{start:.1f} {y:.1f}{waves}" fill="none" stroke="{RED}" stroke-width="1.4"/>'
