"""Update of the expectations in a `.test` file.

In: the file's text and the results of its scenarios. Out: the text with the bodies of failed expectations replaced;
comment lines and everything else are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable

from belvedere.scenarios.play import Expectation


def updated(text: str, checks: Iterable[Expectation]) -> str:
    """Return the text with the actual result of each failed check in place of the expected one."""
    lines = text.split("\n")
    failed = [c for c in checks if not c.ok and c.actual is not None]
    for check in sorted(failed, key=lambda c: c.step.section.line, reverse=True):
        section = check.step.section
        before, after = comments_around(section.body)
        lines[section.line : section.line + len(section.body)] = [*before, *(check.actual or ()), *after]
    return "\n".join(lines)


def comments_around(body: list[str]) -> tuple[list[str], list[str]]:
    """Return the comment lines above a body's own lines, and those below them with their preceding blank lines."""
    own = [n for n, line in enumerate(body) if line.strip() and not line.startswith("#")]
    blank = next((n for n, line in enumerate(body) if not line.strip()), len(body))
    first = own[0] if own else blank
    last = own[-1] + 1 if own else blank
    return [line for line in body[:first] if line.startswith("#")], body[last:]
