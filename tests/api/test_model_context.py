"""`/mcp` by the SDK's own client: the tools, what they answer, who may call them, and how mistakes are told."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Awaitable, Callable
from typing import Any

import api_example as example
import jsonschema
import pytest
from api_reader import MemoryReader
from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.agents import mcp_server
from belvedere.api.http.application import Application
from belvedere.api.serving.processes import Serving, start_api
from belvedere.compiler import compile_script

CATALOG = example.catalog()
ASKED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
Talk = Callable[[Client], Awaitable[None]]


def talk(serving: Serving, said: Talk, token: str | None = None, mode: Any = "auto") -> None:
    async def run() -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"{serving.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                await said(client)

    asyncio.run(run())


async def reported(client: Client, name: str, /, **arguments: Any) -> Any:
    """What a tool answers; its text says the same as its structured content."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def failure(client: Client, name: str, /, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


@pytest.fixture(params=["sqlite_file", pytest.param("postgres_store", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.mark.smoke("way MCP")
def test_an_agent_finds_its_way(url: str) -> None:
    async def said(client: Client) -> None:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        assert list(tools) == ["list_views", "describe_view", "query_view", "why_row", "why_not", "thingsNamed"]
        assert all(t.annotations is not None and t.annotations.read_only_hint for t in tools.values())
        views = (await reported(client, "list_views"))["views"]
        assert {v["name"] for v in views} == {
            "MonitoringGroup", "MonitoringGroup.machines", "MonitoringGroup.hourReading", "Things",
        }  # fmt: skip
        assert views[0]["description"] == "Groups of machines."
        assert views[0]["columns"] == ["groupid", "groupName"]
        group = await reported(client, "describe_view", view="monitoringgroup")
        assert group["key"] == ["groupid"]
        assert {r["name"]: r["many"] for r in group["related"]} == {
            "machines": True, "hourReading": True, "lastHour": False, "lastHours": True, "warmHours": True,
        }  # fmt: skip
        assert group["columns"][1] == {"name": "groupName", "type": "String", "description": "What people call it."}
        jsonschema.Draft202012Validator.check_schema(group["filter"])
        rows = await reported(
            client,
            "query_view",
            view="MonitoringGroup",
            columns=["groupName", "machines.machineName", "machines.machineId", "lastHour.max_temp"],
            filter={"groupid": {"lte": 502}},
            order=[{"groupid": "DESC"}],
            limit=1,
            offset=1,
        )
        machines = [{"machineName": "Mill Saw", "machineId": 1075}, {"machineName": "Wood Grinder", "machineId": 1098}]
        assert rows["rows"] == [
            {"groupName": "Wenatchee Factory", "machines": machines, "lastHour": {"max_temp": 30.5}}
        ]
        assert (rows["epoch"], rows["asOf"]) == (7, "2020-01-01T12:00:00Z")
        everything = (await reported(client, "query_view", view="Things"))["rows"]
        assert len(everything) == 5
        assert (everything[0]["name"], everything[0]["wide"]) == ("Ärger", "-12345678901234567890123456789.125")
        assert "_secret" not in everything[0]
        jsonschema.validate({"least": 0, "name": "ärger"}, tools["thingsNamed"].input_schema)
        why = await reported(client, "why_row", view="MonitoringGroup", key={"groupid": 501})
        assert (why["row"]["groupName"], why["sql"], why["reads"]) == ("Wenatchee Factory", "", [])
        lost = (
            await reported(client, "why_not", view="MonitoringGroup", filter={"groupName": {"eq": "wenatchee factory"}})
        )["lost"]
        assert [(x["view"], x["at"], x["near"][0]["count"]) for x in lost] == [("MonitoringGroup", "input", 1)]
        assert (await reported(client, "thingsNamed", least=0, name="ärger"))["rows"] == [
            {"id": 4, "small": 7, "name": "ärger"}
        ]

    with start_api(CATALOG, url, processes=2) as serving:
        serving.wait_until_listening()
        for mode in ("auto", "legacy"):
            talk(serving, said, mode=mode)


def test_mistakes_are_told(sqlite_file: str) -> None:
    async def said(client: Client) -> None:
        for expected, name, arguments in (
            ("B8007: there is no tool", "query_views", {"view": "Things"}),
            ("`Things`", "query_view", {"view": "Thing"}),
            ("`columns` must be a list", "query_view", {"view": "Things", "columns": []}),
            ("is not a column", "query_view", {"view": "Things", "columns": ["id } things { id"]}),
            ("B8002", "query_view", {"view": "Things", "columns": ["_secret"]}),
            ("B8002", "query_view", {"view": "MonitoringGroup", "columns": ["machines"]}),
            ("B8003", "query_view", {"view": "Things", "filter": {"id": {"like": "x"}}}),
            ("B8003", "query_view", {"view": "Things", "limit": "many"}),
            ("B8004", "query_view", {"view": "Things", "limit": 1_000_000}),
            ("has no argument `where`", "query_view", {"view": "Things", "where": "1 = 1"}),
            ("has no argument `where`", "query_view", {"view": "Things", "arguments": {"where": 1}}),
            ("`arguments` must be", "query_view", {"view": "Things", "arguments": [1]}),
            ("`view` must be the name", "describe_view", {}),
            ("no view", "describe_view", {"view": "_Private"}),
            ("B8003", "thingsNamed", {"least": "x", "name": "a"}),
            ("B8002", "thingsNamed", {"least": 1}),
            ("has no argument", "list_views", {"view": "Things"}),
        ):
            assert expected in await failure(client, name, **arguments), (name, arguments)

    with start_api(CATALOG, sqlite_file, processes=1) as serving:
        serving.wait_until_listening()
        talk(serving, said)


SCRIPT = """
CREATE TABLE Orders (id BIGINT, customer STRING, price DECIMAL(10, 2), PRIMARY KEY (id));
/** The orders of the caller. */
Mine(customer STRING METADATA FROM 'auth.sub', least DECIMAL(10, 2) = 0) := SELECT id, price FROM Orders
WHERE customer = :customer AND price >= :least;
list_views(customer STRING) := SELECT id FROM Orders WHERE customer = :customer;
"""


def posted(client: TestClient, method: str, parameters: Any, **headers: str) -> Any:
    answer = client.post("/mcp", json={**ASKED, "method": method, "params": parameters}, headers={**HEADERS, **headers})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def test_arguments_have_types_and_names_of_tools_are_one() -> None:
    client = TestClient(Application(compile_script(SCRIPT).catalog, MemoryReader))
    tools = {t["name"]: t for t in posted(client, "tools/list", {})["tools"]}
    assert set(tools) == {
        "list_views",
        "describe_view",
        "query_view",
        "why_row",
        "why_not",
        "mine",
        "list_views_template",
    }
    mine = tools["mine"]
    assert mine["description"].startswith("The orders of the caller.")
    assert set(mine["inputSchema"]["properties"]) == {"least", "limit", "offset"}, (
        "the caller's token says the customer"
    )
    assert mine["inputSchema"]["properties"]["least"]["type"] == "string"
    assert tools["list_views_template"]["inputSchema"]["required"] == ["customer"]
    reported = posted(client, "tools/call", {"name": "mine", "arguments": {}})
    assert reported["isError"]
    assert reported["content"][0]["text"].startswith("B8036")


def test_who_may_call() -> None:
    application = Application(CATALOG, MemoryReader, ServerSettings(token="s3cret", hosts=frozenset({"localhost"})))
    client = TestClient(application, base_url="http://localhost")
    assert client.post("/mcp", json=ASKED, headers=HEADERS).status_code == 401
    bearer = {"authorization": "Bearer s3cret"}
    assert posted(client, "tools/list", {}, **bearer)["tools"]
    for wrong, status in (({"origin": "https://evil.example"}, 403), ({"host": "evil.example"}, 421)):
        assert client.post("/mcp", json=ASKED, headers={**HEADERS, **bearer, **wrong}).status_code == status
    for method in ("GET", "DELETE", "PUT"):
        answer = client.request(method, "/mcp", headers={**HEADERS, **bearer})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_request_has_limits() -> None:
    client = TestClient(Application(CATALOG, MemoryReader))
    assert client.post("/mcp", content=b"x" * 200_000, headers=HEADERS).status_code == 413
    for body in ("x", "[]", "{}", "[" * 50_000, '{"jsonrpc": "2.0"}', json.dumps({**ASKED, "method": "nothing"})):
        answer = client.post("/mcp", content=body, headers={**HEADERS, "content-type": "application/json"})
        assert answer.status_code < 500, (body[:50], answer.text)
        assert "Traceback" not in answer.text


def test_long_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(Application(CATALOG, MemoryReader))
    asked = {"name": "query_view", "arguments": {"view": "Things", "limit": 1, "columns": ["id"]}}
    assert posted(client, "tools/call", asked)["structuredContent"]["rows"] == [{"id": 1}]
    monkeypatch.setattr(mcp_server, "MAX_BYTES", 20)
    assert posted(client, "tools/call", asked)["content"][0]["text"].startswith("B8004")


def test_before_the_first_epoch() -> None:
    client = TestClient(Application(CATALOG, lambda: MemoryReader(committed=False)))
    reported = posted(client, "tools/call", {"name": "query_view", "arguments": {"view": "Things"}})
    assert "B8005" in reported["content"][0]["text"]
    assert posted(client, "tools/call", {"name": "list_views"})["structuredContent"]["views"]


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = TestClient(Application(CATALOG, MemoryReader)).post("/mcp", json=ASKED, headers=HEADERS)
    assert answer.status_code == 404
    assert "belvedere[mcp]" in answer.json()["hint"]
