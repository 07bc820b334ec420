"""Parser of `.test` files.

In: a text and its path. Out: `Scenario`s with ordered steps, and diagnostics (B94xx) for invalid parts. It runs nothing
and reads no other file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

from belvedere.errors import Diagnostic, Span
from belvedere.scenarios.cells import BadLine, read_rows
from belvedere.scenarios.outline import CASE, Case, Section, read_outline

RELATION = r"(?P<relation>\S+)"
TIME = r"(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?)"
PRODUCER = r"(?: producer (?P<producer>\S+))?"

FORMS: dict[str, tuple[str, str]] = {
    "file": (r"(?P<name>[^\s/]\S*)", "file NAME"),
    "insert": (RELATION + PRODUCER, "insert TABLE [producer NAME]"),
    "delete": (RELATION, "delete TABLE"),
    "bound": (
        RELATION + " " + TIME + r"(?: column (?P<column>\S+))?" + PRODUCER + r"(?P<strict> strict)?",
        "bound TABLE 2020-01-01 00:00:00 [column NAME] [producer NAME] [strict]",
    ),
    "open": (
        RELATION + r" producer (?P<producer>\S+)(?: bound " + TIME + r")?",
        "open TABLE producer NAME [bound TIME]",
    ),
    "close": (RELATION + r" producer (?P<producer>\S+)", "close TABLE producer NAME"),
    "clock": (TIME, "clock 2020-01-01 00:00:00"),
    "step": (r"(?P<times>\d{1,3})?", "step, or step 3 for three of them"),
    "restart": ("", "restart"),
    "graphql": (r"(?P<variables>\{.*\})?", "graphql, or graphql {variables}"),
    "diagnostics": ("", "diagnostics"),
    "error": ("", "error"),
    "rows": (RELATION + r"(?P<ordered> ordered)?", "rows VIEW [ordered]"),
    "changes": (RELATION, "changes VIEW"),
    "events": (RELATION, "events SUBSCRIPTION"),
    "answer": ("", "answer"),
    "exported": (r"(?P<sink>[^.\s]+)\.(?P<target>\S+)", "exported SINK.NAME"),
    "explain": (RELATION, "explain VIEW"),
    "plan": (RELATION, "plan VIEW"),
    "sql": (RELATION, "sql VIEW"),
}
"""The sections of a scenario: a pattern of the text after the name, and its form for messages."""

EXPECTATIONS = {"diagnostics", "error", "rows", "changes", "events", "answer", "exported", "explain", "plan", "sql"}
WITH_ROWS = {"insert", "delete", "rows", "changes", "events"}
WITH_BODY = {"file", "insert", "delete", "graphql"} | EXPECTATIONS
ABOUT_THE_LAST = {
    "answer": {"graphql"},
    "error": {"insert", "delete", "bound", "open", "close", "clock", "step", "restart"},
}
SCRIPT = re.compile(r"script:\s*(\S.*?)\s*$")


@dataclass(frozen=True)
class Step:
    """One section: an action, or (`expects`) an expectation."""

    kind: str
    arguments: dict[str, str]
    section: Section

    @property
    def expects(self) -> bool:
        """Return whether this is an expectation, not an action."""
        return self.kind in EXPECTATIONS

    @property
    def title(self) -> str:
        """Return the section's line without its dashes."""
        return f"{self.section.name} {self.section.arguments}".rstrip()


@dataclass(frozen=True)
class Scenario:
    """A script and the steps of its test. `script` is its text, or None if it is in the file `path` beside the test."""

    title: str
    line: int
    steps: tuple[Step, ...]
    script: str | None = None
    path: str | None = None


def read_scenarios(text: str, file: str) -> tuple[list[Scenario], list[Diagnostic]]:
    """Return all scenarios of a file, and its errors."""
    reader = _CaseReader(text, file)
    cases = read_outline(text)
    if not cases:
        reader.found.append(
            Diagnostic(
                "B9401", "the file has no scenario", span=Span(file, 0, 0), hint=f"a scenario begins with `{CASE}title`"
            )
        )
    return [reader.scenario(case) for case in cases], reader.found


class _CaseReader:
    """Reads the cases of one file and collects errors."""

    def __init__(self, text: str, file: str):
        self.lines, self.file, self.found = text.split("\n"), file, list[Diagnostic]()

    def wrong(self, code: str, line: int, message: str, hint: str | None = None) -> None:
        start = sum(len(text) + 1 for text in self.lines[: line - 1])
        self.found.append(
            Diagnostic(code, message, span=Span(self.file, start, start + len(self.lines[line - 1])), hint=hint)
        )

    def scenario(self, case: Case) -> Scenario:
        paths = [found.group(1) for line in case.prose if (found := SCRIPT.match(line))]
        if not case.closed:
            self.wrong("B9402", case.text_line - 1, "the script does not end", "close it with a line `~~~`")
        elif (case.text is None) == (not paths):
            hint = "write the script between two lines `~~~`, or a line `script: name.sqrl`"
            if not paths and any(map(SCRIPT.match, takewhile(lambda line: not line.startswith("==="), self.lines))):
                hint = "move the line `script: ...` below the title: each scenario has its own script"
            missing = f'scenario "{case.title}" has no script'
            self.wrong("B9402", case.line, missing if not paths else "there are two scripts", hint)
        steps: list[Step] = []
        for section in case.sections:
            step = self.step(section, steps)
            if step is not None:
                steps.append(step)
        return Scenario(case.title, case.line, tuple(steps), case.text, paths[0] if paths else None)

    def step(self, section: Section, before: list[Step]) -> Step | None:
        if section.name not in FORMS:
            near = get_close_matches(section.name, FORMS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(FORMS)}"
            self.wrong("B9403", section.line, f'there is no step "{section.name}"', hint)
            return None
        pattern, form = FORMS[section.name]
        found = re.fullmatch(pattern, section.arguments)
        if found is None:
            self.wrong("B9404", section.line, f'"{section.name}" has another form', f"write `--- {form}`")
            return None
        step = Step(section.name, {k: v.strip() for k, v in found.groupdict().items() if v is not None}, section)
        self.check_body(step)
        self.check_place(step, before)
        return step

    def check_body(self, step: Step) -> None:
        section = step.section
        if step.kind not in WITH_BODY and section.text.strip():
            line = next(
                n for n, text in enumerate(section.body, section.line + 1) if text.strip() and not text.startswith("#")
            )
            self.wrong("B9406", line, f'"{step.kind}" takes no lines', "a comment begins with `#`")
        if step.kind in ("insert", "delete", "graphql") and not section.text.strip():
            self.wrong("B9406", section.line, f'"{step.kind}" has no lines', "write its lines below it")
        if step.kind in WITH_ROWS:
            try:
                read_rows(section.body)
            except BadLine as misfit:
                hint = 'write rows as `a | b` under a header, or as JSON lines; write a bar in a text as "\\u007c"'
                self.wrong("B9405", section.line + 1 + misfit.line, str(misfit), hint)

    def check_place(self, step: Step, before: list[Step]) -> None:
        requested = ABOUT_THE_LAST.get(step.kind)
        last: Any = next((s for s in reversed(before) if not s.expects), None)
        if requested is not None and (last is None or last.kind not in requested):
            after = "a step" if len(requested) > 1 else "`graphql`"
            self.wrong(
                "B9407",
                step.section.line,
                f'"{step.kind}" needs a step before it',
                f"put it after {after}",
            )
