"""When rows leave the state of WINDOW BY.

In: an operator that can resume and its input's plan. Out: a `Settling`, as data.
"""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.plan.bounds import Known, bounds_of
from belvedere.plan.monotone import NEVER
from belvedere.plan.nodes import Node
from belvedere.plan.window_by import Resume, WindowBlock

ROW, SINCE = "row", "since"
"""The columns of the relation that keeps from where on windows are not final, beside the values of PARTITION BY."""


@dataclass(frozen=True)
class Settling:
    """`source` is the input's plan down to the catalog's inputs: it gives the bound on the time column."""

    block: WindowBlock
    resume: Resume
    source: Node

    def bound(self, inputs: Known) -> int:
        """No later row has a time below this, in microseconds."""
        return bounds_of(self.source, inputs).get(self.resume.column, NEVER)
