"""`/rest/<view>/<key>/why`, `/rest/<view>/why-not` and their tools show served rows to callers who may see all of
them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from test_openapi import drive
from test_tokens import SECRET, signed

from belvedere.api.access.gate import ServerSettings
from belvedere.api.access.tokens import TokenRules
from belvedere.api.agents.mcp_tools import call, tools_of
from belvedere.api.failures import RequestError
from belvedere.api.http.application import Application
from belvedere.api.reads.provenance import WhyNotRequest, WhyRequest
from belvedere.api.reads.why_not_filters import predicate_of_filter
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import read_project
from belvedere.provenance.why_not.pruning import condition_text
from belvedere.store import EpochRow, StoredTable, open_reader, open_served_reader, open_store
from tests.depth import examples

SCRIPT = """
CREATE TABLE Customers (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id));
CREATE TABLE Orders (id BIGINT NOT NULL, customer BIGINT, amount DECIMAL(10,2), at TIMESTAMP, PRIMARY KEY (id));
_Large := SELECT id, customer, amount, at FROM Orders WHERE amount >= 10;
ByCity := SELECT c.city, sum(o.amount) AS total FROM _Large o JOIN Customers c ON c.id = o.customer GROUP BY c.city;
Cities := SELECT city, total FROM ByCity WHERE total > 20;
Days := SELECT city, CAST(at AS DATE) AS day, count(*) AS n FROM _Large o JOIN Customers c ON c.id = o.customer
    GROUP BY city, day;
