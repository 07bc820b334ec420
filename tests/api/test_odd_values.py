"""Values that no column can hold: every one is answered or refused with a code, by the store or before it."""

from __future__ import annotations

import json
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api

CATALOG = example.catalog()
TYPES = {
    "id": "Long", "flag": "Boolean", "small": "Int", "ratio": "Float", "price": "Decimal", "wide": "Decimal",
    "name": "String",
    "at": "DateTime", "day": "Date", "raw": "Bytes",
}  # fmt: skip
GOOD = (1, 1.5, "1", "2020-01-01T00:00:00Z", "2020-01-01", "ff", True)
ODD: tuple[Any, ...] = (
    "\ud800", "a\udfff", "", "\0", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "0001-01-01", "9999-12-31",
    "24:00",
    "2020-01-01T00:00:00.123456789Z", "1e999999999", "NaN", "sNaN", "-inf", "٣", "²", "9" * 24, "---", "\\", "%" * 11,
    "x" * 5_000,
    10**400, -(10**400), 2**63, -(2**63) - 1, 1e308, float("nan"), float("inf"), -0.0, 1.5, True, None, [], [[]],
    [None], {}, {"a": 1},
)  # fmt: skip
LITERALS = (
    "1e99999999999999999999",
    "-1e-99999999999999999999",
    "9" * 4_000,
    "1." + "9" * 4_000,
    '"\\ud800"',
    '"\\u{d800}"',
    "1E400",
)


def refusal(api: Api, text: str, variables: Any = None) -> str:
    """The code of a refusal, or nothing where there is an answer; whatever else is raised fails the test."""
    try:
        answer = json.loads(api.answer(text, variables))
    except RequestError as error:
        refused = error
    else:
        assert "data" in answer
        return ""
    json.dumps(refused.formatted()).encode()
    assert refused.status == 400, (text, variables, refused.message, refused.__cause__)
    return refused.code


@pytest.mark.parametrize("column", TYPES)
def test_odd_values_of_filters(reader: MemoryReader, column: str) -> None:
    api, type_ = Api(CATALOG, reader), TYPES[column]
    operators = (
        ("eq",) if type_ == "Boolean" else ("eq", "gt", "lte") + (("ilike", "contains") if type_ == "String" else ())
    )
    for operator in operators:
        text = f"query($v: {type_}) {{ things(filter: {{{column}: {{{operator}: $v}}}}) {{ id }} }}"
        for value in (*GOOD, *ODD):  # a good value has its plan remembered: an odd one of its kind is then bound only
            refusal(api, text, {"v": value})
        for literal in LITERALS:
            refusal(api, f"{{ things(filter: {{{column}: {{{operator}: {literal}}}}}) {{ id }} }}")
    several = f"query($v: [{type_}!]) {{ things(filter: {{{column}: {{in: $v}}}}) {{ id }} }}"
    for value in ODD:
        refusal(api, several, {"v": [value, value]})
    assert refusal(api, several, {"v": ["\ud800"]}) == "B8003"


@pytest.mark.parametrize(
    "text",
    [
        "query($v: Int) { things(limit: $v) { id } }",
        "query($v: Int) { things(offset: $v) { id } }",
        "query($v: Int) { thingsPage(first: $v) { nodes { id } } }",
        "query($v: [ThingsOrder!]) { things(order: $v) { id } }",
        "query($v: SortOrder) { things(order: {id: $v}) { id } }",
        "query($v: ThingsFilter) { things(filter: $v) { id } }",
        "query($v: [ThingsFilter!]) { things(filter: {or: $v}) { id } }",
        "query($v: Boolean!) { things { id @include(if: $v) } }",
        "query($v: Boolean) { things(filter: {id: {isNull: $v}}) { id } }",
        "query($v: Long!) { thingsByKey(id: $v) { id } }",
        "query($v: Int) { thingsNamed(least: $v, name: null) { id } }",
        "query($v: String) { thingsNamed(least: 1, name: $v) { id } }",
        "{ things { id } }",
    ],
)
def test_odd_values_of_arguments(reader: MemoryReader, text: str) -> None:
    api = Api(CATALOG, reader)
    for value in (*GOOD, *ODD):
        refusal(api, text, {"v": value, "\ud800": value})


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_times_beyond_the_range_are_refused(reader: MemoryReader, time: str) -> None:
    api, text = Api(CATALOG, reader), "query($v: DateTime) { things(filter: {at: {lt: $v}}) { id } }"
    assert refusal(api, text, {"v": time}) == "B8003"
    assert refusal(api, text, {"v": "2020-01-01T00:00:00Z"}) == ""
    assert refusal(api, text, {"v": time}) == "B8003"
    assert refusal(api, f'{{ things(filter: {{at: {{lt: "{time}"}}}}) {{ id }} }}') in ("B8002", "B8003")
