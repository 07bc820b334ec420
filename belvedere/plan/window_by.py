"""The relational operator of WINDOW BY: a query of the window language over some relations.

In: relations by the name that the query gives them, and its text. Out: a relation with one row per window. This module says nothing
about how windows are found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from belvedere.plan.nodes import Node
from belvedere.schema import Column, Schema

JOIN, GROUPS = "join", "groups"
COPY = "_copy"
"""The hidden column that numbers equal rows where a result has no other identity."""


@dataclass(frozen=True)
class Resume:
    """Windows with an end below a bound on `column`, ORDER BY's first key, are final; `ahead`: with the tuple after the end below it.

    `tumbling` windows must be looked for from the start of one on; `endless` ones end with the start of the next. `before`: some condition
    reads the tuple before its own. `labelled`: a window begins at a distance before its label (`Ranges.labelled`).
    """

    column: str
    ahead: bool
    tumbling: bool
    endless: bool = False
    before: bool = False
    labelled: bool = False

    @property
    def looks_back(self) -> bool:
        """Whether rows stay of which all windows are final, since later ones read them."""
        return self.before or self.labelled


@dataclass(frozen=True)
class Ranges:
    """Windows that no change between two values of `column`, ORDER BY's first key, can reach can be told from the others.

    `before`, `ahead`: some condition reads the tuple before or after its own. SLIDING: `closing` are the places of the alternatives of END
    whose nearest tuple never moves back as the start moves on. TUMBLING windows are told by the stored ones, so `closing` is empty.
    """

    column: str
    before: bool
    ahead: bool
    tumbling: bool
    closing: tuple[int, ...] = ()
    descending: bool = False
    """Whether ORDER BY's first key falls from tuple to tuple."""
    labelled: bool = False
    """Whether windows are found by their labels. START lies at a distance before the label."""
    pinned: bool = False
    """Whether END is one tuple before the label, and windows without it are dropped: no later row brings it."""


@dataclass(frozen=True)
class WindowBlock(Node):
    """The results of the query `text`; `relations` are what its FROM names, their visible columns as objects.

    `partition` are columns of the one relation by whose values windows are independent: those of PARTITION BY (hidden ones where it has
    expressions that are no columns); none where any row may change any window. `identity` are columns of it that tell the results apart,
    taken from the tuple of each window's label or start (`partition` itself where a partition has one window); None where rows are told
    apart by their content alone (and `partition`).
    """

    relations: tuple[tuple[str, Node], ...]
    text: str
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ()
    identity: tuple[str, ...] | None = None
    resume: Resume | None = None
    """Whether old rows may go once their windows are final; None where any window may need them."""
    ranges: Ranges | None = None
    """How the windows that a change can reach are told from the others; None where any window of the partition may change."""
    why_all: str = ""
    """Why any window of the partition may change, in words."""
    notes: tuple[str, ...] = ()
    """How the windows are found and what that costs, in words."""
    over: str = ""
    """What the one relation is where it is no table: JOIN of all tables of FROM, or GROUPS of the rows of one."""
    by: tuple[str, ...] = ()
    """What each of `partition` is, in words."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(node for _, node in self.relations)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, relations=tuple((name, node) for (name, _), node in zip(self.relations, inputs, strict=True)))

    @property
    def found(self) -> str:
        """How the windows are found, in one line."""
        return "; ".join(line.strip() for line in self.notes)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns of the one relation that the result has as hidden ones."""
        order = (self.ranges.column,) if self.ranges is not None and self.ranges.tumbling else ()
        return tuple(dict.fromkeys((*self.partition, *(self.identity or ()), *order)))

    def place_of(self, column: str) -> str:
        """The result's hidden column that holds one of `carried`."""
        return self.schema.columns[len(self.columns) + self.carried.index(column)].name

    @cached_property
    def schema(self) -> Schema:
        shown = {c.name.casefold() for c in self.columns}
        given = self.inputs[0].schema if self.carried else Schema(())
        hidden = {n: Column(_free(f"_at_{n}", shown), given[n].type, given[n].nullable, hidden=True) for n in self.carried}
        if self.identity is None:
            number = Column(_free(COPY, shown), pa.int64(), nullable=False, hidden=True)
            content = (*self.columns, *hidden.values())
            return Schema((*content, number), (*(c.name for c in content), number.name))
        return Schema((*self.columns, *hidden.values()), tuple(hidden[n].name for n in self.identity))

    @property
    def partition_columns(self) -> tuple[Column, ...]:
        """The result's columns that hold `partition`."""
        return tuple(self.schema.columns[len(self.columns) + n] for n in range(len(self.partition)))


def _free(name: str, taken: set[str]) -> str:
    while name.casefold() in taken:
        name += "_"
    return name
