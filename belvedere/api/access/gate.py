"""Access checks: the server's host names, origins of web pages, tokens, and the number of requests.

In: an HTTP request's scope and headers. Out: a `Caller`, or a `RequestError` that rejects it. It reads no body and
knows no views: `belvedere.api.reads.role_view` restricts what a role sees.
"""

from __future__ import annotations

import asyncio
import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from belvedere.api.access.callers import Caller, check_right
from belvedere.api.access.origins import is_foreign
from belvedere.api.access.rates import Rates
from belvedere.api.access.tokens import TokenRules, TokenVerifier, role_named
from belvedere.api.failures import BAD_REQUEST, KEYS_AWAY, LIMIT_EXCEEDED, NOT_ALLOWED, RequestError
from belvedere.api.http.pushes import CLAIMS
from belvedere.api.http.route_rights import Needed, RouteNeed
from belvedere.api.limits import Limits
from belvedere.catalog.access import ALL_RIGHTS, Grant, Right

TOKEN = "belvedere.token"
"""Key in a WebSocket's scope of the token that authenticated its caller."""
CONNECTIONS = 8
"""Maximum number of connections of one process to a store on a server."""

Headers = Mapping[bytes, bytes]


@dataclass(frozen=True)
class FixedToken:
    """`[api.tokens.NAME]`: a fixed token. With `role` None its caller sees everything that its `rights` allow."""

    token: str
    role: str | None = None
    rights: frozenset[Right] = ALL_RIGHTS


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server.

    `hosts`: the only accepted names in `Host`, None for all; on a loopback address this rejects foreign web pages (DNS
    rebinding). `token`: required as `Authorization: Bearer`, unless the caller sends a token that is valid by the rules
    of `tokens`, or one of `fixed`. `anonymous`: the role of callers without a token. `origins`: web pages that may send
    requests, with the `headers` besides those of common clients. `per_address` and `per_token`: requests per second,
    None for no limit. `connections`: maximum number of connections to a store on a server.
    """

    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    origins: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    hosts: frozenset[str] | None = None
    threads: int = 8
    connections: int = CONNECTIONS
    tokens: TokenRules | None = None
    per_address: float | None = None
    per_token: float | None = None
    fixed: tuple[FixedToken, ...] = ()
    anonymous: str | None = None
    longs: bool = False
    """Whether 64-bit integers are strings in answers to requests that do not choose a form."""

    @property
    def pushing(self) -> tuple[str, ...]:
        """Return the origins whose pages may push: only those that the project file names."""
        return tuple(o for o in self.origins if o != "*")


class Gate:
    """Rejects requests by the settings of a server, and identifies the callers of the others. `grants` are the grants
    of its roles."""

    def __init__(self, settings: ServerSettings, grants: Mapping[str, Grant] | None = None):
        self._settings, self._grants = settings, grants or {}
        own = (FixedToken(settings.token),) if settings.token else ()
        self._fixed = [(t.token.encode(), self._fixed_caller(t)) for t in (*own, *settings.fixed)]
        self._verifier = TokenVerifier(settings.tokens) if settings.tokens else None
        self._addresses = Rates(settings.per_address) if settings.per_address else None
        self._tokens = Rates(settings.per_token) if settings.per_token else None

    @property
    def is_closed(self) -> bool:
        """Return whether callers need a token."""
        return bool(self._fixed) or self._verifier is not None

    @property
    def has_keys(self) -> bool:
        """Return whether tokens are verified with keys, which `look_for_key` can read again."""
        return self._verifier is not None

    async def look_for_key(self, headers: Headers) -> None:
        """Read the keys of tokens again if the caller's token names an unknown key."""
        given = _bearer(headers)
        if given is not None and self._verifier is not None and self._verifier.lacks_key(given.decode("latin-1")):
            await asyncio.to_thread(self._verifier.refresh)

    def enter(self, scope: Scope, headers: Headers, needed: Needed) -> RequestError | None:
        """Return why a request is rejected, or None if it may pass.

        `needed` is the need of its route. The claims of the caller's token are then in the request's scope (`CLAIMS`).
        """
        method, is_open = scope.get("method", "GET"), needed in (RouteNeed.OPEN, RouteNeed.WATCHED)
        scope[CLAIMS] = None
        refused = self._wrong_host(scope, headers)
        if refused is not None or method == "OPTIONS":
            return refused
        if not is_open:
            allowed = self._settings.pushing if needed in (Right.PUSH, Right.ADMIN) else self._settings.origins
            try:
                self.refuse_foreign(method, headers, allowed)
            except RequestError as error:
                return error
        crowded = None if needed is RouteNeed.WATCHED else self._counted(self._addresses, _address(scope))
        if crowded is not None:  # before the token check: guesses count, too
            return crowded
        given = _bearer(headers)
        scope[TOKEN] = given
        later = scope["type"] == "websocket"  # a web page can send a token only in the first message
        try:
            scope[CLAIMS] = caller = self._without_token if given is None else self._caller(given)
            if caller is None and not later and not is_open:
                return _no_token(given is not None)
            if caller is not None and isinstance(needed, Right):
                check_right(caller, needed)
        except RequestError as error:
            return None if is_open else error
        return (
            None
            if caller is None or given is None or needed is RouteNeed.WATCHED
            else self._counted(self._tokens, given)
        )

    def _wrong_host(self, scope: Scope, headers: Headers) -> RequestError | None:
        """Return the error of a request whose `Host` is not a name of this server, or None."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # RFC 9112, 3.2: a proxy may use the other one
            return RequestError(BAD_REQUEST, "the request has more than one header `Host`", "send one")
        hosts = self._settings.hosts
        if hosts is None or _host(headers.get(b"host", b"")) in hosts:
            return None
        hint = "use localhost or 127.0.0.1 in the URL"
        return RequestError(NOT_ALLOWED, "the request's `Host` is not a name of this server", hint, status=421)

    def refuse_foreign(self, method: str, headers: Headers, allowed: tuple[str, ...]) -> None:
        """Raise if a web page of an origin outside `allowed` caused the request."""
        if "*" not in allowed and is_foreign(method, headers, allowed):
            hint = "add the page's origin to `cors_origins` under `[api]`"
            raise RequestError(NOT_ALLOWED, "this request comes from a web page of an unknown origin", hint, status=403)

    def admitted(self, scope: Scope, given: str | None) -> Caller | None:
        """Return the caller of a WebSocket, from its first message or its handshake; None if it needs a token."""
        token = None if given is None else _bearer({b"authorization": given.encode("utf-8", "replace")})
        scope[TOKEN] = scope[TOKEN] if token is None else token
        try:
            caller: Caller | None = scope[CLAIMS] if token is None else self._caller(token)
        except RequestError:
            return None
        return (
            None
            if caller is not None and token is not None and self._counted(self._tokens, token) is not None
            else caller
        )

    def count_operation(self, scope: Scope) -> None:
        """Raise if an operation of a WebSocket exceeds the rate limit, or if the caller's token has expired."""
        token = scope[TOKEN]
        crowded = self._counted(self._addresses, _address(scope))
        if token is not None and self.is_closed:
            if self._caller(token) is None:
                raise _no_token(True)
            crowded = crowded or self._counted(self._tokens, token)
        if crowded is not None:
            raise crowded

    @property
    def _without_token(self) -> Caller | None:
        """Return the caller of a request without a token, or None if a token is needed."""
        if self._settings.anonymous is not None:
            return self._of_role({}, self._settings.anonymous)
        return None if self.is_closed else Caller({})

    def _caller(self, given: bytes) -> Caller | None:
        """Return the caller of a token, or None if the token is not valid.

        Raises if it is valid but gives its caller no role.
        """
        if not self.is_closed:  # a token that no rule needs is ignored
            return self._without_token
        found = None
        for token, caller in self._fixed:  # compare all tokens: the time must not reveal which one was close
            found = caller if hmac.compare_digest(given, token) else found
        if found is not None or self._verifier is None:
            return found
        claims = self._verifier.claims(given.decode("latin-1"))
        if claims is None and not self._verifier.is_ready:
            hint = "try again in a few seconds"
            raise RequestError(KEYS_AWAY, "the keys of tokens cannot be fetched", hint, status=503)
        return None if claims is None else self._of_token(claims)

    def _of_token(self, claims: Mapping[str, Any]) -> Caller:
        """Return the caller with the role that a token names. If there are roles, every caller has one."""
        if not self._grants:
            return Caller(claims)
        assert self._verifier is not None
        rules = self._verifier.rules
        named = role_named(claims, rules.role_claim)
        if isinstance(named, list):
            known = [n for n in named if isinstance(n, str) and n in self._grants]
            named = known[0] if len(known) == 1 else named or None
        role = rules.default_role if named is None else named
        if not isinstance(role, str) or role not in self._grants:
            hint = f"the claim `{'.'.join(rules.role_claim)}` must name one role of belvedere.toml"
            raise RequestError(NOT_ALLOWED, "the token names no role of belvedere.toml", hint, status=403)
        return self._of_role(claims, role)

    def _of_role(self, claims: Mapping[str, Any], role: str) -> Caller:
        return Caller(claims, role, self._grants[role].rights if role in self._grants else frozenset())

    def _fixed_caller(self, token: FixedToken) -> Caller:
        if token.role is None:
            return Caller({}, None, token.rights)
        found = self._of_role({}, token.role)
        return Caller({}, token.role, found.rights & token.rights)

    @staticmethod
    def _counted(rates: Rates | None, caller: Any) -> RequestError | None:
        seconds = 0.0 if rates is None else rates.wait(caller)
        if seconds == 0.0:
            return None
        headers = {"retry-after": str(math.ceil(seconds))}
        return RequestError(LIMIT_EXCEEDED, "too many requests", "send fewer requests", status=429, headers=headers)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _no_token(given: bool) -> RequestError:
    """Return the error for a request without a token, or with an invalid one (RFC 6750, 3)."""
    headers = {"www-authenticate": 'Bearer realm="belvedere"' + (', error="invalid_token"' if given else "")}
    hint = "send the header `Authorization: Bearer TOKEN`"
    return RequestError(NOT_ALLOWED, "this request carries no valid token", hint, status=401, headers=headers)


def _bearer(headers: Headers) -> bytes | None:
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    return given if scheme.lower() == b"bearer" else None


def _host(header: bytes) -> str:
    text = header.decode("latin-1").lower()
    return text.rpartition(":")[0] if ":" in text and not text.endswith("]") else text
