"""Specification for the kernels: how boundaries are found, and the outputs per window.

In: names of the row columns that Spark prepares. Out: immutable types that travel to the workers. Nothing is computed
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_DECIMAL_DIGITS = 28
"""Digits of decimals whose sums the kernels compute: 2^31 of them stay below 128 bits."""


@dataclass(frozen=True)
class ConstantTerm:
    """A number or boolean; None where it is not known. With `column` it is what that holds in every row."""

    value: Any = None
    column: str | None = None


@dataclass(frozen=True)
class ColumnTerm:
    """A column at a side's tuple or neighbour; its position without column. `missing`: the value where there is no such tuple."""

    side: str
    role: str
    column: str | None
    missing: ConstantTerm = ConstantTerm()


@dataclass(frozen=True)
class OperationTerm:
    """Of terms: `and`, `or`, `not`, a comparison, `+ - * / DIV %`, `least`, `greatest`, `if` (condition, then, else), `known`,
    `in` (a column, a column of arrays),
    `text` (a column), `concat`."""

    operator: str
    parts: tuple[Term, ...]


Term = ColumnTerm | ConstantTerm | OperationTerm  # a value for one tuple of each side


@dataclass(frozen=True)
class CompareSpec:
    """`searched operator known`; `direction` 1 or -1 where the searched value rises or falls within a partition, else 0."""

    searched: Term
    operator: str
    known: Term
    direction: int = 0
    nulls_first: bool = True


@dataclass(frozen=True)
class ConjunctionSpec:
    """Conditions that must all be TRUE: on known tuples, on the searched one, between them."""

    known: tuple[Term, ...]
    local: tuple[Term, ...]
    compares: tuple[CompareSpec, ...]


@dataclass(frozen=True)
class BoundarySpec:
    """How a boundary is found: at once (`local`), at the partition's edge (`unbounded`), by a search, or by a scan of all pairs."""

    local: tuple[Term, ...] = ()
    unbounded: bool = False
    search: tuple[ConjunctionSpec, ...] | None = None
    scan: Term | None = None


@dataclass(frozen=True)
class Gather:
    """A column's value at a boundary's tuple or neighbour."""

    output: str
    side: str
    role: str
    column: str


@dataclass(frozen=True)
class BoundaryPosition:
    """A boundary's position, from 1."""

    output: str
    side: str


@dataclass(frozen=True)
class Flag:
    """Whether a boundary's tuple (or its neighbour) is MISSING."""

    output: str
    side: str
    role: str


@dataclass(frozen=True)
class Length:
    """LEN(w)."""

    output: str


@dataclass(frozen=True)
class Nth:
    """A column's value at w[index]; `flag` is the column that says MISSING."""

    output: str
    flag: str
    index: int
    column: str


@dataclass(frozen=True)
class WindowAggregate:
    """An aggregate over the window's rows. `included` (boolean column) restricts them; `extra` says that the MISSING of an
    unclosed window counts as a member that is not a value. `fraction` is a percentile's."""

    output: str
    function: str
    column: str
    included: str | None = None
    strict: bool = False
    extra: bool = True
    fraction: float = 0.5


@dataclass(frozen=True)
class Members:
    """An array of the window's rows: of one column's values, or of objects of several; NULL where MISSING."""

    output: str
    fields: tuple[tuple[str, str], ...]
    whole: bool


ResultColumn = Gather | BoundaryPosition | Flag | Length | Nth | WindowAggregate | Members


@dataclass(frozen=True)
class KernelSpec:
    """Everything that `window_tables` needs to know."""

    keys: tuple[str, ...]
    tumbling: bool
    only: bool
    label: BoundarySpec | None
    start: BoundarySpec
    end: BoundarySpec | None
    outputs: tuple[ResultColumn, ...]


@dataclass(frozen=True)
class Ends:
    """Facts about END for blocks of rows that find their windows alone.

    `closing` are the positions of its alternatives that never move back, `at_once` those of them that read one tuple
    and its neighbours; `length` is the common length of all TUMBLING windows, if there is one.
    """

    closing: tuple[int, ...] = ()
    at_once: tuple[int, ...] = ()
    length: int | None = None
