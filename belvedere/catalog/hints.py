"""Hints of a script on its relations, with the project file's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class QueryArgument:
    """An argument of an endpoint: a column must equal it. If `required`, the request must give it."""

    column: str
    required: bool


class Placement(StrEnum):
    """Where a view is computed: in each epoch, with a stored result, or at each request."""

    MAINTAIN = "maintain"
    AT_READ = "at_read"


class OnError(StrEnum):
    """Action when an expression fails on a row of a view."""

    STOP = "stop"
    """The run ends and the store remains at the last good epoch."""
    NULL = "null"
    """The expression gives NULL."""
    QUARANTINE = "quarantine"
    """The view keeps the rows of its last good epoch; other views continue."""


@dataclass(frozen=True)
class Promise:
    """Expected load of a view or query template: requests per second, and the maximum seconds of one request."""

    rate: float | None = None
    latency: float | None = None


@dataclass(frozen=True)
class Hints:
    """Hints on single relations, by id; query templates by name."""

    query_by: Mapping[str, tuple[QueryArgument, ...]] = field(default_factory=dict)
    """Arguments of endpoints in addition to `filter`, by id (`/*+ query_by_all(a) */`)."""
    placed: Mapping[str, Placement] = field(default_factory=dict)
    """Placement of views by id, as the script sets it (`/*+ maintain */`, `/*+ at_read */`); the optimizer does not
    change it.
    """
    on_error: Mapping[str, OnError] = field(default_factory=dict)
    """Action when a view fails, by id: from the script (`/*+ on_error(quarantine) */`) or the project file; by default
    the run stops.
    """
    resumed: frozenset[str] = frozenset()
    """Ids of views that, once corrected, continue from the rows of their former definition if they cannot be recomputed
    (`/*+ resume */`).
    """
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """Expected load (`/*+ rate(200), latency(20 ms) */`), by the id of a view or the name of a query template."""
