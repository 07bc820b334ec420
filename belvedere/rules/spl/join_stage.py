"""A stage of joined SPL windows as its epochs read it: the operator and the relations of its state.

In: nothing. Out: the base of the stage that `join_rule` creates, without the computation, and the columns of the
buffered rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.spl_windows import Time
from belvedere.rules.spl.arriving_rows import ArrivingStage
from belvedere.rules.spl.pairs import SIDES
from belvedere.schema import Column

PART, AT, MATCHED = "$part", "$at", "$matched"
"""Columns of the buffered rows: the text of the partition's values, the clock at arrival in microseconds, and whether
there was a match."""
HELD_COLUMNS = (
    Column(PART, pa.string(), nullable=False),
    Column(AT, pa.int64(), nullable=False),
    Column(MATCHED, pa.bool_(), nullable=False),
)


@dataclass(frozen=True)
class SplJoins(ArrivingStage):
    """Base of the stage of joined windows. `node` is the operator.

    `partitions` and `keys` are the access paths of the buffered rows of each side. `partitions`: by partition (None if
    no row replaces another). `keys`: by join key (None if the condition has no equality).
    """

    node: SplJoin
    partitions: tuple[str | None, str | None]
    keys: tuple[str | None, str | None]

    @property
    def buffered(self) -> tuple[str, str]:
        """Return the relations of the rows in the windows."""
        return (f"{self.output}${SIDES[0]}", f"{self.output}${SIDES[1]}")

    @property
    def ages(self) -> tuple[int | None, int | None]:
        """Return the lengths of the windows by time, in microseconds."""
        left, right = (w.eviction for w in self.node.windows)
        return left.micros if isinstance(left, Time) else None, right.micros if isinstance(right, Time) else None

    @property
    def reads_clock(self) -> bool:
        return any(outer and age is not None for outer, age in zip(self.node.outer, self.ages, strict=True))

    @property
    def states(self) -> tuple[str, ...]:
        return self.buffered
