"""Requests that would hold a serving process: they are refused before the work, or take none."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.graphql.api import execute_graphql
from belvedere.api.http.application import Application
from belvedere.compiler import compile_script
from belvedere.store import open_reader

CATALOG = example.catalog()
FILTERED = "query($f: ThingsFilter) { things(filter: $f) { id } }"


def bomb(number: int, last: str) -> str:
    """Each fragment spreads the next one twice."""
    spreads = " ".join(f"fragment F{i} on Query {{ ...F{i + 1} ...F{i + 1} }}" for i in range(number))
    return f"{{ ...F0 }} {spreads} fragment F{number} on Query {{ {last} }}"


def ask(reader: Any, text: str, variables: Any = None) -> tuple[Any, str]:
    """The data, the code of the first error; whatever is asked takes no second of this thread."""
    execute_graphql(CATALOG, None, reader, "{ __typename }")
    started = time.thread_time()
    answer = execute_graphql(CATALOG, None, reader, text, variables)
    assert time.thread_time() - started < 1.0
    return answer.get("data"), answer["errors"][0]["extensions"]["code"] if "errors" in answer else ""


def nested(depth: int, inner: Any, wrap: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


@pytest.fixture(scope="module")
def memory() -> Any:
    made = MemoryReader()
    yield made
    made.close()


@pytest.mark.parametrize(
    "text",
    [
        bomb(40, "__typename"),
        bomb(40, "...F0"),
        "{ things { id } } " + bomb(40, "__typename").partition(" } ")[2],  # spread by nobody
        "{" + " ...F" * 50 + "} fragment F on Query {" + "things { id } " * 100 + "}",
        "{ ...F0 } " + " ".join(f"fragment F{i} on Query {{ ...F{i + 1} }}" for i in range(400)),
        " ".join(f"query Q{i} {{ ...F }}" for i in range(300))
        + " fragment F on Query {"
        + "things { id } " * 100
        + "}",
    ],
)
def test_fragments_are_counted_before_they_are_spread(memory: MemoryReader, text: str) -> None:
    answer = execute_graphql(CATALOG, None, memory, text, None, "Q0" if "Q0" in text else None)
    assert ask(memory, text)[1] or "errors" in answer
    assert answer["errors"][0]["extensions"]["code"] == "B8004"


def test_a_field_that_is_asked_for_many_times_is_one_field(memory: MemoryReader) -> None:
    assert ask(memory, "{" + "things(limit: 1) { id } " * 500 + "}") == ({"things": [{"id": 1}]}, "")
    text = "{ things(limit: 1) { id } ...A } fragment A on Query { things(limit: 1) { name twice: id } }"
    assert ask(memory, text) == ({"things": [{"id": 1, "name": "Ärger", "twice": 1}]}, "")


@pytest.mark.parametrize(
    "text",
    [
        "{ things(limit: 1) { id } things(limit: 2) { id } }",
        "{ things { id } ...A } fragment A on Query { things { id: name } }",
        "{ monitoringGroup { x: machines { machineId } } ... { monitoringGroup { x: hourReading { avg_temp } } } }",
        "{ things { id } things @skip(if: true) { id: name } }",
    ],
)
def test_fields_of_one_name_that_differ_are_refused(memory: MemoryReader, text: str) -> None:
    data, code = ask(memory, text)
    assert (data, code) == (None, "B8002")


def test_long_filters_are_answered_or_refused(memory: MemoryReader) -> None:
    def either(number: int) -> Any:
        return {"f": {"or": [{"id": {"eq": i}} for i in range(3, 3 + number)]}}

    assert ask(memory, FILTERED, either(1_600)) == ({"things": [{"id": 3}, {"id": 4}, {"id": 5}]}, "")
    assert ask(memory, FILTERED, either(3_000)) == (None, "B8004")
    assert ask(memory, FILTERED, {"f": {"or": [{}] * 40_000}}) == (None, "B8004")
    often = "query($f: ThingsFilter) {" + " ".join(f"a{i}: things(filter: $f) {{ id }}" for i in range(90)) + "}"
    assert ask(memory, often, either(1_000)) == (None, "B8004")


WRAPS = {"and": lambda x: {"and": [x]}, "not": lambda x: {"not": x}, "list": lambda x: [x]}


@pytest.mark.parametrize("kind", WRAPS)
def test_deep_values_are_refused(sqlite_file: str, kind: str) -> None:
    with closing(open_reader(sqlite_file)) as reader:
        for depth in (10, 90, 250, 900, 20_000):
            value = nested(depth, {"id": {"eq": 3}}, WRAPS[kind])
            data, code = ask(reader, FILTERED, {"f": value})
            assert code == "B8004" if depth > 100 else code or data == {"things": [{"id": 3}]}
            unused = ask(reader, "{ things(limit: 1) { id } }", {"unused": value})
            assert unused == (
                (None, "B8004") if depth > 100 or (kind == "and" and depth > 50) else ({"things": [{"id": 1}]}, "")
            )


@pytest.mark.parametrize("act", ["bound", "open", "close"])
def test_what_a_producer_says_is_short(act: str) -> None:
    streams = compile_script("CREATE STREAM Bid (at TIMESTAMP, price INT, WATERMARK FOR at) KEEP 30 DAYS;").catalog
    with TestClient(Application(streams, MemoryReader)) as client:
        body = {"at": "2020-01-01T08:12:00Z", "producer": "p" * 20_000}
        assert client.post(f"/streams/Bid/{act}", json=body).json()["code"] == "B8004"


def test_the_deepest_request_is_answered(reader: Any) -> None:
    inner, requested = "id", {"id": 1}
    for _ in range(14):
        inner, requested = f"same(limit: 1) {{ {inner} }}", {"same": [requested]}
    assert ask(reader, f"{{ things(limit: 1) {{ {inner} }} }}") == ({"things": [requested]}, "")
    assert ask(reader, f"{{ thingsPage(first: 1) {{ nodes {{ {inner} }} }} }}") == (
        {"thingsPage": {"nodes": [requested]}},
        "",
    )
    assert ask(reader, f"{{ things {{ same {{ {inner} }} }} }}")[1] == "B8004"
