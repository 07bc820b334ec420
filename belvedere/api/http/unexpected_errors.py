"""Unexpected errors: each URL answers them with a problem document that has a code, and the log has the traceback.

In: an ASGI application. Out: one that raises nothing. An answer that has started cannot be changed: it is cut off, and
the log says why.
"""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from belvedere.api.failures import INTERNAL, RequestError
from belvedere.api.http.pushes import problem_answer

LOG = logging.getLogger("belvedere.api")


def guarded(application: ASGIApp) -> ASGIApp:
    """Return the application with errors as answers. It raises only if an answer has started and cannot be
    completed."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = has_ended = False

        async def sending(message: Message) -> None:
            nonlocal has_begun, has_ended
            has_begun = True
            has_ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await application(scope, receive, sending)
        except Exception as error:
            if has_ended:  # Starlette raises again what it has answered
                return
            if has_begun:
                raise
            answer = unexpected(scope["method"], scope["path"], error)
            await answer(scope, receive, send)

    return serve


def unexpected(method: str, path: str, error: Exception) -> Response:
    """Log the error of a request and return the answer."""
    LOG.error("%s %s failed: %s: %s", method, path, type(error).__name__, error, exc_info=error)
    return problem_answer(RequestError(INTERNAL, "the request failed inside the server", status=500))


async def handled(request: Request, error: Exception) -> Response:
    """Return the answer like `unexpected`, with the signature of Starlette's error handlers."""
    return unexpected(request.method, request.url.path, error)
