"""SELECT STREAM: rows in the order of their time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from belvedere.plan.bound_rules import Bounds, Known, only
from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.node import Node
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP, Column, Schema

CAME = "_came"


@dataclass(frozen=True)
class InOrder(Node):
    """SELECT STREAM: append-only rows in the order of the column `time`. A row is emitted as soon as no earlier row can
    arrive.

    With `within` (microseconds; ORDER BY ... WITHIN) the operator uses no bound. A row is emitted once a row has
    arrived whose time is later by `within`; rows that arrive after that are dropped.

    With `then` rows of equal time are ordered by these columns (name, descending, NULLs first). They wait until no
    further row of their time can arrive.
    """

    input: Node
    time: str
    within: int | None = None
    then: tuple[tuple[str, bool, bool], ...] = ()

    @cached_property
    def schema(self) -> Schema:
        number = Column(SEQUENCE, pa.int64(), nullable=False, hidden=True)
        came = Column(self.came, TIMESTAMP, nullable=False, hidden=True)
        return Schema((*self.shown, came, number), (SEQUENCE,))

    @property
    def shown(self) -> tuple[Column, ...]:
        """Return the input columns of the result: the visible ones and the time."""
        return tuple(c for c in self.input.schema if not c.hidden or c.name == self.time)

    @property
    def came(self) -> str:
        """Return the name of the hidden column with the clock at which a row was emitted."""
        return unused_name(CAME, {c.name for c in self.shown})

    is_historic: ClassVar[bool] = True

    @property
    def text(self) -> str:
        then = "".join(f", {name}{' desc' if down else ''}" for name, down, _ in self.then)
        return f"in order of {self.time}{then}" + (f" within {self.within}us" if self.within is not None else "")

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return (only(self.input.bounds(known), (self.time,)) if self.within is None else {},)
