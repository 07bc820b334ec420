"""Rows from clients: what fits comes in the input's types, what does not is told row by row."""

from __future__ import annotations

from datetime import UTC, datetime

from belvedere.catalog.catalog import pushed_inputs
from belvedere.catalog.inputs import Input
from belvedere.compiler import compile_script
from belvedere.intake.request_rows import find_input, read_rows

SCRIPT = """
CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, tags ARRAY<STRING>, WATERMARK FOR bidtime);
CREATE TABLE Items (item STRING, name STRING NOT NULL, weight DOUBLE, PRIMARY KEY (item));
CREATE TABLE Bag (a INT);
"""
CATALOG = compile_script(SCRIPT).catalog


def table(name: str) -> Input:
    return find_input(CATALOG, name)


def test_rows_that_do_not_fit_are_told_apart() -> None:
    found = read_rows(
        table("bid"),
        [
            {"bidtime": "2020-01-01T08:07:00Z", "price": 2, "item": "A", "tags": ["x"]},
            {"price": "two"},
            {"PRICE": 4},
            {"price": 5, "prize": 5},
            7,
            {"bidtime": "yesterday"},
            {"tags": "x"},
            {"item": "\ud800"},
            {"price": 2**31},
        ],
    )
    assert found.rows["price"].to_pylist() == [2, 4]
    assert found.rows["bidtime"].to_pylist() == [datetime(2020, 1, 1, 8, 7, tzinfo=UTC), None]
    assert list(found.places) == [0, 2]
    assert [(m.index, c) for m, c in zip(found.malformed, found.codes, strict=True)] == [
        (1, "B6001"),
        (3, "B6002"),
        (4, "B6001"),
        (5, "B6001"),
        (6, "B6001"),
        (7, "B6001"),
        (8, "B6001"),
    ]
    assert found.malformed[0].text == '{"price": "two"}'
    assert '"prize"' in found.malformed[1].reason


def test_deletes_need_a_primary_key_and_nothing_but_it() -> None:
    found = read_rows(
        table("Items"),
        [{"item": "a", "name": "A", "_delete": False}, {"ITEM": "b", "_delete": True}, {"_delete": True}],
    )
    assert found.rows.select(["item", "name", "_weight"]).to_pylist() == [
        {"item": "a", "name": "A", "_weight": 1},
        {"item": "b", "name": None, "_weight": -1},
    ]
    assert found.codes == ("B6003",)
    assert read_rows(table("Bid"), [{"_delete": True}]).codes == ("B6011",)
    assert read_rows(table("Bag"), [{"a": 1, "_delete": True}]).codes == ("B6011",)
    assert read_rows(table("Items"), [{"item": "b", "_delete": 1}]).codes == ("B6001",)


def test_nothing_is_no_rows() -> None:
    found = read_rows(table("Bid"), [])
    assert (found.rows.num_rows, found.malformed) == (0, ())


def test_only_inputs_without_a_source_take_pushes() -> None:
    assert list(pushed_inputs(CATALOG)) == ["Bid", "Items", "Bag"]
