"""Each address once, as it is described, without what is optional, for every kind of subscription: none is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from belvedere.api.http.application import Application
from belvedere.compiler import compile_script
from belvedere.connectors.exporting.event_files import json_lines
from belvedere.store import EpochRow, StoredTable, open_reader, open_store
from belvedere.store.dialects.nested_json import from_json, plain_values

SCRIPT = """
CREATE TABLE T (id INT NOT NULL, k INT, place STRUCT<label: STRING, `a name`: STRUCT<x: DOUBLE>>,
    odd STRUCT<`"q"`: INT>,
                tags ARRAY<STRING>, sizes MAP<STRING, INT>, PRIMARY KEY (id));
CREATE SUBSCRIPTION Added ON ADD AS SELECT * FROM T;
CREATE SUBSCRIPTION Changed ON CHANGE AS SELECT * FROM T;
CREATE SUBSCRIPTION Removed ON DELETE AS SELECT * FROM T;
Quick := SUBSCRIBE SELECT id, place FROM T;
Chosen(k INT) := SUBSCRIBE SELECT * FROM T WHERE k = :k;
Needed(k INT NOT NULL, least INT = 1) := SUBSCRIBE SELECT id, k, place FROM T WHERE k = :k AND id = :least;
CREATE SUBSCRIPTION Of(k INT NOT NULL) ON CHANGE AS SELECT * FROM T WHERE k = :k;
CREATE SUBSCRIPTION Gone(k INT) ON DELETE AS SELECT k FROM T WHERE k = :k;
Named(least INT = 0) := SELECT * FROM T WHERE id >= :least;
"""
CATALOG = compile_script(SCRIPT).catalog
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
ROW = {
    "id": 1,
    "k": 7,
    "place": {"label": "hére", "a name": {"x": 1.5}},
    "odd": {'"q"': 2},
    "tags": ["a", None],
    "sizes": [("s", 1)],
}
OLD = ROW | {"place": None, "k": None}
EVENTS = ("Added", "Changed", "Removed", "Quick", "Chosen", "Needed", "Of", "Gone")


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder: Path = tmp_path_factory.mktemp("routes")
    store = open_store(f"sqlite:///{folder / 's.db'}")
    tables = {i: StoredTable(i, CATALOG.schema_of(i), fingerprint="test") for i in CATALOG.public}
    store.create(list(tables.values()))
    store.acquire("test", 600)
    transaction = store.begin()
    beside = {"_uid": 1, "_ingest_time": NOON, "_op": "ADD", "_event_time": NOON, "_seq": 1, "_old": OLD, "_key": "1"}
    for id_, table in tables.items():
        row = {c: (ROW | beside).get(c) for c in table.arrow.names}
        transaction.append(id_, pa.Table.from_pylist([row], table.arrow).to_reader())
    transaction.commit(EpochRow(1, NOON, extra={"sequences": dict.fromkeys(EVENTS, 1)}))
    store.release("test")
    store.close()
    url = f"sqlite:///{folder / 's.db'}"
    return Application(CATALOG, lambda: open_reader(url), open_whole=lambda: open_reader(url))


@pytest.fixture(scope="module")
def client(application: Application) -> Iterator[TestClient]:
    with TestClient(application) as made:
        yield made


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One loop, as in a serving process: streams share their reads."""
    with asyncio.Runner() as made:
        yield made


