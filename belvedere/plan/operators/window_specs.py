"""Specification for the kernels: the search for boundaries, and the outputs per window.

In: names of the row columns that Spark prepares. Out: immutable types that are sent to the workers. Nothing is computed
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

MAX_DECIMAL_DIGITS = 28
"""Maximum number of digits of decimals whose sums the kernels compute: 2^31 such values stay below 128 bits."""


@dataclass(frozen=True)
class ConstantTerm:
    """A number or boolean; None if unknown. With `column` it is the value of that column, equal in every row."""

    value: Any = None
    column: str | None = None


@dataclass(frozen=True)
class ColumnTerm:
    """A column of a side's tuple or neighbour; without `column` the tuple's position. `missing` is the value if there
    is no such tuple."""

    side: str
    role: str
    column: str | None
    missing: ConstantTerm = ConstantTerm()


@dataclass(frozen=True)
class OperationTerm:
    """An operation on terms: `and`, `or`, `not`, a comparison, `+ - * / DIV %`, `least`, `greatest`, `if` (condition,
    then, else), `known`, `in` (a column, a column of arrays), `text` (a column), `concat`."""

    operator: str
    parts: tuple[Term, ...]


@dataclass(frozen=True)
class PrefixTerm:
    """The sum of a column of whole numbers (`counts`: the number of its values that are not NULL) over the partition's
    rows before a side's tuple; with `through` that tuple counts too."""

    side: str
    column: str
    counts: bool
    through: bool
    role: ClassVar[str] = "item"


@dataclass(frozen=True)
class RunningTerm:
    """SUM, MIN or MAX of a column over the window's rows up to the searched tuple, in their order."""

    function: str
    column: str
    role: ClassVar[str] = "item"


Term = ColumnTerm | ConstantTerm | OperationTerm | PrefixTerm | RunningTerm  # a value for one tuple of each side


@dataclass(frozen=True)
class CompareSpec:
    """`searched operator known`; `direction` is 1 or -1 if the searched value rises or falls within a partition, else
    0."""

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
    """Method to find a boundary: at once (`local`), at the partition's edge (`unbounded`), by a search, or by a scan of
    all pairs."""

    local: tuple[Term, ...] = ()
    unbounded: bool = False
    search: tuple[ConjunctionSpec, ...] | None = None
    scan: Term | None = None


@dataclass(frozen=True)
class Gather:
    """The value of a column at a boundary's tuple or neighbour."""

    output: str
    side: str
    role: str
    column: str


@dataclass(frozen=True)
class BoundaryPosition:
    """Position of a boundary, from 1."""

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
    """The value of a column at w[index]; `flag` is the column that is TRUE for MISSING."""

    output: str
    flag: str
    index: int
    column: str


@dataclass(frozen=True)
class WindowAggregate:
    """An aggregate over the window's rows. `included` (boolean column) restricts them. With `extra` the MISSING of an
    unclosed window counts as a member without a value. `fraction` is a percentile's."""

    output: str
    function: str
    column: str
    included: str | None = None
    strict: bool = False
    extra: bool = True
    fraction: float = 0.5


@dataclass(frozen=True)
class Members:
    """An array of the window's rows: of one column's values, or of objects of several; NULL for MISSING."""

    output: str
    fields: tuple[tuple[str, str], ...]
    whole: bool


ResultColumn = Gather | BoundaryPosition | Flag | Length | Nth | WindowAggregate | Members


@dataclass(frozen=True)
class KernelSpec:
    """Parameters of `window_tables`."""

    keys: tuple[str, ...]
    tumbling: bool
    only: bool
    label: BoundarySpec | None
    start: BoundarySpec
    end: BoundarySpec | None
    outputs: tuple[ResultColumn, ...]


@dataclass(frozen=True)
class Ends:
    """Facts about END with which blocks of rows find their windows independently.

    `closing` are the positions of its alternatives that never move back. `at_once` are those of them that read one
    tuple and its neighbours. `length` is the common length of all TUMBLING windows, if there is one.
    """

    closing: tuple[int, ...] = ()
    at_once: tuple[int, ...] = ()
    length: int | None = None
