"""What the stages of WINDOW BY know beside their plan: when rows leave the state, and which rows a change can reach.

In: an operator that can resume and its input's plan. Out: a `Settling` or a `Reach`, as data.
"""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.plan.bounds import Known, bounds_of
from belvedere.plan.monotone import NEVER
from belvedere.plan.nodes import Node
from belvedere.plan.window_by import Ranges, Resume, WindowBlock

ROW, SINCE = "row", "since"
"""The columns of the relations that keep from where on windows are not final, beside the values of PARTITION BY."""


@dataclass(frozen=True)
class Settling:
    """`source` is the input's plan down to the catalog's inputs: it gives the bound on the time column."""

    block: WindowBlock
    resume: Resume
    source: Node

    def bound(self, inputs: Known) -> int:
        """No later row has a time below this, in microseconds."""
        return bounds_of(self.source, inputs).get(self.resume.column, NEVER)


@dataclass(frozen=True)
class Reach:
    """How a change's reach is found in the store: by `ranges`, which are those of the stage's block.

    `order` is ORDER BY's first key in the rows that are looked up, `partition` the columns of PARTITION BY there; `start` is the column of
    the output with the order key of each window's start (TUMBLING).
    """

    ranges: Ranges
    order: str
    partition: tuple[str, ...]
    start: str | None
