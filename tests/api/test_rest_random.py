"""Random filters of REST against their meaning in Python (three-valued logic), and random orders read page by page."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import api_example as example
import hypothesis.strategies as st
import pytest
from api_reader import MemoryReader
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from belvedere.api import execute_rest
from belvedere.api.http.application import Application
from tests.depth import examples

CATALOG = example.catalog()
ROWS = example.things()
Row = dict[str, Any]
Truth = bool | None
Term = tuple[str, str, Callable[[Row], Truth]]
"""A test: its column (or word), what is said of it within a group, and what it means of a row."""
TEXTS = [
    "",
    "ab",
    "Ärger",
    "ärger",
    "a_b%c",
    "a,b",
    'x"y',
    "a\\b",
    "(",
    ")",
    "null",
    "eq.1",
    "not.",
    "🙂",
    "\u0001",
    " a ",
]
PATTERNS = ["a*", "*b*", "_b", "ä%", "*", "\\*", "a\\_b*", "%R"]
VALUES: dict[str, list[Any]] = {
    "id": [0, 1, 3, 5, 2**40],
    "small": [-5, 0, 7],
    "name": TEXTS,
    "flag": [True, False],
    "price": [Decimal("12.30"), Decimal("-0.05"), Decimal("0"), Decimal("12.305"), Decimal("12.31")],
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
FOREVER = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def quoted(value: Any) -> str:
    text = written(value)
    plain = re.fullmatch(r"[\w.\-]+", text) is not None
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def matches(pattern: str, text: str, fold: bool) -> bool:
    parts = re.findall(r"\\.|.", pattern.replace("*", "%"), re.DOTALL)
    said = "".join(".*" if p == "%" else "." if p == "_" else re.escape(p[-1]) for p in parts)
    return re.fullmatch(said, text, re.DOTALL | (re.IGNORECASE if fold else 0)) is not None


def unless_null(column: str, holds: Callable[[Any], bool]) -> Callable[[Row], Truth]:
    return lambda row: None if row[column] is None else holds(row[column])


@st.composite
def comparisons(draw: st.DrawFn) -> Term:
    column = draw(st.sampled_from(sorted(VALUES)))
    kinds = ["is", "in", "isdistinct", "eq", "neq"]
    kinds += [] if column == "flag" else ["gt", "gte", "lt", "lte"]
    kinds += ["like", "ilike"] if column == "name" else []
    kind = draw(st.sampled_from(kinds))
    value = draw(st.sampled_from(VALUES[column]))
    if kind == "is":
        said = draw(st.sampled_from(["null", "not_null", *(["true", "false"] if column == "flag" else [])]))
        requested = {"true": True, "false": False, "null": None}
        if said == "not_null":
            return column, "is.not_null", lambda row: row[column] is not None
        return column, f"is.{said}", lambda row: row[column] is requested[said]
    if kind == "in":
        values = draw(st.lists(st.sampled_from(VALUES[column]), max_size=3))
        found = unless_null(column, lambda v: v in values)
        return column, f"in.({','.join(map(quoted, values))})", found if values else lambda row: False
    if kind == "isdistinct":
        return column, f"isdistinct.{quoted(value)}", lambda row: row[column] is None or row[column] != value
    if kind in ("like", "ilike"):
        pattern = draw(st.sampled_from(PATTERNS))
        return column, f"{kind}.{quoted(pattern)}", unless_null(column, lambda v: matches(pattern, v, kind == "ilike"))
    return column, f"{kind}.{quoted(value)}", unless_null(column, lambda v: COMPARE[kind](v, value))


def negation(found: Callable[[Row], Truth]) -> Callable[[Row], Truth]:
    return lambda row: None if (truth := found(row)) is None else not truth


def group(word: str, parts: list[Callable[[Row], Truth]]) -> Callable[[Row], Truth]:
    deciding = word == "or"

    def holds(row: Row) -> Truth:
        truths = [p(row) for p in parts]
        return deciding if deciding in truths else None if None in truths else not deciding

    return holds


@st.composite
def terms(
    draw: st.DrawFn, inner: st.SearchStrategy[tuple[str, Callable[[Row], Truth]]]
) -> tuple[str, Callable[[Row], Truth]]:
    """A term of a group: `column.operator.value` or a group."""
    negated = draw(st.booleans())
    if draw(st.booleans()):
        column, said, found = draw(comparisons())
        text = f"{column}.{'not.' if negated else ''}{said}"
    else:
        word, parts = draw(st.sampled_from(["and", "or"])), draw(st.lists(inner, min_size=1, max_size=3))
        text = f"{'not.' if negated else ''}{word}({','.join(t for t, _ in parts)})"
        found = group(word, [f for _, f in parts])
    return text, negation(found) if negated else found


leaf = comparisons().map(lambda t: (f"{t[0]}.{t[1]}", t[2]))
nested = st.recursive(leaf, terms, max_leaves=8)


@pytest.mark.deep
def test_filters_mean_what_they_say(reader: Any) -> None:
    @settings(FOREVER, max_examples=examples(200))
    @given(st.lists(nested, min_size=1, max_size=3), st.sampled_from(["and", "or", "not.and", "not.or"]), comparisons())
    def check(parts: list[tuple[str, Callable[[Row], Truth]]], word: str, beside: Term) -> None:
        text = f"({','.join(t for t, _ in parts)})"
        found = group(word.removeprefix("not."), [f for _, f in parts])
        found = negation(found) if word.startswith("not.") else found
        column, said, also = beside
        if '"' in said and not said.startswith("in."):
            column, said, also = "id", "gt.0", lambda row: True  # outside groups a value is taken as it stands
        address = f"things?{urlencode({word: text, column: said, 'select': 'id'})}"
        expected = [{"id": row["id"]} for row in ROWS if found(row) and also(row)]
        assert execute_rest(CATALOG, None, reader, address) == expected, address

    check()


orders = st.lists(
    st.tuples(
        st.sampled_from(["small", "name", "flag", "price", "ratio", "wide", "at", "day", "raw", "big"]),
        st.sampled_from(["", ".asc", ".desc"]),
        st.sampled_from(["", ".nullsfirst", ".nullslast"]),
    ).map("".join),
    min_size=1,
    max_size=3,
)


@pytest.mark.deep
def test_pages_are_the_whole_in_order(reader: Any) -> None:
    with TestClient(Application(CATALOG, lambda: reader)) as client:

        @settings(FOREVER, max_examples=examples(100))
        @given(orders, st.integers(1, 4), st.booleans())
        def check(order: list[str], limit: int, by_offset: bool) -> None:
            said = {"order": ",".join(order), "select": "id,name"}
            whole = client.get("/rest/things", params=said).json()
            address = (
                f"/rest/things?{urlencode({**said, 'limit': str(limit)} | ({'offset': '0'} if by_offset else {}))}"
            )
            found: list[Any] = []
            while address:
                answer = client.get(address)
                assert answer.status_code == 200, answer.text
                found += answer.json()
                address = answer.headers.get("link", "")[1:].partition(">")[0]
            assert found == whole

        check()


def test_the_oracle_knows_null() -> None:
    assert execute_rest(CATALOG, None, MemoryReader(), "things?not.or=(small.eq.7,small.is.null)&select=id") == [
        {"id": 1}
    ]
    assert group("or", [unless_null("small", lambda v: v == 7)])({"small": None}) is None
