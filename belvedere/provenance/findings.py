"""Findings on an existing or missing row: values for trees and documents.

In: results of `why` and `why_not`. Out: a tree of findings. It sends no query itself.
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
    """Rows of one relation that a row was made of: how many, and the first of them by key."""

    relation: str
    """The relation's id; of what was dropped on the way, that of the operator's first input."""
    words: str
    count: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    order: tuple[str, ...] = ()
    """The columns by which the sample is the first rows."""
    untold: str = ""
    """Why its rows are not available."""
    below: tuple[Why, ...] = ()
    """For rows of views that were followed: what they were made of."""
    between: tuple[str, ...] = ()
    """For rows between operators, which are not rows of `relation`: all relations whose columns they may have, by their
    ids.
    """
    last: Mapping[str, Any] | None = None
    """The last row of an input to arrive, if requested."""


@dataclass(frozen=True)
class Version:
    """A row as it was from one epoch to another."""

    row: Mapping[str, Any]
    since: Moment
    until: Moment | None
    """None: it holds."""
    made_by: tuple[FoundRows, ...] = ()
    """Rows of the inputs that came or went in the epoch in which it began, and that the row was made of."""


@dataclass(frozen=True)
class Since:
    """Since when a row is there."""

    appeared: Moment | None
    """Since when there is a row of its key; None: not known."""
    changed: Moment | None
    """When it last changed; where that is not `exact`, when the last of the rows arrived that it is made of. None: not known."""
    exact: bool
    versions: tuple[Version, ...] = ()
    """The newest versions of the row in a relation WITH HISTORY, newest first."""
    count: int = 0
    """How many versions its history has."""
    made_by: tuple[FoundRows, ...] = ()
    """Rows of the inputs that arrived in the epoch of `changed`, for a view without a history."""
    unknown: tuple[str, ...] = ()
    """Facts that are not known."""


def since_text(found: Since) -> str:
    """The answer in a line; "" where nothing is known."""
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
    """A row of a view, and what it was made of; as text it is a tree."""

    catalog: Catalog = field(repr=False, compare=False)
    as_text: Callable[[Why], str] = field(repr=False, compare=False)
    """Makes the tree of it."""
    view: str
    sql: str
    row: Mapping[str, Any]
    epoch: int | None
    """That in which the rows were read; of a relation that is no view the one in which it was found."""
    reads: tuple[FoundRows, ...] = ()
    dropped: tuple[FoundRows, ...] = ()
    late: tuple[FoundRows, ...] = ()
    """Rows of `LATE(T)`, which are for who may read it."""
    inputs: tuple[FoundRows, ...] = ()
    """The rows of each input that it comes from, through all views between; of rows that were followed it is left out."""
    since: Since | None = None
    """Since when the row is there; of rows that were followed it is left out."""

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
    """The first operator on one way at which the wanted rows vanish, with the rows that nearly made them."""

    view: str
    """The view whose query has the operator; of an input that has no such rows the input itself."""
    at: PruningKind
    words: str
    near: tuple[FoundRows, ...] = ()
    condition: str = ""
    """The requested condition at this operator."""
    through: tuple[str, ...] = ()
    """The ids of the views on the way, from the one that was asked for."""
    steps: tuple[str, ...] = ()
    """The operators on the way that say by what rows were looked for."""
    unfollowed: tuple[str, ...] = ()
    """Tests that could not be followed below an operator, each with its name."""


@dataclass(frozen=True)
class WhyNot:
    """Where the rows of a relation with a condition vanish; as text it is a tree."""

    catalog: Catalog = field(repr=False, compare=False)
    as_text: Callable[[WhyNot], str] = field(repr=False, compare=False)
    """Makes the tree of it."""
    view: str
    sql: str
    condition: str
    epoch: int | None
    there: int
    """How many rows have it: where there are any, nothing is lost."""
    lost: tuple[PruningOperator, ...] = ()

    def __str__(self) -> str:
        return self.as_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text for a notebook."""
        printer.text(str(self))
