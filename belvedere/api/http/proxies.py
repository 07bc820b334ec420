"""What a proxy on this machine, or of those that `FORWARDED_ALLOW_IPS` names, says of its clients.

In: an ASGI application. Out: one that sees the clients' own addresses, by `X-Forwarded-For` and `X-Forwarded-Proto`. Requests that came
without a proxy take no way round.
"""

from __future__ import annotations

import os

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


def behind_proxy(application: ASGIApp) -> ASGIApp:
    """The application, which is told who asks."""
    reported = ProxyHeadersMiddleware(application, os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1"))  # type: ignore[arg-type]

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        forwarded = any(name.startswith(b"x-forwarded-") for name, _ in scope.get("headers", ()))
        await (reported if forwarded else application)(scope, receive, send)  # type: ignore[arg-type]

    return served
