"""`/mcp`: the Model Context Protocol over streamable HTTP, with the official SDK of the extra `belvedere[mcp]`.

In: HTTP requests that the gate has admitted. Out: answers of the tools (`mcp_tools`), each of one epoch. There is no
state between requests, so any process can answer each of them. The first request imports the SDK.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Receive, Scope, Send

from belvedere.api.agents.mcp_tools import ReadCall, call, tools_of
from belvedere.api.failures import BAD_REQUEST, INTERNAL, LIMIT_EXCEEDED, NOT_FOUND, RequestError
from belvedere.api.http.graphql_requests import GraphQLRequest
from belvedere.api.http.pushes import CLAIMS, check_encoding, problem_answer, read_body
from belvedere.api.http.served_api import ServedApi
from belvedere.api.reads.provenance import Question, WhyNotRequest, WhyRequest
from belvedere.intake.claims import Claims

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

SERVER = "belvedere"
MAX_BYTES = 1_000_000
"""Maximum length of an answer in bytes of JSON: an agent has to read it, and the SDK blocks other requests while it
writes.
"""
INSTRUCTIONS = (
    "Views over streams and tables, kept up to date. Begin with list_views; describe_view returns a view's columns "
    "and filters, query_view reads rows, why_row returns the input rows of a row, why_not explains why a row is "
    "missing. Each further tool answers one question. Every answer is of one epoch, and names it; the tools are "
    "read-only."
)
Answer = Callable[[GraphQLRequest, Claims], Awaitable[bytes]]
"""Function that returns the answer of a GraphQL query as JSON."""


class ModelContext:
    """The endpoint of one application. `answer` runs its GraphQL requests."""

    def __init__(self, served: ServedApi, answer: Answer):
        self._served, self._answer = served, answer
        self._in_planner, self._most = served.store.in_planner, served.settings.limits.size
        self._server: Server[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if importlib.util.find_spec("mcp") is None:
                hint = "install it: pip install 'belvedere[mcp]'"
                raise RequestError(NOT_FOUND, "MCP support is not installed", hint, status=404)
            if scope["method"] != "POST":  # it sends no events of its own, and has no sessions
                message = f"/mcp does not accept {scope['method']}"
                raise RequestError(BAD_REQUEST, message, "use POST", status=405, headers={"allow": "POST"})
            check_encoding(dict(scope["headers"]))
            body = await read_body(receive, self._most)
        except RequestError as error:
            await problem_answer(error)(scope, receive, send)
            return
        if self._server is None:
            made: Server[Any] = await self._in_planner(self._made)
            self._server = made
        from mcp.server.streamable_http_manager import (
            StreamableHTTPSessionManager,
        )  # comes with an extra; a slow import

        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, _again(body, receive), send)

    def _made(self) -> Server[Any]:
        import mcp_types as types  # comes with an extra; a slow import
        from mcp.server.lowlevel import Server
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: F401 - a slow import

        async def listed(context: Any, parameters: Any) -> types.ListToolsResult:
            api = (await self._served.roles.view_of(_claims(context))).api
            found = await self._in_planner(lambda: tools_of(api))
            hints = types.ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            )
            tools = [
                types.Tool(
                    name=t.name,
                    description=t.description,
                    input_schema=t.arguments,
                    output_schema=t.answer,
                    annotations=hints,
                )
                for t in found
            ]
            return types.ListToolsResult(tools=tools)

        async def called(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
            try:
                reported = await self._reported(
                    parameters.name,
                    parameters.arguments or {},
                    _claims(context),
                    self._served.longs(dict(context.request.scope["headers"])),
                )
            except RequestError as error:
                return types.CallToolResult(content=[types.TextContent(text=_said(error))], is_error=True)
            except Exception:
                failed = RequestError(INTERNAL, "the request failed inside the server")
                return types.CallToolResult(content=[types.TextContent(text=_said(failed))], is_error=True)
            text = json.dumps(reported, ensure_ascii=False)
            return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=reported)

        return Server(
            SERVER,
            version=version("belvedere"),
            title="Belvedere",
            instructions=INSTRUCTIONS,
            on_list_tools=listed,
            on_call_tool=called,
        )

    async def _reported(self, name: str, given: dict[str, Any], claims: Claims, longs: bool) -> dict[str, Any]:
        seen = await self._served.roles.view_of(claims)
        found: ReadCall | Question | dict[str, Any] = await self._in_planner(lambda: call(seen.api, name, given))
        if isinstance(found, WhyRequest | WhyNotRequest):
            return await self._served.provenance.answer(seen.catalog, found)
        if not isinstance(found, ReadCall):
            return found
        body = await self._answer(replace(found.asked, longs=longs), claims)
        if len(body) > MAX_BYTES:
            hint = "request fewer rows or columns"
            raise RequestError(LIMIT_EXCEEDED, f"the answer has more than {MAX_BYTES} bytes", hint)
        answer = json.loads(body)
        if "errors" in answer:
            error = answer["errors"][0]
            raise RequestError(error["extensions"]["code"], error["message"], error["extensions"].get("hint"))
        return {"rows": answer["data"][found.field], **answer["extensions"]}


def _claims(context: Any) -> Claims:
    claims: Claims = context.request.scope[CLAIMS] or {}
    return claims


def _said(error: RequestError) -> str:
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `Receive` that yields a body that was already read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
