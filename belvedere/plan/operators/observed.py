"""Events of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.node import Node
from belvedere.schema import Schema


@dataclass(frozen=True)
class Observed(Node):
    """The events of a subscription in batch: one for each row of the input that was added, changed or deleted since the
    preceding epoch.

    `on` is add, change or delete; `events` are the columns of the events. The engine derives events from deltas,
    without this node.
    """

    input: Node
    on: str
    events: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.events

    is_historic: ClassVar[bool] = True

    @property
    def text(self) -> str:
        return "observed"
