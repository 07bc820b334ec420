"""Every form of the language and every syntax diagnostic, as golden cases: text -> statements, diagnostics, layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.syntax.fmt.script_layout import format_script
from belvedere.syntax.parse import parse_script
from belvedere.terminal.diagnostics import render
from tests.lang.describe import describe
from tests.lang.golden import all_cases, check_case, read_cases

CASES = list(all_cases("lang"))


def produce(text: str) -> dict[str, str]:
    script = parse_script(text, "script.sqrl")
    formatted = format_script(text)
    return {
        "statements": "\n".join(describe(s) for s in script.statements),
        "diagnostics": render(script.diagnostics, {"script.sqrl": text}),
        "formatted": formatted if script.ok and formatted != text else "",
    }


@pytest.mark.parametrize(("path", "number"), [c[:2] for c in CASES], ids=[c[2] for c in CASES])
def test_golden(path: Path, number: int, request: pytest.FixtureRequest) -> None:
    check_case(path, number, produce, request.config.getoption("--update"))


@pytest.mark.parametrize(("path", "number"), [c[:2] for c in CASES], ids=[c[2] for c in CASES])
def test_layout_keeps_the_meaning(path: Path, number: int) -> None:
    text = read_cases(path)[number].text
    script = parse_script(text)
    if not script.ok:
        assert format_script(text) == text
        return
    once = format_script(text)
    again = parse_script(once)
    assert [describe(s) for s in again.statements] == [describe(s) for s in script.statements]
    assert format_script(once) == once
    assert sorted(comments(once)) == sorted(comments(text))


def comments(text: str) -> list[str]:
    from belvedere.syntax.splitting import read_tokens

    return [" ".join(c.text.split()) for found in read_tokens(text, "f").comments for c in found]
