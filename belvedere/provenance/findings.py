"""Findings on an existing or missing row: values for trees and documents.

In: results of `why` and `why_not`. Out: a tree of findings. This module sends no query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.provenance.epoch_lookup import Moment


@dataclass(frozen=True)
class FoundRows:
    """Rows of one relation from which a row was computed: their number, and the first ones by key."""

    relation: str
    """The relation's id; for rows dropped by an operator, the id of the operator's first input."""
    words: str
    count: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    order: tuple[str, ...] = ()
    """Columns by which the sample is ordered."""
    untold: str = ""
    """Why its rows are not available."""
    below: tuple[Why, ...] = ()
    """For followed rows of views: their own input rows."""
    between: tuple[str, ...] = ()
    """For rows between operators, which are not rows of `relation`: the ids of all relations whose columns they may
    have."""
    last: Mapping[str, Any] | None = None
    """The last row of an input to arrive, if requested."""


@dataclass(frozen=True)
class Version:
    """A row's values from one epoch to another."""

    row: Mapping[str, Any]
    since: Moment
    until: Moment | None
    """End of the version; None for the present version."""
    made_by: tuple[FoundRows, ...] = ()
    """Input rows of this version that arrived or were deleted in its first epoch."""


@dataclass(frozen=True)
class Since:
    """The age of a row."""

    appeared: Moment | None
    """First appearance of a row with its key; None: not known."""
    changed: Moment | None
    """Last change of the row; None: not known. If not `exact`, the arrival of its last input row."""
    exact: bool
    versions: tuple[Version, ...] = ()
    """The newest versions of the row in a relation WITH HISTORY, newest first."""
    count: int = 0
    """Number of versions in its history."""
    made_by: tuple[FoundRows, ...] = ()
    """Input rows that arrived in the epoch of `changed`, for a view without a history."""
    unknown: tuple[str, ...] = ()
    """Facts that are not known."""


def since_text(found: Since) -> str:
    """Return the age of a row as one line; "" if nothing is known."""
    if found.changed is None:
        return ""
    if not found.exact:
        return f"last arrival: {found.changed}"
    if found.appeared == found.changed:
        return f"there since {found.appeared}"
    return f"last changed in {found.changed}" + (
        f"; there since {found.appeared}" if found.appeared is not None else ""
    )


@dataclass(frozen=True)
class Why:
    """A row of a view and its input rows; its text form is a tree."""

    catalog: Catalog = field(repr=False, compare=False)
    as_text: Callable[[Why], str] = field(repr=False, compare=False)
    """Function that returns its tree as text."""
    view: str
    sql: str
    row: Mapping[str, Any]
    epoch: int | None
    """Epoch in which the rows were read. For a relation that is not a view: the epoch in which the row was found."""
    reads: tuple[FoundRows, ...] = ()
    dropped: tuple[FoundRows, ...] = ()
    late: tuple[FoundRows, ...] = ()
    """Rows of `LATE(T)`, for readers with access to it."""
    inputs: tuple[FoundRows, ...] = ()
    """Input rows of each input, through all views between; empty for followed rows."""
    since: Since | None = None
    """Age of the row; None for followed rows."""

    def __str__(self) -> str:
        return self.as_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text for a notebook."""
        printer.text(str(self))


class PruningKind(StrEnum):
    """Kind of operator that drops the rows."""

    FILTER = "filter"
    HAVING = "having"
    JOIN = "join"
    EXISTS = "exists"
    EXCEPT = "except"
    INTERSECT = "intersect"
    GROUP = "group"
    TOP = "top"
    UNNEST = "unnest"
    WINDOW = "window"
    EMIT = "emit"
    RECURSION = "recursion"
    VALUES = "values"
    INPUT = "input"
    VIEW = "view"
    UNTOLD = "untold"


@dataclass(frozen=True)
class PruningOperator:
    """The first operator on one path that drops the requested rows, with the rows that nearly match."""

    view: str
    """The view whose query has the operator. If an input has no such rows: the input itself."""
    at: PruningKind
    words: str
    near: tuple[FoundRows, ...] = ()
    condition: str = ""
    """The requested condition at this operator."""
    through: tuple[str, ...] = ()
    """Ids of the views on the path, from the requested view on."""
    steps: tuple[str, ...] = ()
    """Operators on the path, with the predicates on their rows."""
    unfollowed: tuple[str, ...] = ()
    """Tests that could not be followed below an operator, each with the operator's name."""


@dataclass(frozen=True)
class WhyNot:
    """The operators that drop the rows of a relation with a condition; its text form is a tree."""

    catalog: Catalog = field(repr=False, compare=False)
    as_text: Callable[[WhyNot], str] = field(repr=False, compare=False)
    """Function that returns its tree as text."""
    view: str
    sql: str
    condition: str
    epoch: int | None
    there: int
    """Number of existing rows that satisfy the condition. If it is not 0, no row is missing."""
    lost: tuple[PruningOperator, ...] = ()

    def __str__(self) -> str:
        return self.as_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text for a notebook."""
        printer.text(str(self))
