"""Every diagnostic that the code can give is explained, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import belvedere
from belvedere.codes import CODES

PACKAGE = Path(belvedere.__file__).parent
TESTS = Path(__file__).parents[1]


def used() -> set[str]:
    return {
        code for file in PACKAGE.rglob("*.py") for code in re.findall(r'"(B\d{4})"', file.read_text(encoding="utf-8"))
    }


def test_every_code_is_explained() -> None:
    assert sorted(used() - set(CODES)) == []


def test_every_explained_code_is_used() -> None:
    assert sorted(set(CODES) - used()) == []


def provoked() -> set[str]:
    """The codes that a test expects to see: in a golden file, or named in a test of its own."""
    files = [f for suffix in ("*.py", "*.test") for f in TESTS.rglob(suffix) if f.name != Path(__file__).name]
    return {code for file in files for code in re.findall(r"\bB\d{4}\b", file.read_text(encoding="utf-8"))}


def test_every_code_is_provoked_by_a_test() -> None:
    assert sorted(used() - provoked()) == []


def test_texts_are_complete() -> None:
    for code in CODES.values():
        assert len(code.text) > 20, code.code
        assert not code.title.endswith("."), code.code


def test_no_code_is_explained_twice() -> None:
    headings = [
        h
        for file in (PACKAGE / "codes").glob("*.md")
        for h in re.findall(r"^## (B\d{4})", file.read_text(), re.MULTILINE)
    ]
    assert len(headings) == len(set(headings))
