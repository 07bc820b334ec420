"""The check of prose finds what it is there for, and its budget knows no rule that is not there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tools.prose import (
    FIRST_WORDS,
    ROOT,
    Finding,
    excused,
    judge,
    long_lines,
    page_texts,
    patterns,
    python_texts,
    settings,
    suspicious,
)

MODULE = '''"""What is read."""

LIMIT = 3
"""So many rows are read."""


def read(name: str) -> None:
    """Return the rows."""
    # it is told later
    raise ValueError(f"the view {name} has a stage that is not ready")
'''


def rules(found: Iterable[Finding]) -> list[tuple[int, str]]:
    return sorted((f.line, f.rule) for f in found)


def test_docstrings_comments_and_messages_are_judged() -> None:
    found = (f for text in python_texts("a.py", MODULE) for f in judge(text))
    assert rules(found) == [
        (1, "first-what"),
        (4, "first-so"),
        (4, "word-so-many"),
        (9, "word-told"),
        (10, "inner-stage"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "LIMIT = 1\n",
        'X = "stage name"\n',
        "# nothing\n",
        '"""Return the rows that a client asks for, as long as it takes."""\n',
    ],
)
def test_good_texts_pass(text: str) -> None:
    assert [f for found in python_texts("a.py", text) for f in judge(found)] == []


def test_sentences_of_pages_are_judged_without_code_and_tables() -> None:
    long = "word " * 36
    page = f"# {long}\n\n```\n{long}\n```\n\n| {long} |\n\nShort. It stands here.\n\n* {long}\n* short\n"
    assert rules(f for text in page_texts("a.md", page) for f in judge(text)) == [(9, "page-stands"), (11, "sentence")]


def test_lines_have_a_width() -> None:
    assert rules(long_lines("a.py", "x\n" + "y" * 120 + "\n" + "z" * 121 + "\n")) == [(3, "line")]


@pytest.mark.parametrize("text", ['"""What."""', '"""\nWho asks."""', "# told", 'x = "~query"', "it is so many"])
def test_files_that_may_break_a_rule_are_parsed(text: str) -> None:
    assert suspicious().search(text)


def test_the_lists_name_rules_and_files_that_there_are() -> None:
    words = {f"{kind}-{rule}" for rule in patterns("words") for kind in ("word", "page")}
    known = {
        "line",
        "sentence",
        *words,
        *(f"inner-{r}" for r in patterns("inner")),
        *(f"first-{w.lower()}" for w in FIRST_WORDS),
    }
    assert set(settings()["budget"]) - known == set()
    exceptions = [key.split(": ") for key in settings()["exceptions"]]
    assert {rule for _, rule in exceptions} - known == set()
    assert {place for place, _ in exceptions if not (ROOT / place).exists()} == set()
    assert all(excused(Finding(place, 1, rule, "")) for place, rule in exceptions)
