"""A stage of SPL windows as its epochs read it: the operator and the relations of its state.

In: nothing. Out: the base of the stage that `window_rule` creates, without the computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from belvedere.plan.operators.nodes import Node
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_windows import Interval, PartitionCount, SplWindow, TupleCount
from belvedere.rules.spl import window_state
from belvedere.rules.spl.arriving_rows import ArrivingStage
from belvedere.rules.spl.block_columns import has_blocks


@dataclass(frozen=True)
class SplWindows(ArrivingStage):
    """Base of the stage of windows.

    `node` is the operator, `source` its input's plan down to the catalog's inputs (for bounds), `path` the output's
    access path.
    """

    node: SplAggregate
    source: Node
    path: str | None

    @property
    def window(self) -> SplWindow:
        """Return the window clause."""
        return self.node.window

    @property
    def has_panes(self) -> bool:
        """Return whether event time ends the windows."""
        return isinstance(self.window.kind, Interval)

    @property
    def buffered(self) -> str:
        """Return the relation of the rows in windows."""
        return self.output + window_state.ROWS

    @property
    def partitions(self) -> str:
        """Return the relation with a row for each partition."""
        return self.output + window_state.PARTITIONS

    @property
    def blocks(self) -> str:
        """Return the relation of blocks of these rows."""
        return self.output + window_state.BLOCKS

    @cached_property
    def in_blocks(self) -> bool:
        """Return whether blocks can represent rows."""
        return has_blocks(self.node)

    @property
    def reads_clock(self) -> bool:
        return True

    @property
    def takes_all(self) -> bool:
        """Return whether a row can affect any partition."""
        return isinstance(self.window.forgetting, PartitionCount | TupleCount) or self.window.evicted

    @property
    def states(self) -> tuple[str, ...]:
        if self.has_panes:
            return (self.buffered,)
        return (self.buffered, self.partitions, *([self.blocks] if self.in_blocks else []))
