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
    """State of the descent: the words for people, whether the row certainly exists, whether others were in its group."""

    words: tuple[str, ...] = ()
    certain: bool = True
    """Whether the wanted row is one that exists: tests beside those of its key then hold, and its partners are there."""
    grouped: bool = False
    past: bool = False
    """Whether the wanted row is looked for as it once was, so that rows of other operators now say nothing of it."""
    ahead: bool = False
    """Whether the rows stood ahead of the wanted one: it came as they went."""


@dataclass(frozen=True)
class Traced:
    """Rows of a relation that the wanted rows are made of."""

    relation: Scan
    requested: RowPredicate
    words: tuple[str, ...]
    certain: bool
    """Whether it is known without a look that there are some."""
    ahead: bool = False
    """As that of a `Trail`."""


@dataclass(frozen=True)
class Dropped:
    """Rows that would have counted if an operator had not dropped them."""

    words: str
    rows: Node
    between: tuple[str, ...]
    """The relations whose columns they may have."""


@dataclass(frozen=True)
class Below:
    """The predicate on one input of an operator, for the rows from which the requested rows are computed."""

    input: int
    requested: RowPredicate
    words: str = ""
    certain: bool = True
    ahead: bool = False
    """As that of a `Trail`."""


Found = Traced | Dropped


@dataclass(frozen=True)
class Backward:
    """Tracer that knows which relations are stored: others are replaced by their plans where rows must match."""

    definition: Definition

    def rows(self, node: Node, requested: RowPredicate) -> Node:
        """The wanted rows of an operator as a plan over stored relations."""
        return narrowed(node, requested, self.definition)

    def by_key(self, node: Node, child: Node, requested: RowPredicate, trail: Trail) -> RowPredicate:
        """The rows of an input whose columns and key an operator passes on."""
        (passed, *_), left = passing(node, requested)
        if not left or (trail.certain and is_fixed(passed, child.schema.key)):
            return passed
        return passed + matching(self.rows(node, requested), *same(None, child.schema.key or child.schema.names))


def is_fixed(requested: RowPredicate, key: tuple[str, ...] | None) -> bool:
    """Whether tests give each column of a key one value."""
    return bool(key) and set(key or ()) <= set(fixed_columns(requested.tests))
