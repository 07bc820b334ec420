"""Traces through a plan down to its scans, and the shared state of every operator's tracing.

In: a plan and the requested predicate on its result. Out: values and plans; `backward` visits the operators.
"""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.plan.operators.nodes import Node, Scan
from belvedere.provenance.constants import fixed_columns
from belvedere.provenance.narrowing import Definition, narrowed
from belvedere.provenance.row_predicates import RowPredicate, matching, same
from belvedere.provenance.why_not.pushed_tests import passing


@dataclass(frozen=True)
class Trail:
    """State of the descent: the words for users, whether the row certainly exists, whether others were in its group."""

    words: tuple[str, ...] = ()
    certain: bool = True
    """Whether the requested row exists. Then tests beside those of its key hold, and its partners exist."""
    grouped: bool = False
    past: bool = False
    """Whether an earlier state of the row is requested.

    Then present rows of other operators give no information on it.
    """
    ahead: bool = False
    """Whether the rows sorted ahead of the requested one, which appeared when they left."""


@dataclass(frozen=True)
class Traced:
    """Rows of a relation from which the requested rows are computed."""

    relation: Scan
    requested: RowPredicate
    words: tuple[str, ...]
    certain: bool
    """Whether such rows exist for certain, without a query."""
    ahead: bool = False
    """As for `Trail`."""


@dataclass(frozen=True)
class Dropped:
    """Rows that would have contributed if an operator had not dropped them."""

    words: str
    rows: Node
    between: tuple[str, ...]
    """Relations whose columns the rows may have."""


@dataclass(frozen=True)
class Below:
    """The predicate on one input of an operator, for the rows from which the requested rows are computed."""

    input: int
    requested: RowPredicate
    words: str = ""
    certain: bool = True
    ahead: bool = False
    """As for `Trail`."""


Found = Traced | Dropped


@dataclass(frozen=True)
class Backward:
    """Tracer that knows which relations are stored. In matches, it replaces the other relations by their plans."""

    definition: Definition

    def rows(self, node: Node, requested: RowPredicate) -> Node:
        """Return the requested rows of an operator as a plan over stored relations."""
        return narrowed(node, requested, self.definition)

    def by_key(self, node: Node, child: Node, requested: RowPredicate, trail: Trail) -> RowPredicate:
        """Return the predicate on an input whose columns and key an operator passes on."""
        (passed, *_), left = passing(node, requested)
        if not left or (trail.certain and is_fixed(passed, child.schema.key)):
            return passed
        return passed + matching(self.rows(node, requested), *same(None, child.schema.key or child.schema.names))


def is_fixed(requested: RowPredicate, key: tuple[str, ...] | None) -> bool:
    """Return whether tests fix each column of a key to one value."""
    return bool(key) and set(key or ()) <= set(fixed_columns(requested.tests))
