"""Batch answer of operators that depend on history: the input's batch answer after each epoch, folded by definition.

In: a plan with such operators; a log of accepted input with the clock and the bounds of each epoch; a function that
answers a plan at an epoch. Out: the plan with tables in place of these operators. This module is a test oracle and slow
by design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.plan.bounds import bounds_of
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.observed import Observed
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.rules.emit.emission import plan_emission
from belvedere.rules.emit.emit_fold import EmitFold, OrderFold
from belvedere.rules.emit.event_fold import EventFold, with_keys
from belvedere.rules.spl.join_batch import SplJoinReplay
from belvedere.rules.spl.window_batch import SplReplay
from belvedere.time.event_time import Clocks, bounds_by_input
from belvedere.values.instants import microseconds


@dataclass(frozen=True)
class LoggedEpoch:
    """The clock and the bounds of one epoch of the log."""

    clock: datetime
    bounds: Mapping[str, Mapping[str, int] | None]
    ends: bool = False
    """Whether the input ends with this epoch."""


BatchAnswer = Callable[[Node, int, Mapping[str, pa.Table]], pa.Table]
"""Function that returns all rows of a plan after an epoch, counted from 0.

Its last argument holds the tables of scans that are not inputs.
"""
Fold = Callable[[list[dict[str, Any]], LoggedEpoch], list[dict[str, Any]]]
"""Function that advances one epoch: from the input's rows after the epoch to the operator's rows."""
Step = Callable[[int, Sequence[LoggedEpoch]], pa.Table]
"""Function that returns the rows of a node with history after an epoch, given all epochs of the log."""


class History:
    """One plan with history, answered epoch by epoch. `plan` reads scans, and `tables` holds their present rows."""

    def __init__(self, name: str, plan: Node, catalog: Catalog, answer: BatchAnswer):
        self._name, self._catalog, self._answer = name, catalog, answer
        self._steps: dict[str, Step] = {}
        """Steps of the nodes with history; those of a node's inputs come before its own."""
        self._past: list[dict[str, pa.Table]] = []
        """`tables` after each epoch."""
        self.tables: dict[str, pa.Table] = {}
        self.plan = self._with_scans(plan)

    def go_on(self, epochs: Sequence[LoggedEpoch]) -> None:
        """Process the epochs that were added to the log."""
        for number in range(len(self._past), len(epochs)):
            for name, step in self._steps.items():
                self.tables[name] = step(number, epochs)
            self._past.append(dict(self.tables))

    def _with_scans(self, node: Node) -> Node:
        """Return the plan with a scan in place of each node that depends on history."""
        if not node.is_historic:
            return node.with_inputs(tuple(self._with_scans(i) for i in node.inputs))
        below = tuple(self._with_scans(i) for i in node.inputs)
        name = f"{self._name}$history{len(self._steps)}"
        self._steps[name] = HISTORY_STEPS[type(node)](self, node, below)
        self.tables[name] = node.schema.arrow.empty_table()
        return Scan(name, node.schema)

    def _folded(self, below: Node, fold: Fold, schema: pa.Schema) -> Step:
        def step(number: int, epochs: Sequence[LoggedEpoch]) -> pa.Table:
            rows = self._answer(below, number, self.tables).to_pylist()
            return pa.Table.from_pylist(fold(rows, epochs[number]), schema=schema)

        return step

    def observed(self, node: Observed, below: tuple[Node, ...]) -> Step:
        fold = EventFold(node)
        return self._folded(with_keys(below[0]), lambda rows, e: fold.epoch(rows, e.clock), node.schema.arrow)

    def replayed(self, node: SplAggregate, below: tuple[Node, ...]) -> Step:
        def step(number: int, epochs: Sequence[LoggedEpoch]) -> pa.Table:
            clocks = tuple(microseconds(e.clock) for e in epochs)
            bounds = tuple(bounds_of(node.input, e.bounds.get).get(node.time or "", NEVER) for e in epochs)
            ends = epochs[number].ends
            return SplReplay(replace(node, input=below[0]), clocks, bounds, self._answer_then, ends).after(number)

        return step

    def joined(self, node: SplJoin, below: tuple[Node, ...]) -> Step:
        def step(number: int, epochs: Sequence[LoggedEpoch]) -> pa.Table:
            clocks = tuple(microseconds(e.clock) for e in epochs)
            return SplJoinReplay(replace(node, left=below[0], right=below[1]), clocks, self._answer_then).after(number)

        return step

    def _answer_then(self, plan: Node, epoch: int, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows of a plan after an epoch, over nodes with history and these tables."""
        return self._answer(plan, epoch, {**(self._past[epoch] if epoch < len(self._past) else self.tables), **tables})

    def emitted(self, node: Emit, below: tuple[Node, ...]) -> Step:
        emission = plan_emission(node, node.input, bounds_by_input(self._catalog, Clocks()))
        visible = tuple(c.name for c in node.input.schema.visible)
        fold = EmitFold(emission, node.input.schema.key or (), visible)

        def made(rows: list[dict[str, Any]], e: LoggedEpoch) -> list[dict[str, Any]]:
            return fold.epoch(rows, microseconds(e.clock), emission.bounds(e.bounds.get))

        return self._folded(below[0], made, node.schema.arrow)

    def ordered(self, node: InOrder, below: tuple[Node, ...]) -> Step:
        emission = plan_emission(node, node.input, bounds_by_input(self._catalog, Clocks()))
        fold = OrderFold(node, node.input.schema.key or (), tuple(c.name for c in node.shown))
        return self._folded(
            below[0], lambda rows, e: fold.epoch(rows, emission.bounds(e.bounds.get)[0], e.clock), node.schema.arrow
        )


HISTORY_STEPS: dict[type[Node], Callable[[History, Any, tuple[Node, ...]], Step]] = {
    Emit: History.emitted,
    InOrder: History.ordered,
    Observed: History.observed,
    SplAggregate: History.replayed,
    SplJoin: History.joined,
}
"""Function per operator with history that derives the operator's rows, epoch by epoch, from the rows of its inputs."""


def has_history(plan: Node) -> bool:
    """Return whether a plan's answer depends on how its input arrived."""
    return any(n.is_historic for n in plan.walk())
