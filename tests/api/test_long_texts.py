"""64-bit integers as strings on request: the same everywhere, by a request's preference or by the project file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import api_example as example
import jsonschema
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.http.application import Application
from belvedere.api.live.websockets import PROTOCOL
from belvedere.api.serving.processes import server_settings

TEXT = {"prefer": "longs=text"}
QUERY = """{
  things(limit: 2, order: [{id: ASC}]) { id small x: big ratio price info { a b } __typename }
  thingsByKey(id: 1) { total: big }
  thingsPage(first: 1) { nodes { id } totalCount t: totalCount hasNextPage }
  thingsAggregate { count countOf { big } max { big small } sum { small big } by { small } }
  monitoringGroup(filter: {groupid: {eq: 502}}) { groupid machines { machineId } machinesPage(first: 1) { nodes {
      machineId } } }
}"""
RIGHT = {
    "things": [
        {
            "id": "1",
            "small": -5,
            "x": str(2**62),
            "ratio": 0.1 + 0.2,
            "price": "12.30",
            "info": {"a": "1", "b": 2.5},
            "__typename": "Things",
        },
        {"id": "2", "small": None, "x": None, "ratio": None, "price": None, "info": None, "__typename": "Things"},
    ],
    "thingsByKey": {"total": str(2**62)},
    "thingsPage": {"nodes": [{"id": "1"}], "totalCount": "5", "t": "5", "hasNextPage": True},
    "monitoringGroup": [
        {
            "groupid": 502,
            "machines": [{"machineId": str(2**60)}],
            "machinesPage": {"nodes": [{"machineId": str(2**60)}]},
        }
    ],
}


def client_of(**settings: Any) -> TestClient:
    return TestClient(
        Application(example.catalog(), MemoryReader, server_settings("127.0.0.1", settings)),
        base_url="http://localhost",
    )


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of() as made:
        yield made


def numbers(value: Any) -> list[int]:
    """All whole numbers in an answer."""
    if isinstance(value, dict | list):
        return [n for v in (value.values() if isinstance(value, dict) else value) for n in numbers(v)]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


def test_graphql(client: TestClient) -> None:
    for _ in range(2):  # a plan that is kept serves both
        plain = client.post("/graphql", json={"query": QUERY}).json()["data"]
        assert plain["things"][0]["x"] == 2**62
        reported = client.post("/graphql", json={"query": QUERY}, headers=TEXT).json()["data"]
        assert {n: reported[n] for n in RIGHT} == RIGHT
        (none,) = [g for g in reported["thingsAggregate"] if g["by"]["small"] == -5]
        assert none == {
            "count": "1",
            "countOf": {"big": "1"},
            "max": {"big": str(2**62), "small": -5},
            "sum": {"small": "-5", "big": str(2**62)},
            "by": {"small": -5},
        }
        assert max(map(abs, numbers(reported))) < 2**31
    get = {"query": "{ thingsByKey(id: 1) { big } }"}
    tags = [client.get("/graphql", params=get, headers=h).headers["etag"] for h in ({}, TEXT)]
    assert tags[0] != tags[1]
    assert "Prefer" in client.get("/graphql", params=get).headers["vary"]
    assert client.get("/graphql", params=get, headers=TEXT | {"if-none-match": tags[0]}).status_code == 200


def test_what_is_told_as_text_is_taken_as_text(client: TestClient) -> None:
    query = "query($big: Long!) { things(filter: {big: {eq: $big}}) { id big } }"
    asked = {"query": query, "variables": {"big": RIGHT["thingsByKey"]["total"]}}  # type: ignore[index]
    assert client.post("/graphql", json=asked, headers=TEXT).json()["data"]["things"] == [
        {"id": "1", "big": str(2**62)}
    ]


def test_rest(client: TestClient) -> None:
    assert client.get("/rest/things/1?select=id,total:big,info,tags", headers=TEXT).json() == {
        "id": "1", "total": str(2**62), "info": {"a": "1", "b": 2.5}, "tags": ["a", None, 'q"'],
    }  # fmt: skip
    counted = client.get("/rest/things?select=id&limit=2", headers={"prefer": "count=exact, longs=text"})
    assert (counted.json(), counted.headers["content-range"]) == ([{"id": "1"}, {"id": "2"}], "0-1/5")
    assert client.get("/rest/monitoringGroup?groupid=eq.502&select=machines(machineId)", headers=TEXT).json() == [
        {"machines": [{"machineId": str(2**60)}]}
    ]
    table = client.get("/rest/things?select=big&limit=1", headers=TEXT | {"accept": "text/csv"}).text
    assert table.split() == ["big", str(2**62)]


def test_streams_and_tools(client: TestClient) -> None:
    with client.websocket_connect("/graphql", [PROTOCOL], headers={"host": "localhost"}) as socket:
        socket.send_json({"type": "connection_init", "payload": {"longs": "text"}})
        assert socket.receive_json() == {"type": "connection_ack"}
        for kind in ("query", "subscription"):
            query = f"{kind} {{ thingsByKey(id: 1) {{ big }} }}"
            socket.send_json({"type": "subscribe", "id": kind, "payload": {"query": query}})
            assert socket.receive_json()["payload"]["data"] == {"thingsByKey": {"big": str(2**62)}}
            if kind == "query":
                assert socket.receive_json()["type"] == "complete"
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}

    def call(method: str, **parameters: Any) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        return client.post("/mcp", json=asked, headers=headers | TEXT).json()["result"]

    tools = {t["name"]: t for t in call("tools/list")["tools"]}
    reported = call("tools/call", name="query_view", arguments={"view": "Things", "columns": ["id", "big"], "limit": 1})
    assert reported["structuredContent"]["rows"] == [{"id": "1", "big": str(2**62)}]
    named = call("tools/call", name="thingsNamed", arguments={"least": 5, "name": "ab"})["structuredContent"]
    assert named["rows"] == [{"id": "5", "small": 7, "name": "ab"}]
    jsonschema.validate(named, tools["thingsNamed"]["outputSchema"])


def test_the_project_says_it_once() -> None:
    with client_of(longs="text") as client:
        assert client.get("/rest/things/1?select=big").json() == {"big": str(2**62)}
        assert client.get("/rest/things/1?select=big", headers={"prefer": "longs=number"}).json() == {"big": 2**62}
        assert client.post("/graphql", json={"query": "{ thingsByKey(id: 1) { big } }"}).json()["data"]["thingsByKey"][
            "big"
        ] == str(2**62)
        schema = client.get("/openapi.json").json()["components"]["schemas"]["Things"]["properties"]
        assert schema["big"] == {"type": ["string", "null"], "format": "int64"}
        assert schema["small"]["type"] == ["integer", "null"]
        jsonschema.validate(json.loads(client.get("/rest/things/1").text)["big"], schema["big"])
