"""Routes that say what their callers need: the right stands at the route, and the gate asks the route that matched.

In: the routes of an application, the scope of a request. Out: the way in of the route that answers it. Who the caller is, and whether it
has the right, is decided by `belvedere.api.access.gate`.
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
    """What callers need where that is no right of their own."""

    OPEN = "open"
    """Nothing: everybody may ask, any web page too."""
    WATCHED = "watched"
    """Nothing, and nobody counts how often: those who watch the server ask here."""
    ASKED = "asked"
    """A token, where the server has one; the right follows from what is asked."""


Needed = Right | RouteNeed


class Route(routing.Route):
    """A route of Starlette with the right that it takes. `endpoint` is an ASGI application where it takes every method (None)."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, right: Needed, methods: Sequence[str] | None = ("GET", "HEAD")
    ) -> None:
        super().__init__(path, endpoint, methods=None if methods is None else list(methods))
        self.right = right
        if methods is None:
            self.app = endpoint
        self.methods = None if methods is None else set(methods)  # Starlette adds HEAD, of which a stream has no end


class Mount(routing.Mount):
    """All addresses below a path, with the right that they take."""

    def __init__(self, path: str, app: ASGIApp, *, right: Needed) -> None:
        super().__init__(path, app)
        self.right = right


class Ways:
    """What requests need, by the routes of an application."""

    def __init__(self, routes: Sequence[BaseRoute]):
        self._routes = [r for r in routes if isinstance(r, Route | Mount)]
        assert len(self._routes) == len(routes), "each route must declare the right that it needs"
        plain = [r.path for r in self._routes if isinstance(r, Route) and "{" not in r.path]
        self._plain = {r.path: r.right for r in self._routes if r.path in plain and plain.count(r.path) == 1}
        """Most requests ask one of these."""

    def needed(self, scope: Scope, method: str | None = None) -> Needed:
        """What the request needs, or one by another method to the same address. An address that nobody answers takes a token: its
        absence is told to no stranger.
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
