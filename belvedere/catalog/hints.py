"""What the hints of a script say of its relations, and the project file where they say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class QueryArgument:
    """An argument of an endpoint that a column equals; `required`: it must be given."""

    column: str
    required: bool


class Placement(StrEnum):
    """Who computes a view: epochs, which store it, or requests, each for itself."""

    MAINTAIN = "maintain"
    AT_READ = "at_read"


class OnError(StrEnum):
    """What becomes of a view on whose rows an expression fails."""

    STOP = "stop"
    """The run ends, at the last good epoch."""
    NULL = "null"
    """The expression gives NULL."""
    QUARANTINE = "quarantine"
    """The view keeps the rows of its last good epoch, and others go on."""


@dataclass(frozen=True)
class Promise:
    """What is expected of the requests for a view or query template: how many a second, and the most seconds that one may take."""

    rate: float | None = None
    latency: float | None = None


@dataclass(frozen=True)
class Hints:
    """What is said of single relations, by their ids. Query templates have names."""

    query_by: Mapping[str, tuple[QueryArgument, ...]] = field(default_factory=dict)
    """The arguments that endpoints have beside `filter`, by id (`/*+ query_by_all(a) */`)."""
    placed: Mapping[str, Placement] = field(default_factory=dict)
    """What the script says of views, by id (`/*+ maintain */`, `/*+ at_read */`): no optimizer decides otherwise."""
    on_error: Mapping[str, OnError] = field(default_factory=dict)
    """What becomes of views that fail, by id: the script says it (`/*+ on_error(quarantine) */`), or the project file; else they stop."""
    resumed: frozenset[str] = frozenset()
    """Views that go on, once corrected, from the rows of their former definition where they cannot be computed anew, by id
    (`/*+ resume */`)."""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """What the script states (`/*+ rate(200), latency(20 ms) */`), by the id of a view or the name of a query template."""
