"""Client addresses behind a proxy on this machine, or behind one of `FORWARDED_ALLOW_IPS`.

In: an ASGI application. Out: one that sees the clients' own addresses, by `X-Forwarded-For` and `X-Forwarded-Proto`.
Requests without a proxy pass unchanged.
"""

from __future__ import annotations

import os

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


def behind_proxy(application: ASGIApp) -> ASGIApp:
    """Return the application, called with the client's address."""
    reported = ProxyHeadersMiddleware(application, os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1"))  # type: ignore[arg-type]

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        forwarded = any(name.startswith(b"x-forwarded-") for name, _ in scope.get("headers", ()))
        await (reported if forwarded else application)(scope, receive, send)  # type: ignore[arg-type]

    return served
