"""Real clients against one script with all types: Apollo, urql, graphql-ws, codegen, gql, postgrest, MCP.

Python says what is right. The clients of JavaScript are a node project with a lock file, those of Python have packages
of held versions; each are run once by one process. The store is written by hand, so that no Spark is needed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcp import Client

from belvedere.api.graphql.type_policies import type_policies
from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import model_of
from belvedere.api.serving.processes import start_api
from belvedere.compiler import compile_script
from belvedere.store import EpochRow, StoredTable, open_store
from tests.api.node_clients import install
from tests.clients.python_clients import told_by_python

SCRIPT = """
/** What is sold. */
CREATE TABLE Items (id BIGINT NOT NULL, name STRING, flag BOOLEAN, small INT, ratio DOUBLE, price DECIMAL(20,2),
    at TIMESTAMP, day DATE,
                    raw BINARY, tags ARRAY<STRING>, place STRUCT<label: STRING, big: BIGINT>, sizes MAP<STRING, BIGINT>,
                    `true` INT, PRIMARY KEY (id));
CREATE TABLE Bids (item BIGINT, price INT, id INT);
Dear := SELECT id, name FROM Items WHERE price > 1000;
Items.bids := JOIN Bids b ON b.item = _.id ORDER BY b.price;
ItemsOf(name STRING) := SELECT * FROM Items WHERE name = :name;
"""
CATALOG = compile_script(SCRIPT).catalog
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
ODD = 2**53 + 1
"""A key that JavaScript takes for its neighbour."""
ITEMS: list[dict[str, Any]] = [
    {
        **{
            "id": 1,
            "name": "anvil",
            "flag": True,
            "small": -5,
            "ratio": 0.1,
            "price": Decimal("12.30"),
            "at": NOON + timedelta(microseconds=5),
        },
        **{"day": date(2020, 2, 29), "raw": b"\x00\xff", "tags": ["a", None], "place": {"label": "hére", "big": ODD}},
        **{"sizes": [("s", ODD)], "true": 7},
    },
    {"id": 2, "name": "bell"},
    {"id": ODD - 1, "name": "not this one"},
    {"id": ODD, "name": "bell"},
]
BIDS = [{"item": 1, "price": 3, "id": 1}, {"item": 1, "price": 4, "id": 1}, {"item": 2, "price": 5, "id": 1}]
ITEM = "id name flag small ratio price at day raw tags place { label big } sizes true bids { price }"
QUERY = f"{{ items(order: [{{id: ASC}}]) {{ {ITEM} }} }}"
BY_KEY = "query($id: Long!) { itemsByKey(id: $id) { id name } }"
AGGREGATES = "{ bids(order: [{price: ASC}]) { id price } bidsAggregate { count by { id item } max { id price } } }"
PARTS = "nodes { id } endCursor startCursor hasPreviousPage hasNextPage"
PAGE = f"query($first: Int, $after: Cursor) {{ itemsPage(first: $first, after: $after) {{ {PARTS} }} }}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("clients")
    store = open_store(f"sqlite:///{folder / 's.db'}")
    tables = {i: StoredTable(i, CATALOG.schema_of(i), fingerprint="test") for i in CATALOG.public}
    store.create(list(tables.values()))
    store.acquire("test", 600)
    transaction = store.begin()
    for name, given in {"Items": ITEMS, "Bids": BIDS}.items():
        table = tables[name]
        beside = ({"_uid": n, "_ingest_time": NOON, "_key": str(n)} | r for n, r in enumerate(given))
        rows = [{c: r.get(c) for c in table.arrow.names} for r in beside]
        transaction.append(name, pa.Table.from_pylist(rows, table.arrow).to_reader())
    transaction.commit(EpochRow(1, NOON))
    store.release("test")
    store.close()
    api = start_api(CATALOG, f"sqlite:///{folder / 's.db'}", 0, processes=1)
    api.wait_until_listening()
    yield api.url
    api.close()


@pytest.fixture(scope="module")
def reported(url: str) -> dict[str, Any]:
    """What each client of JavaScript was told."""
    folder, model = install(Path(__file__).parent / "node"), model_of(CATALOG)
    given = {"url": url, "policies": type_policies(model, schema_of(model, Limits()))}
    given |= {"query": QUERY, "by_key": BY_KEY, "aggregates": AGGREGATES, "page": PAGE}
    run = subprocess.run(
        ["node", str(folder / "clients.mjs")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return dict(json.loads(line) for line in run.stdout.splitlines())


def item(row: dict[str, Any]) -> dict[str, Any]:
    """An item as a client with texts for whole numbers of 64 bits has it."""
    found = {c: row.get(c) for c in ("name", "flag", "small", "ratio", "tags", "true")} | {"id": str(row["id"])}
    place, at, sizes = row.get("place"), row.get("at"), row.get("sizes")
    return found | {
        "price": None if row.get("price") is None else str(row["price"]),
        "at": None if at is None else at.isoformat().replace("+00:00", "Z"),
        "day": None if row.get("day") is None else row["day"].isoformat(),
        "raw": None if row.get("raw") is None else row["raw"].hex(),
        "place": None if place is None else {"label": place["label"], "big": str(place["big"])},
        "sizes": None if sizes is None else {k: str(v) for k, v in sizes},
        "bids": [{"price": b["price"]} for b in BIDS if b["item"] == row["id"]],
    }


def plain(value: Any) -> Any:
    """A value without the names of types that a cache has asked for."""
    if isinstance(value, dict):
        return {n: plain(v) for n, v in value.items() if n != "__typename"}
    return [plain(v) for v in value] if isinstance(value, list) else value


RIGHT = {"items": [item(r) for r in ITEMS]}
ONE = {"itemsByKey": {"id": "2", "name": "bell"}}
GROUPS: dict[str, Any] = {
    "bids": [{"id": b["id"], "price": b["price"]} for b in BIDS],
    "bidsAggregate": [
        {"count": "2", "by": {"id": 1, "item": "1"}, "max": {"id": 1, "price": 4}},
        {"count": "1", "by": {"id": 1, "item": "2"}, "max": {"id": 1, "price": 5}},
    ],
}
pytestmark = pytest.mark.timeout(180)


@pytest.mark.node
def test_apollo(reported: dict[str, Any]) -> None:
    """Its cache tells apart what has no identity: bids of one `id`, groups of one `id`."""
    found = plain(reported["apollo"])
    assert "failed" not in found, found
    assert found["rows"] == RIGHT
    assert found["one"] == ONE
    assert sorted(found["groups"]["bidsAggregate"], key=str) == sorted(GROUPS["bidsAggregate"], key=str)
    assert found["groups"]["bids"] == GROUPS["bids"]
    assert found["page"] == [str(r["id"]) for r in ITEMS]


@pytest.mark.node
def test_urql(reported: dict[str, Any]) -> None:
    rows, groups, one = plain(reported["urql"])
    assert rows == RIGHT
    assert groups["bids"] == GROUPS["bids"]
    assert one == {"itemsByKey": {"id": "1", "name": "anvil"}}


@pytest.mark.node
def test_graphql_ws(reported: dict[str, Any]) -> None:
    assert reported["graphql-ws"] == RIGHT


@pytest.mark.node
def test_codegen(reported: dict[str, Any]) -> None:
    """What it makes of the schema compiles, whatever columns are called."""
    assert reported["codegen"] == {"lines": True, "wrong": []}


@pytest.mark.node
def test_postgrest(reported: dict[str, Any]) -> None:
    assert reported["postgrest"] == {
        "list": [{"id": "2", "name": "bell", "sizes": None}, {"id": str(ODD), "name": "bell", "sizes": None}],
        "single": {"id": str(ODD)},
        "counted": {"data": [{"id": "1"}, {"id": "2"}], "count": 4},
        "related": [{"name": "anvil", "bids": [{"price": 3}, {"price": 4}]}],
        "posted": [{"id": "2"}, {"id": str(ODD)}],
        "got": [{"id": "2"}],
    }


@pytest.fixture(scope="module")
def told_in_python(url: str) -> dict[str, Any]:
    """What each client of Python was told."""
    return told_by_python({"url": url, "query": QUERY, "by_key": BY_KEY, "aggregates": AGGREGATES})


def test_gql(told_in_python: dict[str, Any]) -> None:
    found = told_in_python["gql"]
    assert "failed" not in found, found["failed"]
    assert found["rows"] == RIGHT
    assert found["one"] == {"itemsByKey": {"id": str(ODD), "name": "bell"}}
    assert sorted(found["groups"]["bidsAggregate"], key=str) == sorted(GROUPS["bidsAggregate"], key=str)
    assert "nothing" in found["unknown"]
    assert "1_000" in found["refused"]
    assert told_in_python["gql-ws"] == RIGHT


def test_postgrest_of_python(told_in_python: dict[str, Any]) -> None:
    assert told_in_python["postgrest"] == {
        "list": [{"id": 2, "name": "bell", "sizes": None}, {"id": ODD, "name": "bell", "sizes": None}],
        "single": {"id": ODD},
        "maybe": None,
        "any": [{"id": 2}],
        "nulls": [{"id": 2}, {"id": ODD - 1}],
        "counted": {"data": [{"id": 1}, {"id": 2}], "count": 4},
        "related": [{"name": "anvil", "bids": [{"price": 3}, {"price": 4}]}],
        "posted": [{"id": 2}, {"id": ODD}],
        "got": [{"id": 2}],
        "refused": "B8017",
    }


TOOLS = ["list_views", "describe_view", "query_view", "why_row", "why_not", "itemsOf"]


@pytest.mark.node
def test_mcp_of_node(reported: dict[str, Any]) -> None:
    """It checks each answer against the schema that the tool tells."""
    found = reported["mcp"]
    assert "failed" not in found, found
    assert found["names"] == TOOLS
    assert found["views"] == ["Items", "Bids", "Dear"]
    assert found["described"] == ["id"]
    assert found["rows"] == [{"id": "1", "place": RIGHT["items"][0]["place"], "sizes": {"s": str(ODD)}}]
    assert set(found["whole"]) == {c.name for c in CATALOG.schema_of("Items").visible}
    assert sorted(found["named"]) == ["2", str(ODD)]
    assert (found["why"], found["why_not"]) == ("Items", "Dear")


def test_mcp_of_python(url: str) -> None:
    async def run() -> None:
        async with Client(f"{url}/mcp") as agent:
            assert [t.name for t in (await agent.list_tools()).tools] == TOOLS

            async def call(name: str, /, **given: Any) -> Any:
                result = await agent.call_tool(name, given)
                assert not result.is_error, result.content
                return result.structured_content

            assert [v["name"] for v in (await call("list_views"))["views"]] == ["Items", "Bids", "Dear"]
            assert (await call("describe_view", view="Items"))["key"] == ["id"]
            asked = {"view": "Items", "columns": ["id", "place"], "filter": {"id": {"eq": str(ODD)}}}
            assert (await call("query_view", **asked))["rows"] == [{"id": ODD, "place": None}]
            assert sorted(r["id"] for r in (await call("itemsOf", name="bell"))["rows"]) == [2, ODD]
            assert (await call("why_row", view="Items", key={"id": 1}))["view"] == "Items"
            assert (await call("why_not", view="Dear", filter={"id": {"eq": 1}}))["view"] == "Dear"

    asyncio.run(run())
