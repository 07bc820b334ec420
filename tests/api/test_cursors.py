"""Cursors: pages by every type of column, and cursors that were made up or belong to another order."""

from __future__ import annotations

import base64
import json
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader

from belvedere.api.graphql.api import execute_graphql

CATALOG = example.catalog()
COLUMNS = ("flag", "small", "big", "ratio", "price", "wide", "name", "at", "day", "raw", "address_city")


def page(reader: Any, order: str, after: Any) -> Any:
    text = (
        f"query($after: Cursor) {{ thingsPage(first: 1, after: $after{order}) {{ nodes {{ id }} endCursor "
        "hasNextPage } }"
    )
    return execute_graphql(CATALOG, None, reader, text, {"after": after})


def ordered(column: str, direction: str) -> str:
    return f", order: [{{{column}: {direction}}}]"


def cursor(values: list[Any]) -> str:
    return base64.b16encode(json.dumps(values).encode()).decode()


@pytest.mark.parametrize("column", COLUMNS)
def test_pages_by_every_type(reader: MemoryReader, column: str) -> None:
    for direction in ("ASC", "DESC", "ASC_NULLS_LAST"):
        order = ordered(column, direction)
        answer = execute_graphql(CATALOG, None, reader, f"{{ things({order[2:]}) {{ id }} }}")
        seen, after = [], None
        for _ in range(5):
            found = page(reader, order, after)["data"]["thingsPage"]
            seen += found["nodes"]
            after = found["endCursor"]
        assert (seen, found["hasNextPage"]) == (answer["data"]["things"], False), direction


def test_a_cursor_belongs_to_its_order(reader: MemoryReader) -> None:
    orders = ["", *(ordered(c, d) for c in ("small", "big", "at", "day", "name") for d in ("ASC", "DESC"))]
    cursors = {order: page(reader, order, None)["data"]["thingsPage"]["endCursor"] for order in orders}
    for order in orders:
        for other, after in cursors.items():
            answer = page(reader, order, after)
            assert ("data" in answer) is (order == other), (order, other)
            if order != other:
                assert answer["errors"][0]["message"] == "`after` is not a cursor of this list"


MADE_UP: tuple[Any, ...] = (
    2**63, -(2**63) - 1, 10**400, 1.5, True, float("nan"), float("inf"), "\ud800", "a\x00", "", "NaN", "no",
    "2020-13-01",
    "99999999-01-01", "\\xzz", "9" * 400, [], {}, [[]], {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_made_up_cursors_are_refused_or_places(reader: MemoryReader, column: str) -> None:
    """A value that the column may hold is a place in the list, whoever wrote it."""
    order = ordered(column, "ASC")
    mark, value, key = json.loads(base64.b16decode(page(reader, order, None)["data"]["thingsPage"]["endCursor"]))
    assert (value, "data" in page(reader, order, cursor([mark, None, key]))) == (None, True)
    for given in MADE_UP:
        answer = page(reader, order, cursor([mark, given, key]))
        assert "data" in answer or answer["errors"][0]["extensions"]["code"] == "B8003", (given, answer)
        if isinstance(given, list | dict | bool) or given == "\ud800":
            assert "errors" in answer
    for values in (
        [],
        [mark],
        [mark, None],
        [mark, None, key, key],
        [None, None, key],
        ["0" * 12, None, key],
        [None, key],
    ):
        assert page(reader, order, cursor(values))["errors"][0]["extensions"]["code"] == "B8003"
    for text in (
        "",
        "zz",
        "5B",
        "\ud800",
        base64.b16encode(b"[" * 5_000).decode(),
        base64.b16encode(b'{"a": 1}').decode(),
    ):
        assert page(reader, order, text)["errors"][0]["extensions"]["code"] == "B8003"
