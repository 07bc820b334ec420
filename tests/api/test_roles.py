"""Roles: no door shows more than the role may see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import roles_example as shop
from api_reader import Recorded

from belvedere.api.graphql.api import Api, execute_graphql
from belvedere.api.reads.role_catalog import role_catalog
from belvedere.plan.operators.nodes import Scan
from belvedere.store import open_reader
from belvedere.store.read.query import ColumnField, Nested, Read, StoreQuery
from belvedere.store.read.statements import print_read

CATALOG = shop.catalog()
ROWS = shop.rows()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        made: Path = tmp_path_factory.mktemp("roles") / "store.db"
        shop.fill(f"sqlite:///{made}", ROWS)
        yield f"sqlite:///{made}"
        return
    from adbc_driver_postgresql import dbapi

    server = request.getfixturevalue("postgres_server")
    with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE roles_example")
    found = server.replace("/postgres?", "/roles_example?")
    shop.fill(found, ROWS)
    yield found
    with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE roles_example WITH (FORCE)")


@pytest.fixture(scope="module")
def reader(url: str) -> Iterator[Any]:
    made = Recorded(open_reader(url))
    yield made
    made.close()


def ask(
    reader: Any, text: str, role: str | None = "tenant", claims: Mapping[str, Any] = shop.TENANT, **variables: Any
) -> Any:
    answer = execute_graphql(CATALOG, None, reader, text, variables, claims=claims, role=role)
    return answer.get("data") or answer["errors"]


def message(found: Any) -> str:
    return " ".join(f"{e['message']} {e['extensions'].get('hint', '')}" for e in found)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(r["id"] for r in rows)


def own(relation: str, tenant: Any = "red") -> list[int]:
    return ids([r for r in ROWS[relation] if r["tenant"] == tenant])


def test_a_role_sees_its_rows(reader: Any) -> None:
    assert ids(ask(reader, "{ orders { id } }")["orders"]) == own("Orders")
    assert ids(ask(reader, "{ orders { id } }", claims={"tenant": "grün"})["orders"]) == own("Orders", "grün")
    assert ids(ask(reader, "{ orders { id } }", role="all")["orders"]) == ids(ROWS["Orders"])
    assert ids(ask(reader, "{ orders { id } }", role=None)["orders"]) == ids(ROWS["Orders"])
    large = [o["id"] for o in ROWS["Orders"] if o["amount"] > 20 and o["tenant"] == "red"]
    assert ids(ask(reader, "{ large { id } }")["large"]) == sorted(large)


@pytest.mark.parametrize(
    "claims", [{}, {"tenant": None}, {"tenant": 7}, {"tenant": ["red"]}, {"tenant": {"a": "red"}}, {"Tenant": "red"}]
)
def test_a_claim_that_is_missing_or_wrong_lets_no_row_through(reader: Any, claims: dict[str, Any]) -> None:
    text = (
        "{ orders { id } customers { id orders { id } } ordersPage { nodes { id } hasNextPage } ordersOf(name: "
        '"name1") { id } }'
    )
    found = ask(reader, text, claims=claims)
    assert found == {"orders": [], "customers": [], "ordersPage": {"nodes": [], "hasNextPage": False}, "ordersOf": []}
    assert ask(reader, "{ ordersByKey(id: 101) { id } }", claims=claims) == {"ordersByKey": None}


def test_a_condition_that_no_claim_decides_needs_the_claim_all_the_same(reader: Any) -> None:
    text = "{ orders(limit: 1000) { id } customers { id } }"
    found = ask(reader, text, "low", {"level": 2, "app": {"pieces": 3}, "all": False})
    assert ids(found["orders"]) == ids([o for o in ROWS["Orders"] if o["pieces"] is not None and o["pieces"] <= 3])
    assert ids(found["customers"]) == ids(
        [c for c in ROWS["Customers"] if c["level"] and c["level"] <= 2 and c["tenant"]]
    )
    assert ids(ask(reader, text, "low", {"app": {"pieces": 0}, "all": True})["orders"]) == ids(ROWS["Orders"])
    for claims in ({"all": True}, {"app": {"pieces": 9}}, {"app": 9, "all": True}, {"app.pieces": 9, "all": True}):
        assert ask(reader, text, "low", claims) == {"orders": [], "customers": []}


def test_relationships_both_ways(reader: Any) -> None:
    found = ask(
        reader,
        "{ customers { id tenant orders { id tenant buyer { id tenant } } last { id } above(least: -9) { id } } }",
    )
    mine = {c["id"] for c in ROWS["Customers"] if c["tenant"] == "red"}
    assert {c["id"] for c in found["customers"]} == mine
    for customer in found["customers"]:
        visible = [o for o in ROWS["Orders"] if o["customer"] == customer["id"] and o["tenant"] == "red"]
        assert ids(customer["orders"]) == ids(visible)
        newest = sorted(visible, key=lambda o: (-o["at"].timestamp(), o["id"]))[:2]
        assert [o["id"] for o in customer["last"]] == [o["id"] for o in newest]  # the condition comes before the limit
        assert ids(customer["above"]) == ids([o for o in visible if o["pieces"] is not None])
    strange = {o["id"] for o in ROWS["Orders"] if o["tenant"] == "red" and o["customer"] not in mine}
    assert strange
    found = ask(reader, "{ orders { id buyer { name tenant } } }")["orders"]
    assert all((o["buyer"] is None) == (o["id"] in strange) for o in found)


def test_limits_and_filters_come_after_the_condition(reader: Any) -> None:
    found = ask(
        reader,
        '{ customers { last(filter: {tenant: {neq: "red"}}) { id } orders(filter: {tenant: {eq: "blue"}}) { id } } }',
    )
    assert all(c == {"last": [], "orders": []} for c in found["customers"])
    assert len(ask(reader, "{ orders(limit: 3) { id } }")["orders"]) == 3
    assert ask(reader, '{ orders(filter: {or: [{tenant: {eq: "blue"}}, {tenant: {isNull: true}}]}) { id } }') == {
        "orders": []
    }
    assert ids(ask(reader, '{ orders(filter: {not: {tenant: {eq: "blue"}}}) { id } }')["orders"]) == own("Orders")


def test_a_row_that_is_not_seen_is_one_that_is_not_there(reader: Any) -> None:
    reader.statements.clear()
    assert ask(reader, "{ ordersByKey(id: 999) { id } }") == {"ordersByKey": None}
    assert ask(reader, "{ ordersByKey(id: 5555) { id } }") == {"ordersByKey": None}
    assert len(set(reader.statements)) == 1
    assert ask(reader, "{ ordersByKey(id: 999) { id } }", role="all") == {"ordersByKey": {"id": 999}}


def test_pages_and_cursors_of_another_role(reader: Any) -> None:
    text = (
        "query ($after: Cursor) { ordersPage(first: 4, after: $after, order: {amount: DESC}) { nodes { id } "
        "endCursor hasNextPage } }"
    )

    def pages(role: str, after: str | None = None) -> list[int]:
        found: list[int] = []
        while True:
            page = ask(reader, text, role, after=after)["ordersPage"]
            found += [n["id"] for n in page["nodes"]]
            if not page["hasNextPage"]:
                return found
            after = page["endCursor"]

    by_amount = sorted(ROWS["Orders"], key=lambda o: (-o["amount"], o["id"]))
    assert pages("all") == [o["id"] for o in by_amount]
    assert pages("tenant") == [o["id"] for o in by_amount if o["tenant"] == "red"]
    theirs = ask(reader, text, "all")["ordersPage"]["endCursor"]
    assert pages("tenant", theirs) == [o["id"] for o in by_amount[4:] if o["tenant"] == "red"]


def test_templates(reader: Any) -> None:
    def per_level(
        least: int, customers: list[dict[str, Any]], orders: list[dict[str, Any]]
    ) -> dict[int, tuple[int, int | None]]:
        result: dict[int, tuple[int, int | None]] = {}
        for level in {c["level"] for c in customers if c["level"] is not None and c["level"] >= least}:
            mine = [[o for o in orders if o["customer"] == c["id"]] for c in customers if c["level"] == level]
            pieces = [o["pieces"] for found in mine for o in found if o["pieces"] is not None]
            result[level] = (sum(max(1, len(found)) for found in mine), sum(pieces) if pieces else None)
        return result

    for tenant in ("red", "blue"):
        customers, orders = ([r for r in ROWS[n] if r["tenant"] == tenant] for n in ("Customers", "Orders"))
        found = ask(reader, "{ perLevel(least: 0) { level n pieces } }", claims={"tenant": tenant})["perLevel"]
        assert {r["level"]: (r["n"], r["pieces"]) for r in found} == per_level(0, customers, orders)
        for name in ("name0", "name1"):
            buyers = {c["id"] for c in customers if c["name"] == name}
            found = ask(reader, f'{{ ordersOf(name: "{name}") {{ id name }} }}', claims={"tenant": tenant})["ordersOf"]
            assert ids(found) == ids([o for o in orders if o["customer"] in buyers])
        found = ask(reader, "{ largeOf(least: 0) { id } }", claims={"tenant": tenant})["largeOf"]
        assert ids(found) == ids([o for o in orders if o["amount"] > 20])


def test_an_error_tells_of_no_row_that_is_not_seen(reader: Any) -> None:
    """The pieces of an order of another tenant overflow: a condition that is tested before the guard would fail."""
    found = ask(reader, "{ products(factor: 3) { id } }")["products"]
    assert ids(found) == ids([o for o in ROWS["Orders"] if o["tenant"] == "red" and (o["pieces"] or 0) * 3 > 5])
    assert "beyond the range" in message(ask(reader, "{ products(factor: 3) { id } }", claims={"tenant": "blue"}))


def test_what_is_not_granted_does_not_exist(reader: Any) -> None:
    for text in (
        "{ secrets { id } }",
        "{ totals { orders } }",
        "{ counts { orders } }",
        '{ mailed(email: "e1@x") { id } }',
        "{ customers { email } }",
        "{ customers { secrets { text } } }",
        "{ customers { peers { id } } }",
        '{ customers(filter: {email: {eq: "e1@x"}}) { id } }',
        "{ customers(order: {email: ASC}) { id } }",
        "{ customersPage(order: {email: ASC}) { nodes { id } } }",
    ):
        found = ask(reader, text)
        assert found[0]["extensions"]["code"] == "B8002", text
    for word in ("secret", "secrets", "totals", "emai", "mail", "peer"):
        text = message(ask(reader, f"{{ {word} {{ id }} }}")) + message(ask(reader, f"{{ customers {{ {word} }} }}"))
        assert not [
            n for n in ("Secrets", "totals", "email", "mailed", "peers") if n in text.replace(f"'{word}'", "")
        ], text


def test_introspection_shows_what_is_granted(reader: Any) -> None:
    text = (
        "{ __schema { types { name description fields { name description } inputFields { name } enumValues { name "
        "} } } }"
    )
    described = json.dumps(ask(reader, text)).casefold()
    for word in ("secret", "totals", "email", "mail", "peers"):
        assert word not in described, word
        assert word in json.dumps(ask(reader, text, role=None)).casefold(), word
    assert '"large"' in described
    assert ask(reader, '{ __type(name: "Secrets") { name } }') == {"__type": None}
    shown = ask(reader, '{ __type(name: "CustomersFilter") { inputFields { name } } }')["__type"]["inputFields"]
    names = {"id", "tenant", "name", "level", "orders", "last", "above", "and", "or", "not"}
    assert {f["name"] for f in shown} == names


def test_a_hidden_key_is_in_no_cursor(reader: Any) -> None:
    assert ask(reader, "{ customersPage { endCursor } }", "keyless")[0]["extensions"]["code"] == "B8002"
    assert ask(reader, "{ customersByKey(id: 1) { name } }", "keyless")[0]["extensions"]["code"] == "B8002"
    assert len(ask(reader, "{ customers { name } }", "keyless")["customers"]) == 12
    assert ask(reader, "{ customers { orders { amount } } }", "keyless")[0]["extensions"]["code"] == "B8002"
    page = ask(reader, "{ ordersPage(first: 2) { nodes { id } endCursor } }", "keyless")["ordersPage"]
    assert "red" not in bytes.fromhex(page["endCursor"]).decode()


@pytest.mark.parametrize("role", ["pusher", "nobody", "unknown"])
def test_who_may_not_read_sees_nothing(reader: Any, role: str) -> None:
    assert ask(reader, "{ orders { id } }", role)[0]["extensions"]["code"] == "B8002"
    fields = ask(reader, "{ __schema { queryType { fields { name } } mutationType { fields { name } } } }", role)[
        "__schema"
    ]
    assert fields["queryType"]["fields"] == [{"name": "nothing"}]
    assert fields["mutationType"] == ({"fields": [{"name": "orders"}]} if role == "pusher" else None)


DOORS = (
    "{ orders { id buyer { id orders { id } } } customers { orders(limit: 1) { id } last { id } above(least: 1) { id "
    "} } large { id } }",
    "{ ordersByKey(id: 1) { id } customersPage(last: 2) { nodes { id ordersPage(first: 1) { nodes { id } endCursor } "
    "} totalCount } }",
    "{ ordersAggregate { by { customer } count max { pieces } } customers { ordersAggregate { count } lastAggregate { "
    "count } } }",
    "{ customers(filter: {orders: {some: {pieces: {gt: 1}, buyer: {none: {}}}}}) { id } orders(filter: {buyer: {some: "
    "{}}}) { id } }",
    '{ ordersOf(name: "a") { id } perLevel(least: 1) { n } largeOf(least: 1) { id } products(factor: 2) { id } '
    "newOrders { id } }",
)


@pytest.mark.parametrize("text", DOORS)
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_relation_in_a_statement_is_guarded(text: str, dialect: str) -> None:
    """A relation stands in FROM only where its guard stands behind it, whatever reads it."""

    class Reader:
        def __init__(self) -> None:
            self.dialect = dialect

    api = Api(role_catalog(CATALOG, CATALOG.access.grants["tenant"]), Reader())  # type: ignore[arg-type]
    operation, literals = api.find(text)
    sql = api.operations.prepare(operation, literals, {}, shop.TENANT).plan.statement.sql
    named = re.findall(r'(?:FROM|JOIN|,) "(\w+)"(?=(.{0,200}))', sql)
    relations = [(name, behind) for name, behind in named if name in CATALOG.public]
    assert relations
    for name, behind in relations:
        assert re.match(r' AS g WHERE .* IS NOT NULL AND .*g\."tenant"( COLLATE "C")?=', behind), (name, behind)
    assert "Secrets" not in sql
    assert "Totals" not in sql


def test_a_read_of_what_is_not_granted_fails() -> None:
    """Whatever a planner does: the printer refuses."""
    row_conditions = {"Customers": None}
    schema = CATALOG.schema_of("Orders")
    for query in (
        StoreQuery("Orders", schema, (ColumnField("id", "id"),)),
        StoreQuery("Q", schema, (ColumnField("id", "id"),), plan=Scan("Orders", schema)),
    ):
        assert print_read(Read((Nested("a", query),)), "sqlite").sql
        with pytest.raises(PermissionError):
            print_read(Read((Nested("a", query),), row_conditions), "sqlite")


def test_aggregates_and_counts(reader: Any) -> None:
    for tenant in ("red", "blue"):
        orders = [o for o in ROWS["Orders"] if o["tenant"] == tenant]
        text = "{ ordersAggregate { count max { id } } customersPage(first: 500) { totalCount nodes { id } } "
        text += "customers { id ordersAggregate { count } } }"
        found = ask(reader, text, claims={"tenant": tenant})
        assert found["ordersAggregate"] == [{"count": len(orders), "max": {"id": max(o["id"] for o in orders)}}]
        assert found["customersPage"]["totalCount"] == len(own("Customers", tenant))
        for customer in found["customers"]:
            assert customer["ordersAggregate"][0]["count"] == sum(o["customer"] == customer["id"] for o in orders)
        hidden = "{ customersAggregate { by { email } count } }"
        assert ask(reader, hidden, claims={"tenant": tenant})[0]["extensions"]["code"] == "B8002"


def test_filters_over_related_rows(reader: Any) -> None:
    """Whether there is a related row is asked of the rows that are seen."""
    seen = {o["customer"] for o in ROWS["Orders"] if o["tenant"] == "red"}
    found = ask(
        reader,
        "{ a: customers(filter: {orders: {some: {}}}) { id } b: customers(filter: {orders: {none: {}}}) { id } }",
    )
    assert ids(found["a"]) == [n for n in own("Customers") if n in seen]
    assert ids(found["b"]) == [n for n in own("Customers") if n not in seen]
