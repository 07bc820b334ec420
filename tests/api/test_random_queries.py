"""Random queries: the store's answer equals that of a naive evaluator over the rows."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.api.graphql import execute_graphql
from tests.depth import examples

CATALOG = example.catalog()
ROWS = example.things()
INTEGERS = st.one_of(st.integers(-8, 9), st.just(2**62))
TEXTS = st.sampled_from(["Ärger", "ärger", "ab", "a_b%c", "", "a", "zz", "'", '"'])
NUMBERS = st.sampled_from([0.30000000000000004, 0.3, -1e300, 1e300, 0.0])
COLUMNS: dict[str, st.SearchStrategy[Any]] = {"id": INTEGERS, "small": st.integers(-8, 9), "name": TEXTS, "ratio": NUMBERS}
ORDERS = ["ASC", "DESC", "ASC_NULLS_FIRST", "ASC_NULLS_LAST", "DESC_NULLS_FIRST", "DESC_NULLS_LAST"]


@st.composite
def filters(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=2, unique=True)):
        values = COLUMNS[name]
        operators = ["eq", "neq", "gt", "gte", "lt", "lte", "in", "notIn", "isNull"]
        operators += ["startsWith", "contains"] if name == "name" else []
        chosen = draw(st.lists(st.sampled_from(operators), max_size=2, unique=True))
        result[name] = {o: draw(_operand(o, values)) for o in chosen}
    if depth:
        for name in draw(st.lists(st.sampled_from(["and", "or", "not"]), max_size=2, unique=True)):
            inner = filters(depth - 1)
            result[name] = draw(inner if name == "not" else st.lists(inner, max_size=3))
    return result


def _operand(operator: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    if operator == "isNull":
        return st.booleans()
    return st.lists(values, max_size=3) if operator in ("in", "notIn") else values


orders = st.lists(st.tuples(st.sampled_from(sorted(COLUMNS)), st.sampled_from(ORDERS)), max_size=3, unique_by=lambda p: p[0])


# the naive evaluator: SQL's three truth values as True, False, None


def holds(condition: dict[str, Any], row: dict[str, Any]) -> bool | None:
    parts: list[bool | None] = []
    for name, value in condition.items():
        if name == "not":
            inner = holds(value, row)
            parts.append(None if inner is None else not inner)
        elif name in ("and", "or"):
            parts.append((every if name == "and" else some)([holds(v, row) for v in value]))
        else:
            parts += [compare(o, row[name], v) for o, v in value.items()]
    return every(parts)


def every(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def some(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def place(value: Any) -> tuple[int, Any]:
    """NaN is greater than all numbers; texts compare by code point."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: place(a) == place(b),
    "neq": lambda a, b: place(a) != place(b),
    "gt": lambda a, b: place(a) > place(b),
    "gte": lambda a, b: place(a) >= place(b),
    "lt": lambda a, b: place(a) < place(b),
    "lte": lambda a, b: place(a) <= place(b),
    "startsWith": lambda a, b: a.startswith(b),
    "contains": lambda a, b: b in a,
}


def compare(operator: str, value: Any, wanted: Any) -> bool | None:
    if operator == "isNull":
        return (value is None) is wanted
    if operator in ("in", "notIn"):
        if not wanted:
            return operator == "notIn"
        if value is None:
            return None
        return (place(value) in [place(w) for w in wanted]) is (operator == "in")
    return None if value is None else COMPARE[operator](value, wanted)


def sorted_rows(rows: list[dict[str, Any]], order: list[tuple[str, str]]) -> list[dict[str, Any]]:
    def before(a: dict[str, Any], b: dict[str, Any]) -> int:
        for name, direction in [*order, ("id", "ASC")]:
            descending = direction.startswith("DESC")
            nulls_first = direction.endswith("NULLS_FIRST") or direction == "ASC"
            x, y = a[name], b[name]
            if x is None or y is None:
                if x is not y:
                    return -1 if (x is None) is nulls_first else 1
            elif place(x) != place(y):
                return -1 if (place(x) < place(y)) is not descending else 1
        return 0

    return sorted(rows, key=functools.cmp_to_key(before))


def naive(condition: dict[str, Any], order: list[tuple[str, str]]) -> list[int]:
    return [r["id"] for r in sorted_rows([r for r in ROWS if holds(condition, r)], order)]


TEXT = "query($f: ThingsFilter, $o: [ThingsOrder!], $n: Int, $k: Int) { things(filter: $f, order: $o, limit: $n, offset: $k) { id } }"
PAGE = "query($f: ThingsFilter, $o: [ThingsOrder!], $after: Cursor) { thingsPage(filter: $f, order: $o, first: 2, after: $after) { nodes { id } endCursor hasNextPage } }"  # noqa: E501


def ask(reader: Any, text: str, variables: dict[str, Any]) -> Any:
    answer = execute_graphql(CATALOG, None, reader, text, variables)
    assert "errors" not in answer, answer
    return answer["data"]


@pytest.fixture(scope="module")
def memory() -> MemoryReader:
    return MemoryReader()


@pytest.mark.deep
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(), orders, st.integers(0, 6), st.integers(0, 3))
def test_random_filters_and_orders(
    memory: MemoryReader, condition: dict[str, Any], order: list[tuple[str, str]], limit: int, offset: int
) -> None:
    given_order = [{n: d} for n, d in order]
    data = ask(memory, TEXT, {"f": condition, "o": given_order, "n": limit, "k": offset})
    expected = naive(condition, order)
    assert [t["id"] for t in data["things"]] == expected[offset : offset + limit]
    literal = f"{{ things(filter: {_written(condition)}, order: [{', '.join(f'{{{n}: {d}}}' for n, d in order)}]) {{ id }} }}"
    assert [t["id"] for t in ask(memory, literal, {})["things"]] == expected


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value)


@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(depth=1), orders)
def test_random_pages(memory: MemoryReader, condition: dict[str, Any], order: list[tuple[str, str]]) -> None:
    seen: list[int] = []
    after = None
    for _ in range(len(ROWS)):
        page = ask(memory, PAGE, {"f": condition, "o": [{n: d} for n, d in order], "after": after})["thingsPage"]
        seen += [n["id"] for n in page["nodes"]]
        after = page["endCursor"]
        if not page["hasNextPage"]:
            break
    assert seen == naive(condition, order)


@pytest.mark.postgres
@pytest.mark.deep
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(), orders)
def test_postgres_agrees_with_sqlite(
    memory: MemoryReader, postgres_store: str, condition: dict[str, Any], order: list[tuple[str, str]]
) -> None:
    reader = _postgres(postgres_store)
    variables = {"f": condition, "o": [{n: d} for n, d in order], "after": None}
    assert ask(reader, TEXT, variables) == ask(memory, TEXT, variables)
    one, other = ask(reader, PAGE, variables)["thingsPage"], ask(memory, PAGE, variables)["thingsPage"]
    assert one["nodes"] == other["nodes"]
    assert one["hasNextPage"] == other["hasNextPage"]


@functools.cache
def _postgres(url: str) -> Any:
    from belvedere.store import open_reader

    return open_reader(url)
