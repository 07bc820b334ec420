"""Who is let in: the server's own names, web pages of known origins, tokens that count, and no more requests than allowed.

In: an HTTP request's scope and headers. Out: what the caller's token says, or a `RequestError` that refuses it. It reads no body.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from belvedere.api.failures import LIMIT_EXCEEDED, NOT_ALLOWED, RequestError
from belvedere.api.limits import Limits
from belvedere.api.origins import is_foreign
from belvedere.api.pushes import CLAIMS
from belvedere.api.rates import Rates
from belvedere.api.tokens import TokenRules, TokenVerifier
from belvedere.intake.claims import Claims

OPEN = ("/", "/console", "/healthz", "/readyz")
"""Paths that need no token, with what is below them; everything else needs it, where there is one."""
UNCOUNTED = ("/healthz", "/readyz")
"""Paths that are answered however many requests came: those who watch the server ask them."""
GUARDED = ("/graphql", "/streams", "/rest", "/openapi.json")
"""Paths that foreign web pages may not ask."""

TOKEN = "belvedere.token"
"""The member of a WebSocket's scope with the token by which its caller was let in."""
CONNECTIONS = 8
"""Connections of a process to a store on a server."""

Headers = Mapping[bytes, bytes]


@dataclass(frozen=True)
class ServerSettings:
    """How to serve. `hosts`, where given, are the only names in `Host` that are answered: on a loopback address this
    refuses foreign web pages (DNS rebinding). `token`, where given, must come as `Authorization: Bearer`, or one
    that counts by the rules of `tokens`. `per_address` and `per_token` are requests a second, None for as many as come.
    `connections` are those to a store on a server.
    """

    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    origins: tuple[str, ...] = ()
    hosts: frozenset[str] | None = None
    threads: int = 8
    connections: int = CONNECTIONS
    tokens: TokenRules | None = None
    per_address: float | None = None
    per_token: float | None = None

    @property
    def pushing(self) -> tuple[str, ...]:
        """The origins whose pages may push: only those that the project file names."""
        return tuple(o for o in self.origins if o != "*")


class Gate:
    """Refuses requests by the settings of a server."""

    def __init__(self, settings: ServerSettings):
        self._settings = settings
        self._token = settings.token.encode() if settings.token else None
        self._verifier = TokenVerifier(settings.tokens) if settings.tokens else None
        self._addresses = Rates(settings.per_address) if settings.per_address else None
        self._tokens = Rates(settings.per_token) if settings.per_token else None

    @property
    def is_closed(self) -> bool:
        """Whether callers need a token."""
        return self._token is not None or self._verifier is not None

    def enter(self, scope: Scope, headers: Headers) -> RequestError | None:
        """Why a request is refused, or None. What the caller's token says is then in its scope (`CLAIMS`)."""
        path, method = scope["path"], scope.get("method", "GET")
        hosts = self._settings.hosts
        scope[CLAIMS] = None
        if hosts is not None and _host(headers.get(b"host", b"")) not in hosts:
            hint = "use localhost or 127.0.0.1 in the URL"
            return RequestError(NOT_ALLOWED, "this server answers to its own names only", hint, status=421)
        if method == "OPTIONS":
            return None
        if path.startswith(GUARDED):
            allowed = self._settings.pushing if is_push(path) else self._settings.origins
            try:
                self.refuse_foreign(method, headers, allowed)
            except RequestError as error:
                return error
        crowded = None if path in UNCOUNTED else self._counted(self._addresses, _address(scope))
        if crowded is not None:  # before the token: a guess counts, too
            return crowded
        given = _bearer(headers)
        scope[TOKEN], scope[CLAIMS] = given, (claims := None if given is None else self._claims(given))
        later = scope["type"] == "websocket"  # a page can send a token in the first message alone
        if self.is_closed and claims is None and not later and not _is_open(path):
            return _no_token(given is not None)
        return None if claims is None or path in UNCOUNTED else self._counted(self._tokens, given)

    def refuse_foreign(self, method: str, headers: Headers, allowed: tuple[str, ...]) -> None:
        """Raise where a page of another origin than those makes the browser send this."""
        if "*" not in allowed and is_foreign(method, headers, allowed):
            hint = "name the page's origin in `cors_origins` under `[api]`"
            raise RequestError(NOT_ALLOWED, "this request comes from a foreign web page", hint, status=403)

    def admitted(self, scope: Scope, given: str | None) -> Claims | None:
        """What the caller of a WebSocket may claim, by its first message or its handshake; None for one that needs a token."""
        token = None if given is None else _bearer({b"authorization": given.encode("utf-8", "replace")})
        claims = scope[CLAIMS] if token is None else self._claims(token)
        scope[TOKEN] = scope[TOKEN] if token is None else token
        if claims is not None and token is not None and self._counted(self._tokens, token) is not None:
            return None
        return {} if claims is None and not self.is_closed else claims

    def count_operation(self, scope: Scope) -> None:
        """Raise where an operation of a WebSocket comes too soon after others, or when the caller's token is over."""
        token = scope[TOKEN]
        crowded = self._counted(self._addresses, _address(scope))
        if token is not None and self.is_closed:
            if self._claims(token) is None:
                raise _no_token(True)
            crowded = crowded or self._counted(self._tokens, token)
        if crowded is not None:
            raise crowded

    def _claims(self, given: bytes) -> Mapping[str, Any] | None:
        """What a token says: nothing for the token of `[api]`; None for one that does not count."""
        if self._token is not None and hmac.compare_digest(given, self._token):
            return {}
        return None if self._verifier is None else self._verifier.claims(given.decode("latin-1"))

    @staticmethod
    def _counted(rates: Rates | None, caller: Any) -> RequestError | None:
        seconds = 0.0 if rates is None else rates.wait(caller)
        if seconds == 0.0:
            return None
        headers = {"retry-after": str(math.ceil(seconds))}
        return RequestError(LIMIT_EXCEEDED, "too many requests", "ask less often", status=429, headers=headers)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def is_push(path: str) -> bool:
    """Whether what is asked there writes."""
    return path.startswith("/streams") and not path.endswith("/events")


def _no_token(given: bool) -> RequestError:
    """Of a request without a token, or with one that does not count (RFC 6750, 3)."""
    headers = {"www-authenticate": 'Bearer realm="belvedere"' + (', error="invalid_token"' if given else "")}
    hint = "send the header `Authorization: Bearer TOKEN`"
    return RequestError(NOT_ALLOWED, "this request carries no valid token", hint, status=401, headers=headers)


def _bearer(headers: Headers) -> bytes | None:
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    return given if scheme.lower() == b"bearer" else None


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/console/")


def _host(header: bytes) -> str:
    text = header.decode("latin-1")
    return text.rpartition(":")[0] if ":" in text and not text.endswith("]") else text
