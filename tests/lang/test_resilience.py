"""Parsing any text gives statements and diagnostics, never an exception; formatting keeps all statements."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from belvedere.compiler import compile_script
from belvedere.syntax.fmt.script_layout import format_script
from belvedere.syntax.parse import parse_script
from belvedere.syntax.splitting import read_tokens
from belvedere.terminal.diagnostics import render
from bench.compiling import script_of
from tests.depth import examples
from tests.lang.describe import describe
from tests.lang.golden import FIXTURES, read_cases

TEXTS = [case.text for path in sorted((FIXTURES / "lang").glob("*.test")) for case in read_cases(path)]
WORDS = sorted({word for text in TEXTS for word in re.findall(r"\w+|[^\w\s]+|'[^']*'", text)})
SOUP = st.lists(st.sampled_from([*WORDS, "\n", "\n", " "]), max_size=40).map(" ".join)
RELAXED = settings(max_examples=examples(600), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(text: str) -> None:
    """Read a text; every diagnostic points into it, can be shown, and has a code that is explained."""
    from belvedere.codes import CODES

    script = parse_script(text, "f")
    for diagnostic in script.diagnostics:
        assert diagnostic.code in CODES
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
    assert script.ok or render(script.diagnostics, {"f": text})


@pytest.mark.deep
@given(SOUP)
@example("V := SELECT a FROM (")
@example("V := CASE")
@example("IMPORT a.b.")
@example("CREATE STREAM S (a STRUCT<")
@example("SELECT a FROM Tumble(data =>")
@example("Q(")
@example(":= SELECT")
@RELAXED
def test_token_soup_is_read(text: str) -> None:
    read(text)


@pytest.mark.deep
@given(st.text(max_size=80))
@example("'")
@example("/*")
@example("\x00")
@example("V := SELECT '\\")
@RELAXED
def test_any_text_is_read(text: str) -> None:
    read(text)


@pytest.mark.deep
@given(st.sampled_from(TEXTS), st.data())
@RELAXED
def test_damaged_scripts_are_read(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    read(text[:start] + data.draw(st.sampled_from(["", " ", "\n", ";", "(", ")", "'", ","])) + text[end:])


@pytest.mark.deep
@given(SOUP)
@RELAXED
def test_layout_keeps_soup_that_can_be_read(text: str) -> None:
    script = parse_script(text)
    if not script.ok:
        return
    once = format_script(text)
    assert [describe(s) for s in parse_script(once).statements] == [describe(s) for s in script.statements]
    assert format_script(once) == once


READABLE = [text for text in TEXTS if parse_script(text).ok]
COMMENTS = st.sampled_from(
    ["-- a comment\n", "\n-- own line\n", " /* inline */ ", "\n/* own */\n", "/* two\n   lines */", "\n\n", "\n"]
)


@pytest.mark.deep
@given(st.sampled_from(READABLE), st.lists(st.tuples(st.floats(0, 1), COMMENTS), min_size=1, max_size=4))
@RELAXED
def test_layout_keeps_comments_wherever_they_stand(text: str, inserted: list[tuple[float, str]]) -> None:
    read = read_tokens(text, "f")
    places = [token.start for token in read.tokens]
    for where, comment in sorted(inserted, reverse=True):
        at = places[int(where * (len(places) - 1))]
        text = text[:at] + comment + text[at:]
    script = parse_script(text)
    if not script.ok:
        return
    once = format_script(text)
    assert without_docs(once) == without_docs(text)
    assert comments(once) == comments(text)
    assert format_script(once) == once


def without_docs(text: str) -> list[str]:
    return [describe(s) for s in parse_script(text).statements]


def comments(text: str) -> list[str]:
    found = [" ".join(c.text.split()) for found in read_tokens(text, "f").comments for c in found]
    return sorted(found)


def test_what_could_not_be_read_is_not_missed_again() -> None:
    broken = (
        "CREATE STREAM t (a INT b INT)\nV := SELECT a FROM t\nW := SELECT FROM V\nX := SELECT * FROM W\nY := "
        "SELECT z FROM nowhere\n"
    )
    assert [d.code for d in compile_script(broken).diagnostics] == ["B1001", "B1002", "B2001"]


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    script = parse_script("V := SELECT " + "(" * 3000 + "1" + ")" * 3000)
    assert [d.code for d in script.diagnostics] == ["B1015"]


@pytest.mark.parametrize("views", [1, 200])
def test_views_that_build_on_each_other_compile(views: int) -> None:
    """How long it takes is measured by bench/compiling.py."""
    text = script_of(views)
    assert len(parse_script(text).statements) == views + 2
    compiled = compile_script(text)
    assert compiled.ok
    assert len(compiled.catalog.views) == views
