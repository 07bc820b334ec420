"""The generated API: GraphQL and REST over a catalog's public views, served from the store.

Modules are imported on first use, so a serving process starts without the ones that it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belvedere.api.graphql.api import Api, execute_graphql
    from belvedere.api.rest.in_process import execute_rest
    from belvedere.api.serving.processes import start_api

__all__ = ["Api", "execute_graphql", "execute_rest", "start_api"]

_HOMES = {
    "Api": "graphql.api",
    "execute_graphql": "graphql.api",
    "execute_rest": "rest.in_process",
    "start_api": "serving.processes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"belvedere.api.{_HOMES[name]}"), name)