Owners := SELECT o.id, c.city FROM _Large o JOIN Customers c ON c.id = o.customer;
Everything := SELECT o.id, o.amount FROM Orders o JOIN Customers c ON c.id = o.customer;
One(city STRING) := SELECT total FROM ByCity WHERE city = :city;
"""
ROLES = '[roles.tenant]\nviews = ["ByCity", "Orders"]\nrows = { ByCity = "city = claim(\'city\')" }\n'
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
ODD = 'a/why, "Ö"'
CUSTOMERS = [(1, ODD), (2, "Bern"), (3, "Bern")]
ORDERS = [(10, 1, "10.50"), (11, 1, "1.00"), (12, 2, "20.00"), (13, 3, "30.00"), (14, 9, "40.00")]
LARGE = [(i, c, Decimal(a)) for i, c, a in ORDERS if Decimal(a) >= 10]


def rows() -> dict[str, list[dict[str, Any]]]:
    hidden = {"_ingest_time": NOON}
    return {
        "Customers": [{"id": i, "city": c, "_uid": i, **hidden} for i, c in CUSTOMERS],
        "Orders": [
            {"id": i, "customer": c, "amount": Decimal(a), "at": NOON, "_uid": i, **hidden} for i, c, a in ORDERS
        ],
        "ByCity": [{"city": ODD, "total": Decimal("10.50")}, {"city": "Bern", "total": Decimal("50.00")}],
        "Cities": [{"city": "Bern", "total": Decimal("50.00")}],
        "Owners": [{"id": i, "city": c, "_id": o} for i, c, o in ((10, ODD, 1), (12, "Bern", 2), (13, "Bern", 3))],
        "Everything": [{"id": i, "amount": Decimal(a), "_id": c} for i, c, a in ORDERS if c != 9],
        "Days": [{"city": ODD, "day": NOON.date(), "n": 1}, {"city": "Bern", "day": NOON.date(), "n": 2}],
    }


@pytest.fixture(scope="module")
def catalog() -> Any:
    file = Path("/nowhere/belvedere.toml")
    compiled = compile_script(SCRIPT, project=read_project(ROLES, file.parent, file, {}))
    assert compiled.ok, compiled.diagnostics
    return compiled.catalog


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path, catalog: Any) -> str:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    store = open_store(url)
    tables = {n: StoredTable(n, catalog.schema_of(n), fingerprint="test") for n in rows()}
    store.create(list(tables.values()))
    store.acquire("test", 600)
    transaction = store.begin()
    for name, given in rows().items():
        key = catalog.schema_of(name).key
        made = [{**r, "_key": "/".join(str(r[k]) for k in key)} for r in given]
        arrow = tables[name].arrow
        filled = [{n: r.get(n) for n in arrow.names} for r in made]
        transaction.append(name, pa.Table.from_pylist(filled, schema=arrow).to_reader())
    transaction.commit(EpochRow(0, NOON, extra={"next_uid": 15}))
    store.release("test")
    store.close()
    return url


@pytest.fixture
def client(url: str, catalog: Any) -> Iterator[TestClient]:
    settings = ServerSettings(token="all", tokens=TokenRules(SECRET))
    application = Application(
        catalog, lambda: open_served_reader(url, None, 2), settings, open_whole=lambda: open_reader(url, 10)
    )
    with TestClient(application, headers={"Authorization": "Bearer all"}) as made:
        yield made


def test_a_row_is_told_with_what_is_served_of_its_origin(client: TestClient) -> None:
    answer = client.get("/rest/byCity/Bern/why")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json()
    assert (found["view"], found["row"], found["epoch"]) == ("ByCity", {"city": "Bern", "total": "50.00"}, 0)
    assert "sum(o.amount)" in found["sql"]
    reads = {r["relation"]: r for r in found["reads"]}
    assert (reads["_Large"]["count"], reads["_Large"]["rows"]) == (2, [])  # private: counted, not shown
    assert reads["Customers"]["rows"] == [{"id": 2, "city": "Bern"}, {"id": 3, "city": "Bern"}]
    inputs = {r["relation"]: r for r in found["inputs"]}
    assert inputs["Orders"]["count"] == 2
    assert inputs["Orders"]["rows"][0] == {"id": 12, "customer": 2, "amount": "20.00", "at": "2020-01-01T12:00:00Z"}
    since = found["since"]
    assert (since["words"], since["exact"]) == ("last arrival: epoch 0, 2020-01-01T12:00:00Z", False)
    assert since["changed"] == {"epoch": 0, "time": "2020-01-01T12:00:00Z"}
    assert {r["relation"]: r["count"] for r in since["made_by"]} == {"Orders": 2, "Customers": 2}
    assert any("`Orders` that were deleted or replaced" in u for u in since["unknown"])


def test_views_are_followed_and_samples_bounded(client: TestClient) -> None:
    found = client.get("/rest/cities/Bern/why?depth=2&rows=1").json()
    (read,) = found["reads"]
    assert (read["relation"], read["count"], len(read["why"])) == ("ByCity", 1, 1)
    below = {r["relation"]: (r["count"], len(r["rows"])) for r in read["why"][0]["reads"]}
    assert below == {"_Large": (2, 0), "Customers": (2, 1)}
    assert client.get("/rest/orders/14/why").json()["sql"] == ""  # a row of an input arrived


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("byCity/Basel/why", 404, "B8017"),
        ("byCity/Bern/why?depth=0", 400, "B8003"),
        ("byCity/Bern/why?rows=1000000", 400, "B8003"),
        (f"byCity/Bern/why?rows={'9' * 5000}", 400, "B8003"),
        ("byCity/Bern/why?order=city", 400, "B8016"),
        ("orders/many/why", 400, "B8003"),
        ("days/Bern/why", 400, "B8016"),
        ("one/Bern/why", 404, "B8017"),
        ("_Large/10/why", 404, "B8017"),
        ("nothing/10/why", 404, "B8017"),
        ("byCity/why-not?town=eq.Bern", 400, "B8016"),
        ("byCity/why-not?city=is.many", 400, "B8016"),
        ("byCity/why-not?order=city", 400, "B8016"),
        ("byCity/why-not?customers.city=eq.Bern", 400, "B8016"),
        ("byCity/why-not?limit=0", 400, "B8003"),
        ("orders/why-not?id=eq.many", 400, "B8003"),
        ("orders/why-not?id=in.(" + ",".join("1" * 2000) + ")", 400, "B8004"),
        ("orders/why-not?and=(" + ",".join(["id.eq.1"] * 60) + ")", 400, "B8004"),
        ("one/why-not", 404, "B8017"),
        ("_Large/why-not", 404, "B8017"),
        ("byCity/%22why-not%22", 404, "B8017"),
    ],
)
def test_mistakes_are_told(client: TestClient, address: str, status: int, code: str) -> None:
    answer = client.get(f"/rest/{address}")
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text


@pytest.mark.parametrize(
    ("address", "message", "hint"),
    [
        ("one/Bern/why", "One is a query template", "the relations that it reads: `/rest/byCity`"),
        ("one/why-not?city=eq.Bern", "One is a query template", "the relations that it reads: `/rest/byCity`"),
        ("one/Bern/why-not", "One is a query template", "the relations that it reads: `/rest/byCity`"),
        ("byCity/Basel/why-not", "needs a view, not a row", "ask `/rest/byCity/why-not?city=eq.Basel`"),
        ("byCity/a%26b/why-not", "needs a view", "ask `/rest/byCity/why-not?city=eq.a%26b`"),
        ("days/Bern,2020-01-01/why-not", "needs a view", "ask `/rest/days/why-not?city=eq.Bern&day=eq.2020-01-01`"),
    ],
)
def test_the_right_question_is_named(client: TestClient, address: str, message: str, hint: str) -> None:
    answer = client.get(f"/rest/{address}")
    reported = answer.json()
    assert (answer.status_code, reported["code"]) == (404, "B8017")
    assert message in reported["message"]
    assert hint in reported["hint"]
    asked = reported["hint"].partition("ask `")[2].partition("`")[0]
    assert not asked or client.get(asked).status_code == 200
    assert "no row" in client.get("/rest/byCity/Basel%2Fwhy-not").json()["message"]


def test_keys_are_read_as_those_of_rows(client: TestClient) -> None:
    odd = "a%2Fwhy,%20%22%C3%96%22"
    assert client.get(f"/rest/byCity/{odd}/why").json()["row"]["city"] == ODD
    found = client.get("/rest/days/Bern,2020-01-01/why").json()
    assert found["row"] == {"city": "Bern", "day": "2020-01-01", "n": 2}
    found = client.get("/rest/days/%22a%2Fwhy,%20%5C%22%C3%96%5C%22%22,2020-01-01/why").json()
    assert found["row"] == {"city": ODD, "day": "2020-01-01", "n": 1}


def test_what_the_database_cannot_say_is_told_as_that(client: TestClient) -> None:
    (read, _) = client.get("/rest/days/Bern,2020-01-01/why").json()["inputs"]
    assert (read["relation"], read["rows"]) == ("Orders", [])
    assert (read["count"], read.get("untold")) in (
        (None, "`CAST(at AS DATE)` cannot be computed at read time"),
        (2, None),
    )
    assert client.get("/rest/byCity/a%2Fwhy").status_code == 404  # a row that is not there, and no question


def test_a_missing_row_is_told_with_what_is_served_on_the_way(client: TestClient) -> None:
    answer = client.get("/rest/cities/why-not", params={"city": f"eq.{ODD}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json()
    assert (found["view"], found["there"], found["epoch"]) == ("Cities", 0, 0)
    (lost,) = found["lost"]
    assert (lost["view"], lost["at"], lost["through"]) == ("Cities", "filter", [])
    (read,) = lost["near"]
    assert (read["count"], [r["ByCity.total"] for r in read["rows"]]) == (1, ["10.50"])
    assert client.get("/rest/cities/why-not?city=eq.Bern").json()["there"] == 1
    (lost,) = client.get("/rest/byCity/why-not?city=ilike.bern&and=(total.gte.1000,total.lt.2000)").json()["lost"]
    assert lost["at"] == "group"
    (lost,) = client.get("/rest/byCity/why-not?city=in.(Basel,Chur)").json()["lost"]
    assert (lost["view"], lost["at"]) == ("Customers", "input")
    assert (
        client.get("/rest/orders/why-not?at=lt.2019-01-01T00:00:00Z&amount=not.is.null").json()["lost"][0]["view"]
        == "Orders"
    )


def test_rows_between_operators_are_shown_where_all_of_them_are_served(client: TestClient) -> None:
    (lost,) = client.get("/rest/owners/why-not?id=eq.14").json()["lost"]
    assert lost["at"] == "join"
    assert [(r["relation"], r["count"], r["rows"]) for r in lost["near"]] == [("_Large", 1, [])]
    assert "9" not in lost["words"] + lost["condition"]  # the value of a row that nobody may see
    (lost,) = client.get("/rest/everything/why-not?id=eq.14").json()["lost"]
    assert [r["o.id"] for r in lost["near"][0]["rows"]] == [14]
    assert "9" in lost["words"]


def test_roles_and_servers_without_tables_are_refused(client: TestClient, url: str, catalog: Any) -> None:
    tenant = {"Authorization": f"Bearer {signed({'role': 'tenant', 'city': 'Bern'})}"}
    assert client.get("/rest/byCity/Bern", headers=tenant).status_code == 200
    refused = client.get("/rest/byCity/Bern/why", headers=tenant)
    assert (refused.status_code, refused.json()["code"]) == (403, "B8008")
    assert client.get("/rest/byCity/why-not?city=eq.Basel", headers=tenant).status_code == 403
    assert client.get("/rest/byCity/Bern/why", headers={"Authorization": "Bearer no"}).status_code == 401
    with TestClient(Application(catalog, lambda: open_reader(url))) as bare:
        assert bare.get("/rest/byCity/Bern/why").status_code == 404


def test_schemathesis_finds_nothing(url: str, catalog: Any) -> None:
    drive(
        Application(catalog, lambda: open_served_reader(url, None, 2), open_whole=lambda: open_reader(url, 10)),
        examples(40),
        ("/why", "/why-not"),
    )


def test_agents_ask_by_names(client: TestClient) -> None:
    application: Any = client.app
    api = application.served.roles.all.api
    assert [t.name for t in tools_of(api)][3] == "why_row"
    assert call(api, "why_row", {"view": "bycity", "key": {"city": "Bern"}, "rows": 2}) == WhyRequest(
        api.model.entities["ByCity"], {"city": "Bern"}, 1, 2
    )
    asked: Any = call(api, "why_not", {"view": "ByCity", "filter": {"city": {"eq": "Basel"}}})
    assert asked == WhyNotRequest(api.model.entities["ByCity"], {"city": {"eq": "Basel"}}, 5)
    for filter_, code in (
        ({"city": "Basel"}, "B8003"),
        ({"city": {"eq": None}}, "B8003"),
        ({"city": {"is": "Basel"}}, "B8003"),
        ({"town": {"eq": "Basel"}}, "B8003"),
        ({"or": [{"city": {"isNull": 3}}]}, "B8003"),
        ({"total": {"like": "1%"}}, "B8003"),
        ({"city": {"in": ["x"] * 1001}}, "B8004"),
        ({"and": [{"city": {"eq": "x"}}] * 51}, "B8004"),
    ):
        with pytest.raises(RequestError) as refused:
            predicate_of_filter(api.model.entities["ByCity"], filter_)
        assert refused.value.code == code, filter_
    either = {"or": [{"city": {"startsWith": "B"}}, {"not": {"city": {"isNull": True}}}], "total": {"notIn": []}}
    assert condition_text(predicate_of_filter(api.model.entities["ByCity"], either)).startswith(
        "(STARTSWITH(city, 'B') OR "
    )
    for wrong in (
        {"key": {"city": "Bern"}},
        {"view": "ByCity"},
        {"view": "ByCity", "key": {"town": 1}},
        {"view": "ByCity", "key": {}},
        {"view": "One", "key": {"total": 1}},
    ):
        with pytest.raises(RequestError):
            call(api, "why_row", wrong)
