"""Rights of routes: each route declares the right that it needs, and the gate reads it from the route that matches.

In: the routes of an application, the scope of a request. Out: the need of the route that answers it.
`belvedere.api.access.gate` identifies the caller and checks the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from starlette import routing
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Scope

from belvedere.catalog.access import Right


class RouteNeed(StrEnum):
    """Needs of callers that are not rights."""

    OPEN = "open"
    """No need: any caller, and any web page."""
    WATCHED = "watched"
    """No right and no rate limit: monitoring uses these routes."""
    ASKED = "asked"
    """A token, if the server requires one; the request's content determines the right."""


Needed = Right | RouteNeed


class Route(routing.Route):
    """A Starlette route with the right that it needs. An `endpoint` for all methods (None) is an ASGI application."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, right: Needed, methods: Sequence[str] | None = ("GET", "HEAD")
    ) -> None:
        super().__init__(path, endpoint, methods=None if methods is None else list(methods))
        self.right = right
        if methods is None:
            self.app = endpoint
        self.methods = None if methods is None else set(methods)  # Starlette adds HEAD, which never ends for a stream


class Mount(routing.Mount):
    """A mount of an application below a path, with the right that it needs."""

    def __init__(self, path: str, app: ASGIApp, *, right: Needed) -> None:
        super().__init__(path, app)
        self.right = right


class Ways:
    """The needs of requests, by the routes of an application."""

    def __init__(self, routes: Sequence[BaseRoute]):
        self._routes = [r for r in routes if isinstance(r, Route | Mount)]
        assert len(self._routes) == len(routes), "each route must declare the right that it needs"
        plain = [r.path for r in self._routes if isinstance(r, Route) and "{" not in r.path]
        self._plain = {r.path: r.right for r in self._routes if r.path in plain and plain.count(r.path) == 1}
        """The needs of routes without path parameters, which most requests use."""

    def needed(self, scope: Scope, method: str | None = None) -> Needed:
        """Return the need of the request, or of another method at the same URL.

        An unknown URL needs a token, so that strangers cannot probe for routes.
        """
        plain = self._plain.get(scope["path"])
        if plain is not None:
            return plain
        asked = {**scope, "type": "http", "method": method or scope.get("method", "GET")}
        found: Needed | None = None
        for route in self._routes:
            match, _ = route.matches(asked)
            if match is Match.FULL:
                return route.right
            if match is Match.PARTIAL and found is None:
                found = route.right
        return RouteNeed.ASKED if found is None else found
