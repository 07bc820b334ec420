"""Analysis of an EMIT or SELECT STREAM: its grouping columns, the columns that complete a group, and its state.

In: an `Emit` or `InOrder` node and its input's plan down to the catalog's inputs. Out: an `Emission`, as data. A
*group* is an event-time grouping of the paper (One SQL): the rows with equal windows or event-time keys, or each single
row if there are none. Versions and delays count per group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.plan.bound_rules import Known
from belvedere.plan.bounds import bounds_of, event_time_columns, grouping_columns
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.rewrite import inline
from belvedere.rules.builder import Builder
from belvedere.schema import Column, Schema
from belvedere.time.event_time import Clocks, bounds_by_input

DUE, COMPLETE, WAIT = "due", "complete", "wait"
PLAIN = ("group", "ver", COMPLETE)
"""The columns of groups that are not looked up by range."""


@dataclass(frozen=True)
class Emission:
    """The way in which a relation's changes are emitted.

    `group` are the columns that identify groups. A group is complete when one of `times` is below its bound. `source`
    is the input's plan over the catalog's inputs, for bounds.
    """

    node: Emit | InOrder
    source: Node
    group: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    never_final: frozenset[str] = frozenset()
    """Inputs whose rows can change below their bounds: updated tables, and streams that accept late rows."""

    @property
    def delay(self) -> int | None:
        """Return the microseconds from the first change of a group to its emission."""
        return self.node.delay if isinstance(self.node, Emit) else None

    @property
    def watermark(self) -> bool:
        """Return whether a group is emitted when it is complete."""
        return isinstance(self.node, Emit) and self.node.watermark

    @property
    def stream(self) -> bool:
        """Return whether the output is a changelog."""
        return isinstance(self.node, Emit) and self.node.stream

    @property
    def at_once(self) -> bool:
        """Return whether every change is emitted in its epoch. Then only versions are stored."""
        return self.delay is None and not self.watermark

    @property
    def groups_schema(self) -> Schema:
        """Return the schema of the relation of groups."""
        waits = tuple(Column(f"{WAIT}{n}", pa.int64()) for n in range(len(self.times)))
        columns = (
            Column("group", pa.int64(), nullable=False),
            Column("ver", pa.int64(), nullable=False),
            Column(DUE, pa.int64()),
            Column(COMPLETE, pa.bool_(), nullable=False),
        )
        return Schema((*columns, *waits), ("group",))

    def is_final(self, catalog: Catalog) -> bool:
        """Return whether the rows of an ordered input are final once its bound has passed their time."""
        if not isinstance(self.node, InOrder) or self.node.within is not None:
            return False
        tables = [catalog.inputs.get(n.relation) for n in self.source.walk() if isinstance(n, Scan)]
        grows = all(t is not None and t.append_only for t in tables)
        return grows and self.node.time in event_time_columns(
            self.source, bounds_by_input(catalog, Clocks()).__getitem__
        )

    def final_bounds(self, inputs: Known) -> tuple[int, ...]:
        """Return the bounds of `times` below which rows are final: no update or late row changes them."""
        found = bounds_of(self.source, lambda i: {} if i in self.never_final else inputs(i) or {})
        return tuple(found.get(n, NEVER) for n in self.times)

    @property
    def forgets(self) -> bool:
        """Return whether groups can become final."""
        scanned = {n.relation for n in self.source.walk() if isinstance(n, Scan)}
        return bool(self.times) and not scanned & self.never_final

    def bounds(self, inputs: Known) -> tuple[int, ...]:
        """Return the bounds of `times` (`InOrder`: of its time)."""
        found = bounds_of(self.source, inputs)
        names = (self.node.time,) if isinstance(self.node, InOrder) else self.times
        return tuple(found.get(n, NEVER) for n in names)


def plan_emission(
    node: Emit | InOrder,
    source: Node,
    inputs: Mapping[str, Mapping[str, int] | None],
    never_final: frozenset[str] = frozenset(),
) -> Emission:
    """Find the groups and the columns that complete them. `inputs` names the event-time columns of the inputs."""
    if isinstance(node, InOrder):
        return Emission(node, source)
    known: Known = inputs.__getitem__
    names = source.schema.names
    timed = event_time_columns(source, known)
    grouping = grouping_columns(source, known)
    if grouping and (grouping & timed or not node.watermark):
        group = tuple(n for n in names if n in grouping)
        return Emission(node, source, group, tuple(n for n in group if n in timed), never_final)
    return Emission(node, source, source.schema.key or (), tuple(n for n in names if n in timed), never_final)


def emission_of(builder: Builder, top: Emit | InOrder) -> Emission:
    """Return the `Emission` of an operator of a script."""
    source = inline(top.input, lambda i: builder.catalog.views[i].plan if i in builder.catalog.views else None)
    return plan_emission(top, source, bounds_by_input(builder.catalog, Clocks()), builder.never_final)


@dataclass
class GroupState:
    """State of one group between its changes."""

    version: int = 0
    due: int | None = None
    complete: bool = False
    waits: tuple[int | None, ...] = ()

    def passed(self, bounds: tuple[int, ...]) -> bool:
        """Return whether one of the group's times is below the bound of its column."""
        return any(w is not None and w < b for w, b in zip(self.waits, bounds, strict=True))


def due_groups(
    emission: Emission, groups: Mapping[int, GroupState], touched: set[int], bounds: tuple[int, ...], now: int
) -> set[int]:
    """Return the groups that are emitted with this epoch's changes at the epoch's clock.

    Set and clear delays, and mark complete groups.
    """
    firing: set[int] = set()
    for key, group in groups.items():
        completes = emission.watermark and not group.complete and group.passed(bounds)
        group.complete = group.complete or completes
        if completes or (key in touched and emission.delay is None and (group.complete or not emission.watermark)):
            firing.add(key)
            group.due = None
            continue
        if key in touched and emission.delay is not None and group.due is None:
            group.due = now + emission.delay
        if group.due is not None and group.due <= now:
            firing.add(key)
            group.due = None
    return firing


def orderable(value: Any) -> tuple[int, Any]:
    """Return a sort key for a value among values of its type: NaN after all numbers, NULL last."""
    if value is None:
        return 2, 0
    if value != value:
        return 1, "nan"
    if isinstance(value, (int, float, str, bytes)) or hasattr(value, "year") or hasattr(value, "as_tuple"):
        return 0, value
    return 1, repr(value)


def explain_emission(emission: Emission) -> str:
    """Describe an emission in words: its groups, and what completes them."""
    node = emission.node
    if isinstance(node, InOrder):
        waits = (
            f"{node.time} is {node.within}us old"
            if node.within is not None
            else f"the watermark reaches its {node.time}"
        )
        if node.then:
            waits = f"the watermark has passed its {node.time}, sorted by {', '.join(name for name, _, _ in node.then)}"
        return f"a row is emitted once {waits}"
    by = ", ".join(emission.group) or "one group"
    words = [f"{'changes' if node.stream else 'rows'} by {by}"]
    if node.delay is not None:
        words.append(f"{node.delay}us after the first change of a group")
    if node.watermark:
        words.append(f"once {' or '.join(emission.times)} is below its watermark")
    if emission.forgets:
        words.append(f"forgotten once {' or '.join(emission.times)} is below its watermark")
    elif not node.watermark or node.stream:
        words.append("never forgotten: no watermark makes a group final")
    return ", ".join(words)
