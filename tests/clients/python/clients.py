"""Requests to the API with the Python clients: gql over HTTP and WebSocket, and postgrest.

In: JSON on stdin with the address and the texts of queries. Out: a line of JSON for each client, with its name and what
it was told. It runs in a process of its own, on packages of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from typing import Any

from gql import Client, gql
from gql.transport.exceptions import TransportQueryError
from gql.transport.httpx import HTTPXTransport
from gql.transport.websockets import WebsocketsTransport
from graphql import GraphQLError
from postgrest import SyncPostgrestClient
from postgrest.exceptions import APIError

HEADERS = {"Prefer": "longs=text"}


def over_http(given: dict[str, Any]) -> dict[str, Any]:
    """It asks for the schema, and checks queries and variables itself."""
    transport = HTTPXTransport(url=f"{given['url']}/graphql", headers=HEADERS)
    with Client(transport=transport, fetch_schema_from_transport=True) as session:
        reported = {"rows": session.execute(gql(given["query"])), "groups": session.execute(gql(given["aggregates"]))}
        by_key = gql(given["by_key"])
        reported["one"] = session.execute(by_key, variable_values={"id": str(2**53 + 1)})
        try:
            session.execute(gql("{ nothing }"))
        except GraphQLError as error:
            reported["unknown"] = error.message
        try:
            session.execute(by_key, variable_values={"id": "1_000"})
        except TransportQueryError as error:
            reported["refused"] = (error.errors or [{}])[0].get("message", "")
    return reported


def over_websocket(given: dict[str, Any]) -> Any:
    """The first answer of a live query, by the protocol `graphql-transport-ws`."""

    async def run() -> Any:
        url = given["url"].replace("http", "ws", 1) + "/graphql"
        async with Client(transport=WebsocketsTransport(url=url, init_payload={"longs": "text"})) as session:
            async for reported in session.subscribe(gql(f"subscription {given['query']}")):
                return reported

    return asyncio.run(run())


def postgrest(given: dict[str, Any]) -> dict[str, Any]:
    """Lists, one row, a count, related rows, templates by POST and GET, a refusal. Whole numbers of Python have any
    size."""
    client = SyncPostgrestClient(f"{given['url']}/rest", schema="public")
    odd = str(2**53 + 1)
    items = client.from_("items")
    counted = items.select("id", count="exact").order("id").range(0, 1).execute()
    try:
        client.from_("nothing").select("*").execute()
        refused = None
    except APIError as error:
        refused = error.code
    return {
        "list": client.from_("items").select("id,name,sizes").eq("name", "bell").order("id").execute().data,
        "single": client.from_("items").select("id").eq("id", odd).single().execute().data,
        "maybe": client.from_("items").select("id").eq("id", "3").maybe_single().execute(),
        "any": client.from_("items").select("id").in_("id", [1, 2]).order("id", desc=True).limit(1).execute().data,
        "nulls": client.from_("items").select("id").is_("price", "null").not_.eq("id", odd).order("id").execute().data,
        "counted": {"data": counted.data, "count": counted.count},
        "related": client.from_("items").select("name,bids(price)").eq("id", 1).execute().data,
        "posted": client.rpc("itemsOf", {"name": "bell"}).select("id").order("id").execute().data,
        "got": client.rpc("itemsOf", {"name": "bell"}, get=True).select("id").eq("id", "2").execute().data,
        "refused": refused,
    }


def main() -> None:
    """Let each client ask."""
    given = json.load(sys.stdin)
    for name, ask in {"gql": over_http, "gql-ws": over_websocket, "postgrest": postgrest}.items():
        try:
            reported = ask(given)
        except Exception:
            reported = {"failed": traceback.format_exc()}
        print(json.dumps([name, reported]))


if __name__ == "__main__":
    main()
