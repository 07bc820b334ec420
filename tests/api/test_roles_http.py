"""Roles over HTTP: who a caller is, its rights, and what streams, statuses and tags tell it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import roles_example as shop
from starlette.testclient import TestClient
from test_tokens import SECRET, signed

from belvedere.api.access.callers import Caller, own_key
from belvedere.api.access.gate import FixedToken, ServerSettings
from belvedere.api.access.tokens import TokenRules
from belvedere.api.http.application import Application
from belvedere.api.live.event_streams import QUIET
from belvedere.api.serving.processes import server_settings
from belvedere.catalog.access import Right
from belvedere.errors import BelvedereError
from belvedere.store import open_reader

CATALOG, ROWS = shop.catalog(), shop.rows()
FIXED = (
    FixedToken("till", "pusher"),
    FixedToken("monitor", None, frozenset({Right.STATUS})),
    FixedToken("looker", "tenant", frozenset({Right.STATUS})),
    FixedToken("gone", "no such role"),
)
SETTINGS = ServerSettings(token="everything", tokens=TokenRules(SECRET), fixed=FIXED)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    made: Path = tmp_path_factory.mktemp("roles") / "store.db"
    shop.fill(f"sqlite:///{made}", ROWS)
    return f"sqlite:///{made}"


@pytest.fixture(scope="module")
def application(url: str) -> Application:
    return Application(CATALOG, lambda: open_reader(url), SETTINGS)


@pytest.fixture(scope="module")
def client(application: Application) -> Iterator[TestClient]:
    with TestClient(application) as made:
        yield made


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


RED = signed({"role": "tenant", "tenant": "red"})
BLUE = signed({"role": ["other", "tenant"], "tenant": "blue"})


def query(client: TestClient, text: str, token: str | None, **more: Any) -> Any:
    answer = client.post("/graphql", json={"query": text} | more, headers=bearer(token))
    return answer.status_code, answer.json()


def test_callers_and_their_roles(client: TestClient) -> None:
    def seen(token: str | None) -> Any:
        status, body = query(client, "{ orders { tenant } }", token)
        return (
            {o["tenant"] for o in body["data"]["orders"]}
            if "data" in body
            else (status, body["errors"][0]["extensions"]["code"])
        )

    assert seen(RED) == {"red"}
    assert seen(BLUE) == {"blue"}
    assert seen("everything") == {"red", "blue", "grün", None}
    assert seen(signed({"role": "all"})) == {"red", "blue", "grün", None}
    for claims in (
        {},
        {"role": None},
        {"role": "none"},
        {"role": 7},
        {"role": ["tenant", "all"]},
        {"role": []},
        {"role": {"tenant": 1}},
    ):
        assert seen(signed(claims)) == (403, "B8008"), claims
    assert seen(None) == (401, "B8008")
    assert seen("wrong") == (401, "B8008")
    assert seen("monitor") == (403, "B8008")
    assert seen("looker") == (403, "B8008")
    assert seen("till") == (200, "B8002")
    assert seen("gone") == (200, "B8002")  # of a role that is not known: there is nothing to ask for


def test_roles_of_those_who_say_none(url: str) -> None:
    rules = TokenRules(SECRET, role_claim=("realm", "role"), default_role="all")
    application = Application(CATALOG, lambda: open_reader(url), ServerSettings(tokens=rules, anonymous="tenant"))
    with TestClient(application) as client:
        many = len(ROWS["Orders"])
        for token, rows in (
            (None, 0),
            (signed({}), many),
            (signed({"realm": {"role": "tenant"}, "tenant": "red"}), None),
        ):
            status, body = query(client, "{ orders(limit: 1000) { tenant } }", token)
            assert status == 200
            found = [o["tenant"] for o in body["data"]["orders"]]
            assert set(found) == {"red"} if rows is None else len(found) == rows
        assert query(client, "{ orders { id } }", signed({"realm": {"role": "x"}}))[0] == 403
        assert query(client, "{ orders { id } }", "wrong")[0] == 401
        assert client.get("/status").status_code == 200  # the role may


def test_a_server_that_asks_nobody_who_they_are(url: str) -> None:
    with TestClient(Application(CATALOG, lambda: open_reader(url))) as client:
        assert len(query(client, "{ orders { id } }", None)[1]["data"]["orders"]) == len(ROWS["Orders"])


def test_a_public_address_needs_callers_with_names() -> None:
    with pytest.raises(BelvedereError, match="no authentication"):
        server_settings("0.0.0.0", {})
    assert server_settings("0.0.0.0", {"anonymous_role": "tenant"}).anonymous == "tenant"
    found = server_settings(
        "0.0.0.0", {"tokens": {"a": {"token": "x", "role": "r"}, "b": {"token": "y", "rights": ["push"]}}}
    )
    assert found.fixed == (FixedToken("x", "r"), FixedToken("y", None, frozenset({Right.PUSH})))


READS = ("/schema.graphql", "/openapi.json", "/lineage", "/streams/NewOrders/events?x=1")


@pytest.mark.parametrize(
    ("token", "allowed"),
    [
        (RED, {"read", "status"}),
        ("till", {"push"}),
        ("monitor", {"status"}),
        ("looker", {"status"}),
        ("everything", {"read", "push", "status", "admin"}),
        (signed({"role": "nobody"}), set()),
    ],
)
def test_rights(client: TestClient, token: str, allowed: set[str]) -> None:
    found = set()
    row = [{"id": 1}]
    for right, answers in (
        ("status", [client.get(p, headers=bearer(token)) for p in ("/status", "/metrics")]),
        (
            "read",
            [
                client.get(p, headers=bearer(token))
                for p in ("/schema.graphql", "/openapi.json", "/lineage", "/streams/NewOrders/events?x=1")
            ],
        ),
        ("admin", [client.post("/quarantine/retry", headers=bearer(token))]),
        (
            "push",
            [client.post(p, json=row, headers=bearer(token)) for p in ("/streams/Orders", "/streams/Orders/close")],
        ),
    ):
        refused = {a.status_code == 403 for a in answers}
        assert len(refused) == 1, [(a.url.path, a.status_code) for a in answers]
        found |= set() if refused.pop() else {right}
    assert found == allowed
    answer = client.post(
        "/graphql", json={"query": "mutation { orders(rows: {id: 1}) { taken } }"}, headers=bearer(token)
    )
    code = answer.json()["errors"][0]["extensions"]["code"]
    assert code == "B8030" if "push" in allowed else code in ("B8007", "B8008")
    for path in ("/healthz", "/readyz", "/"):
        assert client.get(path, headers=bearer(token)).status_code == 200


def test_who_pushes_does_it_to_its_inputs(client: TestClient) -> None:
    for name in ("Customers", "Secrets", "Nothing"):
        answer = client.post(f"/streams/{name}", json=[{"id": 1}], headers=bearer("till"))
        assert (answer.status_code, answer.json()["code"]) == (404, "B6012")
        assert answer.json()["hint"] == "there is `Orders`"
    assert client.post("/streams/orders", json=[{"id": 1}], headers=bearer("till")).json()["code"] == "B8030"


def test_the_key_of_a_push_is_that_of_its_caller() -> None:
    rights = frozenset({Right.PUSH})
    ann, bob = (Caller({"sub": n, "exp": 1, "x": 2}, "pusher", rights) for n in ("ann", "bob"))
    keys = [
        own_key(c, "k")
        for c in (ann, bob, Caller({}, "pusher", rights), Caller({"tenant": "red"}, "pusher", rights), Caller({}))
    ]
    assert len(set(keys)) == 5
    assert own_key(Caller({"sub": "ann", "exp": 9}, "pusher", rights), "k") == keys[0]  # with its next token
    assert own_key(Caller({"tenant": "red", "iat": 3}, "pusher", rights), "k") == keys[3]
    assert own_key(Caller({}), "k") == "k"
    assert own_key(ann, None) is None


def test_status_lineage_and_metrics(client: TestClient) -> None:
    query(client, "{ secrets { id } totals { orders } }", "everything")
    query(client, "{ orders { id } }", RED)
    whole, some = (client.get("/status", headers=bearer(t)).json() for t in ("everything", RED))
    assert [i["name"] for i in whole["inputs"]] == ["Customers", "Orders", "Secrets"]
    assert some["inputs"] == [{"name": n, "kind": "table"} for n in ("Customers", "Orders")]
    assert some["views"] == []
    assert set(some) <= {"store", "epoch", "takes_pushes", "as_of", "committed_at", "freshness_ms", "inputs", "views"}
    every = client.get("/status", headers=bearer(signed({"role": "all"})))
    assert every.status_code == 403
    for path in ("/lineage", "/status", "/metrics", "/schema.graphql", "/openapi.json"):
        text = client.get(path, headers=bearer(RED)).text
        for word in ("ecret", "otals", "email", "mailed", "peers"):
            assert word not in text, (path, word)
    assert {n["name"] for n in client.get("/lineage", headers=bearer(RED)).json()["nodes"]} >= {
        "Orders",
        "Large",
        "OrdersOf",
    }
    assert 'endpoint="Orders"' in client.get("/metrics", headers=bearer(RED)).text
    assert 'endpoint="Secrets"' in client.get("/metrics", headers=bearer("everything")).text
    for id_, status in (
        ("Large", 200),
        ("OrdersOf()", 200),
        ("NewOrders", 200),
        ("Totals", 404),
        ("Secrets", 404),
        ("Counts()", 404),
    ):
        answer = client.get(f"/lineage/{id_}", headers=bearer(RED))
        assert answer.status_code == status, id_
        if status == 200:
            assert answer.json() == {"id": id_, "sql": None, "standard_sql": None, "kept": None}


def test_tags_differ_by_role_and_claims(client: TestClient) -> None:
    def get(token: str, tag: str | None = None) -> Any:
        headers = bearer(token) | ({} if tag is None else {"If-None-Match": tag})
        return client.get("/graphql", params={"query": "{ orders { id } }"}, headers=headers)

    tags = {t: get(t).headers["etag"] for t in (RED, BLUE, "everything", signed({"role": "all"}))}
    assert len(set(tags.values())) == 4
    for own, same in tags.items():
        for tag in tags.values():
            assert get(own, tag).status_code == (304 if tag == same else 200)
    assert (
        get(signed({"role": "tenant", "tenant": "red", "sub": "ann"})).headers["etag"] == tags[RED]
    )  # the same answer


def test_events_of_a_role(client: TestClient, application: Application) -> None:
    async def seen(caller: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
        found = (await application.served.roles.view_of(caller)).api
        operation, literals = found.find(text, None, {})
        reported = await application.served.streams.stream(found, operation, literals, {}, caller)
        assert await anext(reported) == QUIET
        result = []
        while True:
            try:
                body = (await asyncio.wait_for(anext(reported), 0.4)).body
            except TimeoutError:
                return result
            if not body:
                return result
            result.append(json.loads(body))

    text = "subscription { newOrders(after: 0) { id tenant _seq } }"
    for tenant in ("red", "blue"):
        found = asyncio.run(seen(Caller({"tenant": tenant}, "tenant", frozenset({Right.READ})), text))
        assert [e["data"]["newOrders"]["id"] for e in found] == [
            e["id"] for e in ROWS["NewOrders"] if e["tenant"] == tenant
        ]
    assert asyncio.run(seen(Caller({}, "tenant", frozenset({Right.READ})), text)) == []
    live = "subscription { orders { tenant } }"
    (first,) = asyncio.run(seen(Caller({"tenant": "blue"}, "tenant", frozenset({Right.READ})), live))
    assert {o["tenant"] for o in first["data"]["orders"]} == {"blue"}
    headers = bearer(RED) | {"Accept": "text/event-stream"}
    answer = client.post("/graphql", json={"query": "subscription { totals { orders } }"}, headers=headers)
    assert "B8002" in answer.text
    assert client.get("/streams/OldOrders/events", headers=bearer(RED)).status_code == 404


def test_websockets(client: TestClient) -> None:
    def first(token: str, text: str) -> Any:
        with client.websocket_connect("/graphql", subprotocols=["graphql-transport-ws"]) as socket:
            socket.send_json({"type": "connection_init", "payload": {"authorization": f"Bearer {token}"}})
            assert socket.receive_json()["type"] == "connection_ack"
            socket.send_json({"type": "subscribe", "id": "1", "payload": {"query": text}})
            return socket.receive_json()

    rows = first(BLUE, "{ orders { tenant } }")["payload"]["data"]["orders"]
    assert {o["tenant"] for o in rows} == {"blue"}
    rows = first(RED, "subscription { orders { tenant } }")["payload"]["data"]["orders"]
    assert {o["tenant"] for o in rows} == {"red"}
    for token, text, code in (
        (RED, "{ secrets { id } }", "B8002"),
        ("till", "{ __typename }", "B8008"),
        (RED, "mutation { orders(rows: {id: 1}) { taken } }", "B8007"),
        ("monitor", "{ orders { id } }", "B8008"),
        ("monitor", "mutation { orders(rows: {id: 1}) { taken } }", "B8008"),
    ):
        assert first(token, text)["payload"][0]["extensions"]["code"] == code, (token, text)


def test_a_caller_of_whom_nothing_is_known_sees_nothing_where_there_are_roles(application: Application) -> None:
    """Whoever forgets to say who asks gets nothing, not everything."""
    assert asyncio.run(application.served.roles.view_of({})).api.model.entities == {}
    assert asyncio.run(application.served.roles.view_of({"tenant": "red"})).api.model.entities == {}
    assert "Secrets" in asyncio.run(application.served.roles.view_of(Caller({}))).api.model.entities


def test_rest(client: TestClient) -> None:
    def get(path: str, token: str, **headers: str) -> Any:
        return client.get(f"/rest/{path}", headers=bearer(token) | headers)

    assert {o["tenant"] for o in get("orders", RED).json()} == {"red"}
    assert [
        c["orders"] for c in get("customers?select=id,orders(tenant)&orders.tenant=eq.blue", RED).json() if c["orders"]
    ] == []
    missing, absent = get("orders/999", RED), get("orders/5555", RED)
    assert missing.status_code == absent.status_code == 404
    assert {n: v for n, v in missing.json().items() if n != "instance"} == {
        n: v for n, v in absent.json().items() if n != "instance"
    }
    assert get("orders/999", "everything").status_code == 200
    for path in (
        "secrets",
        "totals",
        "customers?select=email",
        "customers?email=eq.e1@x",
        "customers?order=email",
        "counts",
    ):
        answer = get(path, RED)
        assert answer.status_code in (400, 404), path
        assert "ecrets" not in answer.text.replace(path, ""), path
    assert get("orders", "till").status_code == 403
    tags = {t: get("orders", t).headers["etag"] for t in (RED, BLUE, "everything")}
    assert len(set(tags.values())) == 3
    assert get("orders", RED, **{"If-None-Match": tags[BLUE]}).status_code == 200
    assert get("orders", RED, **{"If-None-Match": tags[RED]}).status_code == 304
    assert [o["id"] for o in get("ordersOf?name=name1", BLUE).json()] != [
        o["id"] for o in get("ordersOf?name=name1", RED).json()
    ]


def test_tools_show_a_role_what_it_may_see(client: TestClient) -> None:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}

    def result(token: str | None, method: str, **parameters: Any) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        answer = client.post("/mcp", json=asked, headers={**headers, **bearer(token)})
        return answer.json()["result"] if answer.status_code == 200 else answer.status_code

    def reported(token: str, **arguments: Any) -> Any:
        found = result(token, "tools/call", name="query_view", arguments=arguments)
        return found["content"][0]["text"] if found["isError"] else found["structuredContent"]["rows"]

    views = result(RED, "tools/call", name="list_views", arguments={})["structuredContent"]["views"]
    assert {v["name"] for v in views} == {"Customers", "Orders", "Large", "NewOrders"}
    assert "email" not in next(v["columns"] for v in views if v["name"] == "Customers")
    tools = {t["name"] for t in result(RED, "tools/list")["tools"]}
    assert "ordersOf" in tools
    assert "mailed" not in tools
    assert {o["tenant"] for o in reported(RED, view="Orders", columns=["tenant"])} == {"red"}
    assert "there is no view" in reported(RED, view="Secrets")
    for hidden in (
        {"columns": ["email"]},
        {"columns": ["id"], "filter": {"email": {"eq": "x"}}},
        {"columns": ["secrets.text"]},
    ):
        assert reported(RED, view="Customers", **hidden).startswith("B800"), hidden
    assert len({o["tenant"] for o in reported("everything", view="Orders", columns=["tenant"])}) > 1
    assert [result(t, "tools/list") for t in (None, "till", "monitor")] == [401, 403, 403]
