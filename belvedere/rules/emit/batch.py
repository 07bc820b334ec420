"""The batch answer of what depends on history: the input's batch answer after each epoch, folded by definition.

In: a plan with `Emit` or `InOrder` nodes, a log of accepted input with the clock and the bounds of each epoch, a function that answers a
plan at an epoch. Out: the plan over tables for those nodes. Slow by design: it is an oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from belvedere.catalog import Catalog
from belvedere.instants import microseconds
from belvedere.plan.nodes import Node, Scan
from belvedere.plan.time_nodes import Emit, InOrder
from belvedere.rules.emit.emission import plan_emission
from belvedere.rules.emit.fold import EmitFold, OrderFold
from belvedere.time.event_time import Clocks, bounds_by_input


@dataclass(frozen=True)
class LoggedEpoch:
    """The clock and the bounds of one epoch of the log."""

    clock: datetime
    bounds: Mapping[str, Mapping[str, int] | None]


BatchAnswer = Callable[[Node, int, Mapping[str, pa.Table]], pa.Table]
"""All rows of a plan after an epoch (counted from 0), given the tables of scans that are not inputs."""


@dataclass
class History:
    """Answers plans with history; `tables` are the contents of each such node after each epoch."""

    catalog: Catalog
    epochs: tuple[LoggedEpoch, ...]
    answer: BatchAnswer
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def at(self, epoch: int) -> dict[str, pa.Table]:
        """The tables of all nodes with history after an epoch."""
        return {n: t[epoch] for n, t in self.tables.items()}

    def with_scans(self, node: Node) -> Node:
        """The plan with a scan in place of each node that depends on history."""
        if not isinstance(node, (Emit, InOrder)):
            return node.with_inputs(tuple(self.with_scans(i) for i in node.inputs))
        below = self.with_scans(node.input)
        name = f"$history{len(self.tables)}"
        fold = self._emitted(node, below) if isinstance(node, Emit) else self._ordered(node, below)
        schema = node.schema.arrow
        self.tables[name] = [pa.Table.from_pylist(rows, schema=schema) for rows in fold] or [schema.empty_table()]
        return Scan(name, node.schema)

    def _rows(self, below: Node, epoch: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.answer(below, epoch, self.at(epoch)).to_pylist()
        return rows

    def _emitted(self, node: Emit, below: Node) -> list[list[dict[str, Any]]]:
        emission = plan_emission(node, node.input, bounds_by_input(self.catalog, Clocks()))
        visible = tuple(c.name for c in node.input.schema.visible)
        fold = EmitFold(emission, node.input.schema.key or (), visible)
        return [
            fold.epoch(self._rows(below, n), microseconds(e.clock), emission.bounds(e.bounds.get))
            for n, e in enumerate(self.epochs)
        ]

    def _ordered(self, node: InOrder, below: Node) -> list[list[dict[str, Any]]]:
        emission = plan_emission(node, node.input, bounds_by_input(self.catalog, Clocks()))
        fold = OrderFold(node, node.input.schema.key or (), tuple(n for n in node.schema.names[:-1]))
        return [fold.epoch(self._rows(below, n), emission.bounds(e.bounds.get)[0]) for n, e in enumerate(self.epochs)]


def has_history(plan: Node) -> bool:
    """Whether the answer depends on how the input came to be."""
    return any(isinstance(n, (Emit, InOrder)) for n in plan.walk())
