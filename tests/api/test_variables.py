"""The validation of a value does not depend on earlier requests, nor on whether it is a variable or a literal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api

TYPES = {
    "small": "Int",
    "big": "Long",
    "ratio": "Float",
    "price": "Decimal",
    "name": "String",
    "at": "DateTime",
    "day": "Date",
    "raw": "Bytes",
}
TAKEN: dict[str, list[Any]] = {
    "small": [7, -5, 0, 2**31 - 1, -(2**31), 5.0],
    "big": [7, 2**63 - 1, -(2**63), "9007199254740993", "-5", "0"],
    "ratio": [1, 1.5, -0.0, 1e300, 2**70],
    "price": ["12.30", "12.3", "-0.05", "1E1", 12, 12.3, "+5", ".5"],
    "name": ["", "1_000", " 5", "a\u0000b"],
    "at": [
        *("2020-01-01T12:00:00Z", "2020-01-01t12:00:00z", "2020-01-01 12:00:00", "2020-01-01T13:00:00.000005+01:00"),
        *("2020-01-01T12:00:00.123456000Z", "2020-01-01T12:00Z", "2020-01-01"),
    ],
    "day": ["2020-02-29", "1969-12-31"],
    "raw": ["00ff", "00FF", ""],
}
REFUSED: dict[str, list[Any]] = {
    "small": [2**31, -(2**31) - 1, 5.5, "5", True, 10**30],
    "big": ["1_000", " 5", "5 ", "+5", "5.0", "٥", "", 5.0, 2**63, "9223372036854775808", True, "1e3", 10**500],
    "ratio": ["1.5", "NaN", float("nan"), float("inf"), 10**400, True],
    "price": ["1_000", " 5", "NaN", "Infinity", "5.0 ", "٥", "1e", "", True, "0x1"],
    "name": [5, 5.0, True, "\ud800"],
    "at": [
        *(
            "2020-01-01T12:00:00.1234567Z",
            "2020-01-01T12:00:00.123456789Z",
            "20200101T120000Z",
            "2020-W01-1",
            "2020-01-01x12:00:00",
        ),
        *(
            "2020-13-01T00:00:00Z",
            "2020-01-01T25:00:00Z",
            "٢٠٢٠-01-01",
            "now",
            "",
            5,
            " 2020-01-01",
            "2020-01-01T12:00:00+99:00",
        ),
    ],
    "day": ["20200229", "2020-W05-5", "2020-02-30", "2020-2-3", "٢٠٢٠-01-01", "", 5],
    "raw": ["0", "00 ff", "0x00", "gg", 5],
}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    reader = MemoryReader()
    yield Api(example.catalog(), reader)
    reader.close()


def verdict(api: Api, text: str, variables: dict[str, Any] | None = None) -> Any:
    try:
        return json.loads(api.answer(text, variables))["data"]
    except RequestError as error:
        return error.formatted()


def literal(value: Any) -> str:
    return (
        json.dumps(value, ensure_ascii=False)
        if not isinstance(value, str) or value.isprintable()
        else json.dumps(value)
    )


@pytest.mark.parametrize("column", TYPES)
def test_a_value_is_taken_or_refused_whatever_was_asked_before(api: Api, column: str) -> None:
    variable = f"query($x: {TYPES[column]}) {{ things(filter: {{{column}: {{eq: $x}}}}) {{ id }} }}"
    for value in (*TAKEN[column], *REFUSED[column]):
        is_taken = not any(value is r for r in REFUSED[column])
        first = _fresh(api, variable, {"x": value})
        assert isinstance(first, dict) == is_taken, (value, first)
        assert is_taken or first[0]["extensions"]["code"] == "B8003"
        for other in TAKEN[column][:2]:
            _fresh(api, variable, {"x": other})
            assert verdict(api, variable, {"x": value}) == first, (other, value)
        assert "invalid literal" not in json.dumps(first)


@pytest.mark.parametrize("column", TYPES)
def test_a_literal_has_the_verdict_of_its_first_use(api: Api, column: str) -> None:
    def text(value: Any) -> str:
        return f"{{ things(filter: {{{column}: {{eq: {literal(value)}}}}}) {{ id }} }}"

    written = [
        v for v in (*TAKEN[column], *REFUSED[column]) if not isinstance(v, float) or (v == v and abs(v) != float("inf"))
    ]
    for value in (v for v in written if v not in ("\ud800", "a\u0000b")):
        first = _fresh(api, text(value))
        for other in TAKEN[column][:2]:
            _fresh(api, text(other))
            again = verdict(api, text(value))
            assert isinstance(again, dict) == isinstance(first, dict), (other, value, again, first)
            assert again == first or not isinstance(first, dict), (other, value)


def _fresh(api: Api, text: str, variables: dict[str, Any] | None = None) -> Any:
    """The verdict of an API that was asked nothing before."""
    api.operations.seen.clear()
    api.operations.texts.clear()
    return verdict(api, text, variables)


def test_long_literals_are_exact(api: Api) -> None:
    """A whole number of more than 25 digits was taken for another."""
    wide = "{ things(filter: {wide: {lt: -1234567890123456789012345678}}) { id } }"
    assert verdict(api, wide) == {"things": [{"id": 1}]}
    assert verdict(api, wide.replace("lt: -", "gt: -")) == {"things": [{"id": 3}, {"id": 4}]}
    huge = "{ things(filter: {ratio: {lt: 1" + "0" * 40 + ", gt: -1" + "0" * 40 + "}}) { id } }"
    assert verdict(api, huge) == {"things": [{"id": 1}]}
    between = "{ things(filter: {ratio: {gt: 1" + "0" * 30 + "}}, order: [{id: ASC}]) { id } }"
    assert verdict(api, between) == {"things": [{"id": 3}, {"id": 4}]}


def test_bounds_and_epochs(api: Api) -> None:
    text = "query($n: Int) { things(limit: $n) { id } }"
    for value, fine in (
        (2, True),
        (2.0, True),
        (-1, False),
        (2**31, False),
        (5_000, False),
        ("2", False),
        (2.5, False),
    ):
        first = _fresh(api, text, {"n": value})
        assert isinstance(first, dict) == fine, (value, first)
        _fresh(api, text, {"n": 1})
        assert verdict(api, text, {"n": value}) == first
