"""The outline of a golden file: cases, each with a title, prose, an input and sections.

In: text. Out: `Case`s with their line numbers. It does not interpret sections.

    === title
    prose
    ~~~
    the input, as it is
    ~~~
    --- name arguments
    the section's body
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

CASE, FENCE, SECTION = "=== ", "~~~", "--- "


@dataclass
class Section:
    """`--- name arguments` on `line` (from 1) with the lines below it, without trailing blank lines."""

    name: str
    arguments: str
    line: int
    body: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the body as one text, without comment lines (`#`)."""
        return "\n".join(line for line in self.body if not line.startswith("#"))


@dataclass
class Case:
    """One case; `text` is None if it has no input between fences. Lines count from 1."""

    title: str
    line: int
    prose: list[str] = field(default_factory=list)
    text: str | None = None
    text_line: int = 0
    sections: list[Section] = field(default_factory=list)
    closed: bool = True
    """Whether the fence of its input is closed."""


def read_outline(text: str) -> list[Case]:
    """Return all cases of a file; text before the first one is prose about the file."""
    cases: list[Case] = []
    lines = enumerate(text.split("\n"), start=1)
    for number, line in lines:
        if line.startswith(CASE):
            cases.append(Case(line[len(CASE) :].strip(), number))
        elif cases:
            _take(cases[-1], number, line, lines)
    for case in cases:
        for section in case.sections:
            while section.body and not section.body[-1].strip():
                section.body.pop()
    return cases


def _take(case: Case, number: int, line: str, lines: Iterator[tuple[int, str]]) -> None:
    if line.startswith(SECTION):
        name, _, arguments = line[len(SECTION) :].strip().partition(" ")
        case.sections.append(Section(name, arguments.strip(), number))
    elif case.sections:
        case.sections[-1].body.append(line)
    elif line.rstrip() == FENCE and case.text is None:
        case.text, case.text_line, case.closed = _fenced(lines), number + 1, True
        if case.text is None:
            case.text, case.closed = "", False
    else:
        case.prose.append(line)


def _fenced(lines: Iterator[tuple[int, str]]) -> str | None:
    found: list[str] = []
    for _, line in lines:
        if line.rstrip() == FENCE:
            return "".join(f"{text}\n" for text in found)
        found.append(line)
    return None
