"""Random malformed requests: each gets an answer in the API's form, without internal errors and in time."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.http.application import Application
from tests import depth

TEXTS = (
    "{ things(limit: 5) { id flag small ratio price wide name at day raw tags } }",
    '{ things(filter: {or: [{id: {in: [1, 2]}}, {not: {name: {ilike: "a%"}, at: {isNull: false}}}]}) { id } }',
    "query Q($id: [Int!], $n: Int = 3) { things(filter: {id: {in: $id}}, order: [{name: DESC_NULLS_FIRST}], limit: "
    "$n) { ...F } } fragment F on Things { id at }",
    "{ monitoringGroup { groupName machines { machineId } hourReading(limit: 24) { avg_temp } machinesAggregate { "
    "count } } }",
    '{ thingsPage(first: 2, after: "5B5D", order: [{small: DESC}]) { nodes { id } endCursor hasNextPage totalCount } }',
    '{ thingsNamed(least: 1, name: "ab") { id } __schema { types { name fields { name } } } }',
    "{ thingsAggregate(filter: {price: {gt: 1.5}}) { by { flag } count sum { small } } }",
    "{ monitoringGroupByKey(groupid: 501) { a: groupName @include(if: true) __typename } }",
    "subscription { things(limit: 1) { id } }",
    "mutation { things(rows: [{id: 1}]) { taken } }",
)  # fmt: skip
PIECES = [
    *(
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ":",
        ",",
        "!",
        "...",
        "$",
        "@",
        '"',
        '"""',
        "#",
        "\\",
        "\n",
        "\0",
        "\ud83c",
        "🎈",
        "é",
    ),
    *(
        "null",
        "true",
        "-0",
        "1e999",
        "-1e-999",
        "9" * 40,
        "0.1",
        "''",
        "' OR 1=1 --",
        "; DROP TABLE x",
        "%s",
        "\\u{110000}",
    ),
    *(
        "filter",
        "order",
        "limit",
        "first",
        "last",
        "before",
        "asOf",
        "not",
        "some",
        "none",
        "isNull",
        "on",
        "fragment",
        "query",
    ),
    *("__typename", "__type", "things", "id", "$id", "@skip(if: $n)", "[" * 60, "{a" * 30),
]
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    float("1e308"),
    "",
    "a",
    "5B5D",
    "\ud800",
    [],
    [[]],
    {},
    {"a": [None]},
    "2024-13-01",
)
TOKEN = re.compile(r'\s+|[A-Za-z_]\w*|"[^"]*"|.', re.DOTALL)
KINDS = ("application/json", "application/graphql-response+json", "text/plain", "application/json; charset=latin-1", "")


def mutated(chance: random.Random, text: str) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(chance.randint(0, 5)):
        at = chance.randrange(len(tokens) + 1)
        until = min(len(tokens), at + chance.randint(0, 3))
        other = TOKEN.findall(chance.choice(TEXTS))
        start = chance.randrange(len(other))
        tokens[at:until] = chance.choice(
            [[], [chance.choice(PIECES)], other[start : start + chance.randint(1, 8)], tokens[at:until] * 2]
        )
    return "".join(tokens)


def body(chance: random.Random) -> bytes:
    """A request, most of which are nearly right."""
    asked: Any = {"query": mutated(chance, chance.choice(TEXTS))}
    if chance.random() < 0.5:
        asked["variables"] = {n: chance.choice(VALUES) for n in chance.sample(["id", "n", "x", ""], 2)}
    if chance.random() < 0.2:
        asked[chance.choice(["operationName", "extensions", "variables", "query"])] = chance.choice(VALUES)
    if chance.random() < 0.05:
        asked = chance.choice([[asked], *VALUES])
    made = json.dumps(asked).encode()
    if chance.random() < 0.05:
        at = chance.randrange(len(made))
        made = made[:at] + chance.randbytes(chance.randint(0, 4)) + made[at + chance.randint(0, 4) :]
    return made


@pytest.mark.deep
def test_odd_requests_are_answered() -> None:
    chance, statuses = random.Random(20), dict[int, int]()
    with TestClient(Application(example.catalog(), MemoryReader), raise_server_exceptions=True) as client:
        for number in range(500 if depth.quick else 10_000):
            content = body(chance)
            headers = {"content-type": chance.choice(KINDS) if chance.random() < 0.05 else "application/json"}
            answer = client.post("/graphql", content=content, headers=headers)
            assert answer.status_code < 500, (number, content, answer.text)
            found = answer.json()
            assert found.keys() <= {"data", "errors", "extensions"}, (number, content)
            assert found.get("errors") or found.get("data"), (number, content)
            for error in found.get("errors", ()):
                assert error["message"], (number, content)
                assert error["extensions"]["code"].startswith("B8"), (number, content, error)
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
    assert {200, 400, 415} <= statuses.keys()
