"""Each class of boundaries by name: it is recognised, and its kernel finds what the rules say, over random tables with
NULLs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from belvedere.schema import Column, Schema
from belvedere.sqlpp.lower import explain_window_query
from tests.depth import examples
from tests.window_by.oracle import Framing, Tree, answer
from tests.window_by.paper import close
from tests.window_by.random_queries import ignored, tables, text_of
from tests.window_by.test_windows import completed
from tests.window_by.without_spark import TYPES, run


def field(side: str, name: str, role: str = "item") -> Tree:
    return ("field", side, role, name)


def compared(operator: str, left: Tree, right: Tree) -> Tree:
    return ("compare", operator, left, right)


def constant(value: int) -> Tree:
    return ("const", value)


LOCAL = compared(">", field("end", "v", "next"), constant(2))
COUNTED = compared("=", ("sub", ("pos", "end"), ("pos", "start")), constant(2))
APART = compared(">", ("sub", field("end", "o"), field("start", "o")), constant(5))
HIGHER = compared(">", field("end", "x"), field("start", "x"))
EQUAL = compared("=", field("end", "s"), field("start", "s"))
ENDS: dict[str, tuple[str, Tree]] = {
    "nothing asked": ("0", ("true",)),
    "start alone": ("0", compared(">", field("start", "v"), constant(2))),
    "local": ("a", LOCAL),
    "neighbours": ("a", compared("<", field("end", "x", "previous"), field("end", "x"))),
    "counted": ("b", COUNTED),
    "by the order": ("b", APART),
    "by the order and local": ("a+b", ("and", APART, LOCAL)),
    "higher": ("c1", HIGHER),
    "higher by two": ("c1", compared(">=", field("end", "v"), ("add", field("start", "v"), constant(2)))),
    "higher and local": ("c1", ("and", HIGHER, LOCAL)),
    "equal": ("c2", EQUAL),
    "equal, far away": ("c2", ("and", EQUAL, APART)),
    "unequal": ("c3", compared("<>", field("end", "s"), field("start", "s"))),
    "two at once": ("d", ("and", HIGHER, compared("=", field("end", "v"), field("start", "v")))),
    "one of two": ("c1", ("or", HIGHER, COUNTED)),
}
STARTS: dict[str, tuple[str, Tree]] = {
    "every": ("0", ("true",)),
    "one before": ("b", compared("=", ("sub", ("pos", "label"), ("pos", "start")), constant(1))),
    "not long before": ("b", compared("<=", ("sub", field("label", "o"), field("start", "o")), constant(7))),
    "first lower": ("c1", compared("<", field("start", "x"), field("label", "x"))),
    "first equal": ("c2", compared("=", field("start", "s"), field("label", "s"))),
}


def classes(text: str, side: str) -> str:
    """What `explain` says of a boundary."""
    schema = Schema(tuple(Column(n, t) for n, t in TYPES.items()))
    (line,) = re.findall(rf"  {side}: (.*)", explain_window_query(text, {"rows": schema}))
    return str(line)


def follows_the_rules(rows: list[dict[str, Any]], framing: Framing) -> None:
    assert "v" not in ignored(framing)
    for framed in (framing, replace(framing, tumbling=True), replace(framing, only=True)):
        assert close(completed(run(text_of(framed), rows), framed), completed(answer(rows, framed), framed))


@pytest.mark.parametrize("name", ENDS)
@given(rows=tables())
@pytest.mark.deep
@settings(max_examples=examples(5), deadline=None)
def test_ends(name: str, rows: list[dict[str, Any]]) -> None:
    named, end = ENDS[name]
    framing = Framing(False, None, compared("<", field("start", "v"), constant(4)), end)
    assert f"class {named}" in classes(text_of(framing), "END")
    follows_the_rules(rows, framing)


@pytest.mark.parametrize("name", STARTS)
@given(rows=tables())
@pytest.mark.deep
@settings(max_examples=examples(5), deadline=None)
def test_starts_of_labels(name: str, rows: list[dict[str, Any]]) -> None:
    named, start = STARTS[name]
    framing = Framing(False, compared(">", field("label", "v"), constant(1)), start, APART)
    assert f"class {named}" in classes(text_of(framing), "START")
    follows_the_rules(rows, framing)