def streamed(
    runner: asyncio.Runner, application: Application, path: str, query: str, until: bytes
) -> tuple[int, bytes]:
    """The status of an endless answer, and what it tells until something."""

    async def run() -> tuple[int, bytes]:
        reported, status, enough, asked = bytearray(), [0], asyncio.Event(), [False]

        async def send(message: Any) -> None:
            status[0] = message.get("status", status[0])
            reported.extend(message.get("body", b""))
            if until in reported or (message["type"] == "http.response.body" and not message.get("more_body")):
                enough.set()

        async def receive() -> Any:
            if asked[0]:
                await asyncio.sleep(60)
            asked[0] = True
            return {"type": "http.request", "body": b""}

        scope = {
            **{
                "type": "http",
                "method": "GET",
                "path": path,
                "raw_path": path.encode(),
                "query_string": query.encode(),
            },
            **{"headers": [(b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "root_path": ""},
        }
        answering = asyncio.ensure_future(application(scope, receive, send))
        await asyncio.wait_for(enough.wait(), 20)
        answering.cancel()
        return status[0], bytes(reported)

    return runner.run(run())


def needed(operation: Any) -> dict[str, str]:
    """The arguments that an operation must have."""
    values = {"integer": "7", "string": "7"}
    return {
        p["name"]: values[p["schema"]["type"]]
        for p in operation.get("parameters", [])
        if p.get("required") and p["in"] == "query"
    }


def test_what_openapi_describes(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {f"/rest/{n[0].lower()}{n[1:]}" for n in EVENTS} <= set(paths)
    for path, methods in paths.items():
        for method, operation in methods.items():
            address = path.replace("{id}", "1").replace("{_seq}", "1")
            answer = client.request(method, address, params=needed(operation))
            assert answer.status_code in ((200,) if not address.endswith("/why") else (200, 400, 404)), (
                path,
                answer.text,
            )


def test_every_other_address(runner: asyncio.Runner, application: Application, client: TestClient) -> None:
    for route in application.routes:
        if "GET" not in (getattr(route, "methods", None) or ()) or route.path in (
            "/status/events",
            "/streams/{name}/events",
        ):
            continue
        answer = client.get(route.path.replace("{id:path}", "Changed"))
        assert answer.status_code == 200, (route.path, answer.text)
    assert streamed(runner, application, "/status/events", "", b"data: ")[0] == 200


@pytest.mark.parametrize("name", EVENTS)
def test_the_events_of_each_kind_of_subscription(
    runner: asyncio.Runner, application: Application, client: TestClient, name: str
) -> None:
    needs = "k=7" if name in ("Chosen", "Needed", "Of", "Gone") else ""
    status, reported = streamed(runner, application, f"/streams/{name}/events", needs, b":\n\n")
    assert (status, reported) == (200, b"retry: 1000\n\n:\n\n")
    query = "&".join(filter(None, ("after=0", needs)))
    status, reported = streamed(runner, application, f"/streams/{name}/events", query, b"data: ")
    event = json.loads(reported.partition(b"data: ")[2].partition(b"\n")[0])
    assert (status, event["_seq"]) == (200, 1)
    schema = CATALOG.schema_of(name)
    for column in schema.visible:
        if column.name in ROW or column.name == "_old":
            given = OLD if column.name == "_old" else ROW[column.name]
            assert event[column.name] == plain_values(pa.array([given], column.type))[0], column.name
    if needs:
        refused = client.get(f"/streams/{name}/events")
        assert (refused.status_code, refused.json()["code"]) == (400, "B8003")
        assert "`k`" in refused.json()["message"] + refused.json().get("hint", "")


def test_objects_come_out_as_they_went_in(client: TestClient) -> None:
    """MAP and STRUCT in GraphQL, REST, tools and exports; OpenAPI has their members."""
    right = {"place": ROW["place"], "odd": ROW["odd"], "tags": ROW["tags"], "sizes": {"s": 1}}
    assert client.get("/rest/t/1?select=place,odd,tags,sizes").json() == right
    query = "{ t { sizes tags odd place { label a_name { x } } } }"
    (row,) = client.post("/graphql", json={"query": query}).json()["data"]["t"]
    assert row == {**right, "place": {"label": "hére", "a_name": {"x": 1.5}}}
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "query_view", "arguments": {"view": "T"}},
    }
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    (reported,) = client.post("/mcp", json=asked, headers=headers).json()["result"]["structuredContent"]["rows"]
    assert {n: reported[n] for n in row} == row
    table = CATALOG.schema_of("T").arrow
    made = pa.Table.from_pylist([{n: ROW.get(n) for n in table.names}], table).select(["place", "odd", "tags", "sizes"])
    assert json.loads(json_lines(made)[0]) == right
    assert plain_values(from_json(pa.array(['[["s",1]]', '{"s":1}', None]), table.field("sizes").type)) == [
        {"s": 1},
        {"s": 1},
        None,
    ]
    numbered = pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64()))})
    assert json.loads(json_lines(numbered)[0]) == {"m": [[1, 2]]}
    schemas = client.get("/openapi.json").json()["components"]["schemas"]["T"]["properties"]
    assert schemas["place"]["properties"]["label"] == {"type": ["string", "null"]}
    assert schemas["place"]["properties"]["a name"]["properties"]["x"]["anyOf"][0] == {
        "type": "number",
        "format": "double",
    }
    assert schemas["sizes"]["additionalProperties"]["type"] == ["integer", "null"]
    assert schemas["tags"]["items"] == {"type": ["string", "null"]}
    for name, schema in schemas.items():
        if name in right:
            jsonschema.validate(right[name], schema)
