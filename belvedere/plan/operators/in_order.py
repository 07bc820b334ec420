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
    """SELECT STREAM: rows that only arrive, in the order of the column `time`, as soon as no earlier one can come.

    With `within` (microseconds; ORDER BY ... WITHIN) rows wait for a time so much greater instead of a bound, and those that come
    after that are dropped. With `then` rows of equal time come in the order of these columns (name, descending, NULLs first), and so
    wait until no other row of their time can come.
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
        """The columns of its input that it has: those that are visible, and the time."""
        return tuple(c for c in self.input.schema if not c.hidden or c.name == self.time)

    @property
    def came(self) -> str:
        """The hidden column with the clock at which a row came out."""
        return unused_name(CAME, {c.name for c in self.shown})

    is_historic: ClassVar[bool] = True

    @property
    def text(self) -> str:
        then = "".join(f", {name}{' desc' if down else ''}" for name, down, _ in self.then)
        return f"in order of {self.time}{then}" + (f" within {self.within}us" if self.within is not None else "")

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return (only(self.input.bounds(known), (self.time,)) if self.within is None else {},)
