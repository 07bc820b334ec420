"""Random roles and requests: answers equal those of an API without roles over a store without the hidden rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import roles_example as shop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.api import execute_rest
from belvedere.api.graphql.api import execute_graphql
from belvedere.store import open_reader
from tests.depth import examples

Row, Claims = Mapping[str, Any], Mapping[str, Any]
CONDITIONS: dict[str, tuple[dict[str, Callable[[Row, Claims], bool | None]], tuple[str, ...]]] = {
    "Customers": (
        {
            "tenant = claim('tenant')": lambda r, c: r["tenant"] == c["tenant"] if r["tenant"] else None,
            "tenant <=> claim('tenant') OR level > 2": lambda r, c: r["tenant"] == c["tenant"] or (r["level"] or 0) > 2,
            "NOT (level <= claim('n'))": lambda r, c: None if r["level"] is None else r["level"] > c["n"],
            "coalesce(level, 0) + 0 < claim('n') AND name <> 'name1'": lambda r, c: (
                (r["level"] or 0) < c["n"] and r["name"] != "name1"
            ),
            "id IN (1, 2, 5, claim('n'), 9)": lambda r, c: r["id"] in (1, 2, 5, c["n"], 9),
            "true": lambda r, c: True,
        },
        ("email", "name", "level", "id"),
    ),
    "Orders": (
        {
            "tenant = claim('tenant')": lambda r, c: r["tenant"] == c["tenant"] if r["tenant"] else None,
            "pieces >= claim('n')": lambda r, c: None if r["pieces"] is None else r["pieces"] >= c["n"],
            "amount > 10 AND tenant IN ('red', claim('tenant'))": lambda r, c: (
                r["amount"] > 10 and r["tenant"] in ("red", c["tenant"])
            ),
            "id <> 100 + claim('n') AND customer IS NOT NULL": lambda r, c: r["id"] != 100 + c["n"],
            "CASE WHEN claim('all') THEN true ELSE tenant IS NULL END": lambda r, c: c["all"] or r["tenant"] is None,
        },
        ("tenant", "pieces", "at"),
    ),
}  # fmt: skip
NEEDED = {"claim('tenant')": "tenant", "claim('n')": "n", "claim('all')": "all"}
CLAIMS: tuple[dict[str, Any], ...] = (
    {"tenant": "red", "n": 2, "all": False},
    {"tenant": "grün", "n": 0, "all": True},
    {"tenant": "' OR ''='", "n": 5, "all": False},
    {"tenant": "red"},
    {"n": 3, "tenant": None},
    {},
)
TEMPLATES = ("OrdersOf", "PerLevel", "Products")


def made(seed: int) -> tuple[str, dict[str, str], dict[str, tuple[str, ...]]]:
    """A role, its conditions and hidden columns."""
    chance = random.Random(seed)
    rows = {n: chance.choice(list(found)) for n, (found, _) in CONDITIONS.items() if chance.random() < 0.9}
    hidden = {n: tuple(c for c in columns if chance.random() < 0.12) for n, (_, columns) in CONDITIONS.items()}
    return f"role{seed}", rows, {n: columns for n, columns in hidden.items() if columns}


ROLES = [made(seed) for seed in range(12)]


def project() -> str:
    parts = []
    for name, rows, hidden in ROLES:
        views = ["Customers", "Orders", *(() if hidden else TEMPLATES)]
        parts.append(f"[roles.{name}]\nviews = {json.dumps(views)}\n[roles.{name}.rows]")
        parts += [f"{n} = {json.dumps(text, ensure_ascii=False)}" for n, text in rows.items()]
        parts += [f"[roles.{name}.hidden]", *(f"{n} = {json.dumps(columns)}" for n, columns in hidden.items())]
    return "\n".join(parts)


CATALOG, ROWS = shop.catalog(roles=project()), shop.rows()


def seen_rows(role: int, claims: Claims) -> dict[str, list[dict[str, Any]]]:
    """The rows that a caller of a role sees."""
    _, rows, _ = ROLES[role]
    result = dict(ROWS)
    for name, text in rows.items():
        lacks = any(call in text and claims.get(claim) is None for call, claim in NEEDED.items())
        holds = CONDITIONS[name][0][text]
        result[name] = [] if lacks else [r for r in ROWS[name] if holds(r, claims)]
    return result


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def readers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """A reader of all rows, or of those that a caller of a role sees."""
    opened: list[Any] = []
    names: list[str] = []
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None

    @cache
    def reader(role: int | None = None, claims: int = 0) -> Any:
        rows = ROWS if role is None else seen_rows(role, CLAIMS[claims])
        opened.append(open_reader(store(rows)))
        return opened[-1]

    def store(rows: Mapping[str, list[dict[str, Any]]]) -> str:
        if server is None:
            folder: Path = tmp_path_factory.mktemp("store")
            url = f"sqlite:///{folder}/store.db"
        else:
            names.append(f"roles_{len(names)}")
            administer(server, f"CREATE DATABASE {names[-1]}")
            url = server.replace("/postgres?", f"/{names[-1]}?")
        shop.fill(url, rows, CATALOG)
        return url

    yield reader
    for each in opened:
        each.close()
    for name in names:
        administer(str(server), f"DROP DATABASE {name} WITH (FORCE)")


def administer(server: str, statement: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


TEXTS = st.sampled_from(["red", "blue", "grün", "name0", "name1", "e1@x", ""])
NUMBERS = st.integers(-1, 6)
COLUMNS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "Customers": {"id": st.integers(0, 12), "tenant": TEXTS, "name": TEXTS, "level": NUMBERS, "email": TEXTS},
    "Orders": {"id": st.integers(99, 131), "tenant": TEXTS, "pieces": NUMBERS, "customer": st.integers(0, 13)},
}
RELATED = {"Customers": {"orders": "Orders", "last": "Orders", "above": "Orders"}, "Orders": {"buyer": "Customers"}}


@st.composite
def filters(draw: st.DrawFn, relation: str, depth: int = 2) -> str:
    parts = []
    for name in draw(st.lists(st.sampled_from(sorted(COLUMNS[relation])), max_size=2, unique=True)):
        operator = draw(st.sampled_from(["eq", "neq", "gt", "lte", "isNull"]))
        value = draw(st.booleans() if operator == "isNull" else COLUMNS[relation][name])
        parts.append(f"{name}: {{{operator}: {json.dumps(value, ensure_ascii=False)}}}")
    if depth:
        inner = draw(filters(relation, depth - 1))
        parts += draw(st.sampled_from([[], [f"not: {inner}"], [f"or: [{inner}, {draw(filters(relation, 0))}]"]]))
        name, target = draw(st.sampled_from(sorted(RELATED[relation].items())))
        some = draw(st.sampled_from(["some", "none"]))
        given_ = " least: 1" if name == "above" else ""
        related = f"{name}: {{{some}: {draw(filters(target, depth - 1))}{given_}}}"
        parts += draw(st.sampled_from([[], [], [related]]))
    return "{" + ", ".join(parts) + "}"


@st.composite
def rows_of(draw: st.DrawFn, relation: str, depth: int = 2) -> str:
    """A selection of rows."""
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS[relation])), min_size=1, max_size=3, unique=True))
    parts = list(names)
    for name, target in (
        draw(st.lists(st.sampled_from(sorted(RELATED[relation].items())), max_size=2, unique=True)) if depth else []
    ):
        inner = draw(rows_of(target, depth - 1))
        if name == "buyer":
            parts.append(f"buyer {inner}")
            continue
        given_ = f"filter: {draw(filters(target, 1))}, limit: {draw(st.integers(1, 4))}" + (
            ", least: 2" if name == "above" else ""
        )
        parts.append(f"{name}({given_}) {inner}")
        if draw(st.booleans()):
            least = "(least: 0)" if name == "above" else ""
            parts.append(f"{name}Aggregate{least} {{ count max {{ customer }} }}")
    return "{ " + " ".join(parts) + " }"


@st.composite
def requests(draw: st.DrawFn) -> str:
    relation = draw(st.sampled_from(["Customers", "Orders"]))
    field = relation.lower()
    order = draw(st.sampled_from(sorted(COLUMNS[relation])))
    ordered = f"order: [{{{order}: {draw(st.sampled_from(['ASC', 'DESC', 'DESC_NULLS_FIRST']))}}}]"
    chosen = f"filter: {draw(filters(relation))}"
    kind = draw(st.sampled_from(["list", "list", "page", "key", "aggregate", "template"]))
    if kind == "list":
        return f"{{ {field}({chosen}, {ordered}, limit: {draw(st.integers(1, 40))}) {draw(rows_of(relation))} }}"
    if kind == "page":
        first = draw(st.integers(1, 6))
        shown = f"nodes {draw(rows_of(relation))} endCursor hasNextPage totalCount"
        return f"{{ {field}Page({chosen}, {ordered}, first: {first}) {{ {shown} }} }}"
    if kind == "key":
        return f"{{ {field}ByKey(id: {draw(COLUMNS[relation]['id'])}) {draw(rows_of(relation))} }}"
    if kind == "aggregate":
        column = draw(st.sampled_from(sorted(COLUMNS[relation])))
        return f"{{ {field}Aggregate({chosen}, limit: 500) {{ by {{ {column} }} count min {{ id }} }} }}"
    return draw(
        st.sampled_from(
            [
                "{ ordersOf(name: \"name1\", limit: 9) { id amount name } }",
                "{ perLevel(least: 0) { level n pieces } }",
                "{ products(factor: 2) { id } }",
            ]
        )
    )  # fmt: skip


@pytest.mark.deep
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(ROLES) - 1), st.integers(0, len(CLAIMS) - 1), requests())
def test_a_role_is_answered_as_if_there_were_nothing_else(
    readers: Callable[..., Any], role: int, claims: int, text: str
) -> None:
    name, _, hidden = ROLES[role]
    found = execute_graphql(CATALOG, None, readers(), text, claims=CLAIMS[claims], role=name)
    requested = execute_graphql(CATALOG, None, readers(role, claims), text)
    if "errors" in found and found["errors"][0]["extensions"]["code"] == "B8002":
        assert hidden, text  # something in it is not there for the role
        return
    assert found.get("data", found.get("errors")) == requested.get("data", requested.get("errors")), text


@st.composite
def selected(draw: st.DrawFn, relation: str, depth: int = 2) -> str:
    """What REST selects of rows."""
    parts = draw(st.lists(st.sampled_from(sorted(COLUMNS[relation])), min_size=1, max_size=3, unique=True))
    inner = draw(st.lists(st.sampled_from(sorted(RELATED[relation].items())), max_size=2, unique=True)) if depth else []
    return ",".join(
        [*parts, *(f"{name}({draw(selected(target, depth - 1))})" for name, target in inner if name != "above")]
    )


@st.composite
def addresses(draw: st.DrawFn) -> str:
    """Requests of REST: lists with filters and orders, rows by key, templates."""
    relation = draw(st.sampled_from(["Customers", "Orders"]))
    select = draw(selected(relation))
    kind = draw(st.sampled_from(["list", "list", "key", "template"]))
    if kind == "key":
        return f"{relation.lower()}/{draw(COLUMNS[relation]['id'])}?select={select}"
    if kind == "template":
        return draw(st.sampled_from(["ordersOf?name=name1&limit=9", "perLevel?least=0", "products?factor=2"]))
    tests = []
    for name in draw(st.lists(st.sampled_from(sorted(COLUMNS[relation])), max_size=3, unique=True)):
        negated, operator = (
            draw(st.sampled_from(["", "not."])),
            draw(st.sampled_from(["eq", "neq", "gt", "lte", "isdistinct"])),
        )
        tests.append((name, f"{negated}{operator}.{draw(COLUMNS[relation][name])}"))
    order = (
        f"{draw(st.sampled_from(sorted(COLUMNS[relation])))}."
        f"{draw(st.sampled_from(['asc', 'desc', 'desc.nullsfirst']))}"
    )
    pairs = [("select", select), *tests, ("order", order), ("limit", draw(st.integers(1, 40)))]
    if draw(st.booleans()) and len(tests) > 1:
        either = ",".join(f"{name}.{test}" for name, test in tests if test[-1] != ".")
        pairs = [p for p in pairs if p not in tests] + ([("or", f"({either})")] if either else [])
    return f"{relation.lower()}?{urlencode(pairs)}"


@pytest.mark.deep
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(ROLES) - 1), st.integers(0, len(CLAIMS) - 1), addresses())
def test_rest_answers_a_role_as_if_there_were_nothing_else(
    readers: Callable[..., Any], role: int, claims: int, address: str
) -> None:
    name, _, hidden = ROLES[role]
    found = execute_rest(CATALOG, None, readers(), address, CLAIMS[claims], name)
    requested = execute_rest(CATALOG, None, readers(role, claims), address)
    if found != requested:
        assert hidden, address
        assert found["code"] in ("B8002", "B8016", "B8017"), (address, found)


def test_the_roles_see_and_miss_rows() -> None:
    """Else the test above would show little."""
    counts = {(r, c): len(seen_rows(r, CLAIMS[c])["Orders"]) for r in range(len(ROLES)) for c in range(len(CLAIMS))}
    assert sum(0 < n < len(ROWS["Orders"]) for n in counts.values()) > len(counts) // 4
    assert any(hidden for _, _, hidden in ROLES)
    assert sum(not hidden for _, _, hidden in ROLES) >= len(ROLES) // 4
