"""The texts of the package as patterns: which messages and hints its modules can write.

In: the package's Python files. Out: for a code, the patterns of all texts in the modules that write it. A text with
values in it (`f"there is no store at {path}"`) is a pattern with a wildcard for each value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import belvedere

PACKAGE = Path(belvedere.__file__).parent
CONSTANT = re.compile(r'^([\w, ]+) = ((?:"B\d{4}"(?:, )?)+)$', re.MULTILINE)
LETTERS = 6
"""Minimum number of characters of a text besides its values: shorter ones would fit everything."""
NEAREST = "did you mean `"
"""The hint of a wrong name, which all codes share."""


def fits(code: str, text: str) -> bool:
    """Whether a module that writes a code has a text of this form, with a parameter's name before it or
    the words of a database behind it.
    """
    forms = (text, f"{code}: {text}")
    return text.startswith(NEAREST) or any(p.fullmatch(form) for p in _patterns(code) for form in forms)


@cache
def _sources() -> dict[Path, str]:
    return {file: file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}


@cache
def _names() -> dict[str, set[str]]:
    """Return by code the names of the constants that have it."""
    found: dict[str, set[str]] = {}
    for source in _sources().values():
        for names, codes in CONSTANT.findall(source):
            for name, code in zip(names.split(", "), re.findall(r"B\d{4}", codes), strict=True):
                found.setdefault(code, set()).add(name)
    return found


@cache
def _patterns(code: str) -> tuple[re.Pattern[str], ...]:
    writes = re.compile("|".join([f'"{code}"', *(rf"\b{name}\b" for name in _names().get(code, ()))]))
    found = frozenset[str]().union(*(_texts(file) for file, source in _sources().items() if writes.search(source)))
    return tuple(re.compile(f"(?:`[^`]+`: )?{pattern}(?:: .+)?", re.DOTALL) for pattern in found)


@cache
def _texts(file: Path) -> frozenset[str]:
    nodes = (
        n for n in ast.walk(ast.parse(_sources()[file])) if isinstance(n, ast.Constant | ast.JoinedStr | ast.BinOp)
    )
    parts = ("".join(_pattern(n)) for n in nodes)
    return frozenset(p for p in parts if len(re.sub(r"\.\*|\\", "", p)) >= LETTERS)


def _pattern(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(str() as text):
            yield re.escape(text)
        case ast.JoinedStr(parts):
            for part in parts:
                yield from _pattern(part)
        case ast.BinOp(left, ast.Add(), right):
            yield from _pattern(left)
            yield from _pattern(right)
        case _:
            yield ".*"
