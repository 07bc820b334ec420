"""Outputs of a script: subscriptions to changes, and exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from belvedere.errors import Span
from belvedere.schema import Schema


class ChangeKind(StrEnum):
    ADD = "add"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True)
class Subscription:
    """Events about a query's result. `view` is the id of the view that holds the observed query.

    The events are a relation `id` with the observed columns and `_op`, `_event_time`, `_seq` (and `_old` for CHANGE).
    """

    id: str
    name: str
    on: ChangeKind
    view: str
    schema: Schema
    span: Span | None = None
    doc: str | None = None


@dataclass(frozen=True)
class Export:
    """Export of a view's changes or a subscription's events to `sink.target`."""

    relation: str
    sink: str
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


EVENT_COLUMNS = frozenset(("_op", "_event_time", "_seq", "_old"))
"""Columns of an event in addition to those of its row. They are served although they begin with an underscore."""
