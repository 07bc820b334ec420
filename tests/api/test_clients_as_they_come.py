"""Behaviour of real clients: their headers, expiring tokens, compressed bodies, URLs with a slash or too long."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from test_tokens import SECRET, signed

from belvedere.api.access.gate import ServerSettings
from belvedere.api.access.tokens import TokenRules
from belvedere.api.http.application import Application
from belvedere.api.live.websockets import PROTOCOL
from belvedere.api.serving.processes import server_settings
from belvedere.compiler import compile_script

PAGE = "https://app.example"
CLIENTS = {
    "apollo": "content-type,apollographql-client-name,apollographql-client-version,apollo-require-preflight",
    "sentry": "content-type,sentry-trace,baggage",
    "otel": "Content-Type,TraceParent,TraceState,b3,X-B3-TraceId",
    "supabase": "accept-profile,apikey,authorization,x-client-info",
    "postgrest": "accept-profile,content-profile,content-type,prefer,range-unit",
    "mcp": "authorization,content-type,mcp-protocol-version,mcp-session-id",
    "own": "x-team",
}
SCRIPT = (
    "CREATE STREAM Bid (at TIMESTAMP NOT NULL, price INT) KEEP 30 DAYS; CREATE SUBSCRIPTION Told ON ADD AS "
    "SELECT price FROM Bid;"
)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    settings = server_settings("127.0.0.1", {"cors_origins": [PAGE], "cors_headers": ["X-Team"]})
    with TestClient(Application(example.catalog(), MemoryReader, settings), base_url="http://LocalHost:8080") as made:
        yield made


@pytest.mark.parametrize("name", CLIENTS)
def test_pages_send_what_their_libraries_add(client: TestClient, name: str) -> None:
    asked = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": CLIENTS[name]}
    for path in ("/graphql", "/rest/things", "/mcp"):
        assert client.options(path, headers=asked).status_code == 200, path


def test_a_refused_preflight_says_why(client: TestClient) -> None:
    def reported(**headers: str) -> Any:
        asked = {
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        answer = client.options("/graphql", headers=asked | {n.replace("_", "-"): v for n, v in headers.items()})
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
        assert answer.headers.get("access-control-allow-origin") in (None, PAGE)
        return answer.json()

    assert "`X-Secret-Thing`" in reported(access_control_request_headers="content-type, X-Secret-Thing")["message"]
    assert "cors_headers" in reported(access_control_request_headers="x-other")["hint"]
    assert "evil.example" in reported(origin="https://evil.example")["message"]
    assert "DELETE" in reported(access_control_request_method="DELETE")["message"]


def test_compressed_bodies_are_refused_in_words(client: TestClient) -> None:
    body = gzip.compress(json.dumps({"query": "{ things { id } }"}).encode())
    for path in ("/graphql", "/mcp", "/streams/MonitoringGroup"):
        for encoding in ("gzip", "br", "GZIP"):
            headers = {"content-encoding": encoding, "content-type": "application/json", "accept": "application/json"}
            answer = client.post(path, content=body, headers=headers)
            if path.startswith("/streams"):
                assert answer.status_code in (404, 409, 415)
                continue
            assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity"), path
            assert encoding.lower() in answer.text
    plain = client.post(
        "/graphql", json={"query": "{ things(limit: 1) { id } }"}, headers={"content-encoding": "identity"}
    )
    assert plain.json()["data"] == {"things": [{"id": 1}]}


def test_times_are_written_as_the_standard_allows(client: TestClient) -> None:
    for text, found in (
        ("2020-01-01t12:00:00.000005z", [1]),
        ("2020-01-01T12:00:00.000005000Z", [1]),
        ("2020-01-01T12:00:00Z", []),
    ):
        query = f'{{ things(filter: {{at: {{eq: "{text}"}}}}) {{ id }} }}'
        assert client.post("/graphql", json={"query": query}).json()["data"]["things"] == [{"id": n} for n in found], (
            text
        )
        assert client.get("/rest/things", params={"at": f"eq.{text}", "select": "id"}).json() == [
            {"id": n} for n in found
        ]
    fine = client.get("/rest/things", params={"at": "gt.2020-01-01T12:00:00.0000051Z"})
    assert (fine.status_code, fine.json()["code"]) == (400, "B8003")


def test_odd_requests_are_answered_in_the_form_of_the_api(client: TestClient) -> None:
    for method, path in (
        ("GET", "/rest/things/"),
        ("POST", "/graphql/"),
        ("GET", "/nowhere/"),
        ("PROPFIND", "/status"),
    ):
        answer = client.request(method, path)
        assert answer.status_code != 501, path
        assert "json" in answer.headers["content-type"], (path, answer.text)
        assert "location" not in answer.headers
    for query in (
        "limit=x",
        "limit=1_0",
        "offset=٥",
        "as_of=1_0",
        "small=eq.1_0",
        "big=eq.5.0",
        "at=gt.now",
        "day=eq.20200101",
        "raw=eq.0",
    ):
        answer = client.get(f"/rest/things?{query}")
        assert answer.status_code == 400, query
        assert "invalid literal" not in answer.text, query
        assert "Traceback" not in answer.text


def connected(client: TestClient, token: str, **more: Any) -> Any:
    return client.websocket_connect("/graphql", [PROTOCOL], headers={"authorization": f"Bearer {token}"}, **more)


def test_a_websocket_is_closed_when_its_token_is_over() -> None:
    """`graphql-ws` asks for a new token where the server closes by 4403; kept open, it was refused every operation."""
    catalog, settings = compile_script(SCRIPT).catalog, ServerSettings(tokens=TokenRules(SECRET, leeway=0))
    with TestClient(Application(catalog, MemoryReader, settings)) as client:
        started = time.time()
        ends = int(started) + 2
        with connected(client, signed({"exp": ends})) as socket:
            socket.send_json({"type": "connection_init"})
            assert socket.receive_json() == {"type": "connection_ack"}
            text = "subscription { told(after: 0) { price } }"
            for name in ("one", "two"):
                socket.send_json({"type": "subscribe", "id": name, "payload": {"query": text}})
            found = []
            with pytest.raises(WebSocketDisconnect) as closed:  # noqa: PT012 - what comes before is received
                while True:
                    found.append(socket.receive_json())
            assert closed.value.code == 4403
            assert time.time() >= ends
            said = {m["id"]: m for m in found if m["type"] in ("error", "complete")}
            assert set(said) == {"one", "two"}, "each subscription ends before"
        with connected(client, signed({"exp": ends + 100})) as socket:
            socket.send_json({"type": "connection_init"})
            assert socket.receive_json() == {"type": "connection_ack"}


def test_a_token_that_counts_no_more_closes_the_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(example.catalog(), MemoryReader, ServerSettings(tokens=TokenRules(SECRET)))
    with TestClient(application) as client, connected(client, signed({"sub": "ann"})) as socket:
        socket.send_json({"type": "connection_init"})
        assert socket.receive_json() == {"type": "connection_ack"}
        monkeypatch.setattr(application._gate, "_caller", lambda given: None)
        socket.send_json({"type": "subscribe", "id": "1", "payload": {"query": "{ things { id } }"}})
        assert socket.receive_json()["payload"][0]["extensions"]["code"] == "B8008"
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
        assert closed.value.code == 4403


def test_query_templates_are_called_as_functions(client: TestClient) -> None:
    """As `rpc()` of PostgREST's clients does, by GET and by POST."""
    right = [{"id": 4, "small": 7, "name": "ärger"}]
    got = client.get("/rest/rpc/thingsNamed", params={"least": "5", "name": "ärger"})
    assert (got.status_code, got.json()) == (200, right)
    for name in ("thingsNamed", "ThingsNamed"):
        posted = client.post(f"/rest/rpc/{name}", json={"least": 5, "name": "ärger"}, headers={"prefer": "count=exact"})
        assert posted.json() == right, posted.text
        assert posted.headers["content-range"] == "0-0/1"
    posted = client.post("/rest/rpc/thingsNamed?select=id&limit=1", json={"least": "5", "name": "ärger"})
    assert posted.json() == [{"id": 4}]
    assert client.head("/rest/rpc/thingsNamed", params={"least": "5", "name": "ärger"}).status_code == 200
    for path, body, status in (
        ("/rest/rpc/thingsNamed", {"least": 5}, 400),
        ("/rest/rpc/thingsNamed", {"least": 5, "name": "a", "other": 1}, 400),
        ("/rest/rpc/thingsNamed", {"least": 5, "name": ["a"]}, 400),
        ("/rest/rpc/thingsNamed", {"least": 2**31, "name": "a"}, 400),
        ("/rest/rpc/thingsNamed", {"least": "1_0", "name": "a"}, 400),
        ("/rest/rpc/thingsNamed", {"least": 5, "name": "\ud800"}, 400),
        ("/rest/rpc/thingsNamed", [1], 400),
        ("/rest/rpc/things", {}, 404),
        ("/rest/rpc/nothing", {}, 404),
        ("/rest/rpc", {}, 405),
        ("/rest/things", {}, 405),
        ("/rest/things/1", {}, 405),
    ):
        refused = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert refused.status_code == status, (path, body, refused.text)
        assert refused.json()["code"].startswith("B80")
    assert client.post("/rest/rpc/thingsNamed", content=b"x", headers={"content-type": "text/plain"}).status_code == 415


def test_the_default_schema_may_be_named(client: TestClient) -> None:
    for header in ("accept-profile", "content-profile"):
        assert client.get("/rest/things?limit=1", headers={header: "public"}).status_code == 200
        refused = client.get("/rest/things", headers={header: "private"})
        assert (refused.status_code, refused.json()["code"]) == (406, "B8007")
        assert "private" in refused.json()["message"]
