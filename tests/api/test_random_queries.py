"""Random queries: the store's answer equals that of a naive evaluator over the rows."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.api.graphql.api import execute_graphql
from belvedere.catalog.relationships import Relationship
from tests.depth import examples

PEERS = Relationship("Things", "peers", "Things", (("small", "small"),))
CATALOG = replace(example.catalog(), relationships=(*example.catalog().relationships, PEERS))
ROWS = example.things()
INTEGERS = st.one_of(st.integers(-8, 9), st.just(2**62))
TEXTS = st.sampled_from(["Ärger", "ärger", "ab", "a_b%c", "", "a", "zz", "'", '"'])
NUMBERS = st.sampled_from([0.30000000000000004, 0.3, -1e300, 1e300, 0.0])
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "id": INTEGERS,
    "small": st.integers(-8, 9),
    "name": TEXTS,
    "ratio": NUMBERS,
}
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
        for asked in draw(st.lists(st.sampled_from(["some", "none"]), max_size=2, unique=True)):
            result.setdefault("peers", {})[asked] = draw(filters(depth - 1))
    return result


def _operand(operator: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    if operator == "isNull":
        return st.booleans()
    return st.lists(values, max_size=3) if operator in ("in", "notIn") else values


orders = st.lists(
    st.tuples(st.sampled_from(sorted(COLUMNS)), st.sampled_from(ORDERS)), max_size=3, unique_by=lambda p: p[0]
)


# the naive evaluator: SQL's three truth values as True, False, None


def holds(condition: dict[str, Any], row: dict[str, Any]) -> bool | None:
    parts: list[bool | None] = []
    for name, value in condition.items():
        if name == "not":
            inner = holds(value, row)
            parts.append(None if inner is None else not inner)
        elif name in ("and", "or"):
            parts.append((every if name == "and" else some)([holds(v, row) for v in value]))
        elif name == "peers":
            related = [r for r in ROWS if row["small"] is not None and r["small"] == row["small"]]
            parts += [any(holds(v, r) for r in related) is (asked == "some") for asked, v in value.items()]
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


def compare(operator: str, value: Any, requested: Any) -> bool | None:
    if operator == "isNull":
        return (value is None) is requested
    if operator in ("in", "notIn"):
        if not requested:
            return operator == "notIn"
        if value is None:
            return None
        return (place(value) in [place(w) for w in requested]) is (operator == "in")
    return None if value is None else COMPARE[operator](value, requested)


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


TEXT = (
    "query($f: ThingsFilter, $o: [ThingsOrder!], $n: Int, $k: Int) { things(filter: $f, order: $o, limit: $n, "
    "offset: $k) { id } }"
)
PAGE = (
    "query($f: ThingsFilter, $o: [ThingsOrder!], $after: Cursor) { thingsPage(filter: $f, order: $o, first: 2, "
    "after: $after) { nodes { id } endCursor hasNextPage } }"
)
BACKWARD = """query($f: ThingsFilter, $o: [ThingsOrder!], $n: Int!, $before: Cursor) {
  thingsPage(filter: $f, order: $o, last: $n, before: $before) { nodes { id } startCursor hasNextPage hasPreviousPage
      totalCount } }"""


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
    literal = (
        f"{{ things(filter: {_written(condition)}, order: [{', '.join(f'{{{n}: {d}}}' for n, d in order)}]) {{ id }} }}"
    )
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


@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(depth=1), orders, st.integers(1, 3))
def test_random_pages_from_the_end(
    memory: MemoryReader, condition: dict[str, Any], order: list[tuple[str, str]], size: int
) -> None:
    expected = naive(condition, order)
    seen: list[int] = []
    before = None
    for _ in range(len(ROWS)):
        page = ask(memory, BACKWARD, {"f": condition, "o": [{n: d} for n, d in order], "n": size, "before": before})[
            "thingsPage"
        ]
        assert (page["hasNextPage"], page["totalCount"]) == (bool(seen), len(expected))
        seen = [n["id"] for n in page["nodes"]] + seen
        assert page["hasPreviousPage"] is (len(seen) < len(expected))
        before = page["startCursor"]
        if not page["hasPreviousPage"]:
            break
    assert seen == expected


RELATED = """query($f: ThingsFilter, $o: [ThingsOrder!], $n: Int!) { things { id
  peers(filter: $f, order: $o, limit: $n) { id }
  peersPage(filter: $f, order: $o, last: $n) { nodes { id } totalCount hasPreviousPage }
  peersAggregate(filter: $f) { count max { id } } } }"""


@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(depth=1), orders, st.integers(0, 2))
def test_random_related_rows(
    memory: MemoryReader, condition: dict[str, Any], order: list[tuple[str, str]], size: int
) -> None:
    found = ask(memory, RELATED, {"f": condition, "o": [{n: d} for n, d in order], "n": size})["things"]
    for row, answer in zip(ROWS, found, strict=True):
        related = [r for r in ROWS if row["small"] is not None and r["small"] == row["small"] and holds(condition, r)]
        ids = [r["id"] for r in sorted_rows(related, order)]
        assert [r["id"] for r in answer["peers"]] == ids[:size]
        page = answer["peersPage"]
        assert [r["id"] for r in page["nodes"]] == (ids[-size:] if size else [])
        assert (page["totalCount"], page["hasPreviousPage"]) == (len(ids), len(ids) > size)
        assert answer["peersAggregate"] == [{"count": len(ids), "max": {"id": max(ids, default=None)}}]


GROUPED = ("small", "name", "flag", "ratio", "day")
VALUES = (
    "count countOf { ratio small name } countDistinct { small name } sum { small price wide } avg { price wide } "
    "min { id name } max { name at }"
)
groupings = st.lists(st.sampled_from(GROUPED), max_size=3, unique=True)


@pytest.mark.deep
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(depth=1), groupings)
def test_random_aggregates(memory: MemoryReader, condition: dict[str, Any], by: list[str]) -> None:
    data = ask(memory, grouped_text(by), {"f": condition})["thingsAggregate"]
    groups: dict[str, list[dict[str, Any]]] = {} if by else {"[]": []}
    for row in (r for r in ROWS if holds(condition, r)):
        # NaN and infinities are groups of their own, which answers cannot tell apart: they show null for each
        groups.setdefault(repr([row[n] for n in by]), []).append(row)
    expected = [
        {"by": {n: shown(rows[0][n]) for n in by}} | computed(rows) if by else computed(rows)
        for rows in groups.values()
    ]
    assert sorted(map(json.dumps, data)) == sorted(map(json.dumps, expected))


def grouped_text(by: list[str]) -> str:
    keys = f"by {{ {' '.join(by)} }}" if by else ""
    return f"query($f: ThingsFilter) {{ thingsAggregate(filter: $f) {{ {keys} {VALUES} }} }}"


def computed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def known(name: str) -> list[Any]:
        return [r[name] for r in rows if r[name] is not None]

    def exact(values: list[Decimal], digits: int, parts: int = 1) -> str | None:
        with localcontext(prec=100):
            return (
                format((sum(values) / parts).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP), "f")
                if values
                else None
            )

    scales = {"price": 2, "wide": 3}
    return {
        "count": len(rows),
        "countOf": {n: len(known(n)) for n in ("ratio", "small", "name")},
        "countDistinct": {n: len(set(known(n))) for n in ("small", "name")},
        "sum": {"small": sum(known("small")) if known("small") else None}
        | {n: exact(known(n), s) for n, s in scales.items()},
        "avg": {n: exact(known(n), s + 4, len(known(n)) or 1) for n, s in scales.items()},
        "min": {n: min(known(n), default=None) for n in ("id", "name")},
        "max": {"name": max(known("name"), default=None), "at": shown(max(known("at"), default=None))},
    }


def shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, date) else value


@pytest.mark.postgres
@pytest.mark.deep
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters(), orders, groupings)
def test_postgres_agrees_with_sqlite(
    memory: MemoryReader, postgres_store: str, condition: dict[str, Any], order: list[tuple[str, str]], by: list[str]
) -> None:
    reader = _postgres(postgres_store)
    groups = grouped_text(by)
    assert ask(reader, groups, {"f": condition}) == ask(memory, groups, {"f": condition})
    last = {"f": condition, "o": [{n: d} for n, d in order], "n": 2, "before": None}
    without = {"startCursor": None}  # a cursor holds stored forms, which differ
    assert ask(reader, BACKWARD, last)["thingsPage"] | without == ask(memory, BACKWARD, last)["thingsPage"] | without
    variables = {"f": condition, "o": [{n: d} for n, d in order], "after": None}
    assert ask(reader, TEXT, variables) == ask(memory, TEXT, variables)
    one, other = ask(reader, PAGE, variables)["thingsPage"], ask(memory, PAGE, variables)["thingsPage"]
    assert one["nodes"] == other["nodes"]
    assert one["hasNextPage"] == other["hasNextPage"]


@functools.cache
def _postgres(url: str) -> Any:
    from belvedere.store import open_reader

    return open_reader(url)
