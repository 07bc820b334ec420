"""LABEL, START and END for the kernels: conditions as terms, comparisons as columns of numbers.

In: the classified boundaries. Out: `BoundarySpec`s over columns of the rows, or `Untranslatable` with the reason.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.plan.operators import window_specs as specs
from belvedere.sqlpp.query_tree import Boundary, Expr
from belvedere.sqlpp.windows.boundary_classes import Compare, ItemFacts, Search, Summand, classify, is_monotone
from belvedere.sqlpp.windows.plan_terms import TermPlanner


class BoundaryPlanner(TermPlanner):
    """Plans the boundaries of one block."""

    def single(self, when: Expr | None) -> specs.BoundarySpec:
        """A boundary that one tuple decides alone."""
        if when is None or (isinstance(when, exp.Boolean) and when.this):
            return specs.BoundarySpec()
        return specs.BoundarySpec(local=(self.condition(when),))

    def searched(self, side: str, boundary: Boundary, item: ItemFacts) -> specs.BoundarySpec:
        """A boundary that is looked for from a known tuple on."""
        if boundary.unbounded:
            return specs.BoundarySpec(unbounded=True)
        found = classify(self.window, side, item)
        if found is None:
            assert boundary.when is not None
            return specs.BoundarySpec(scan=self.condition(boundary.when))
        return specs.BoundarySpec(search=self.search(found, item))

    def search(self, found: Search, item: ItemFacts) -> tuple[specs.ConjunctionSpec, ...]:
        return tuple(
            specs.ConjunctionSpec(
                tuple(self.condition(x) for x in c.known),
                tuple(self.condition(x) for x in c.local),
                tuple(self.compare(x, item) for x in c.compares),
            )
            for c in found.conjunctions
        )

    def compare(self, atom: Compare, item: ItemFacts) -> specs.CompareSpec:
        """A comparison of two tuples by columns of the rows."""
        key = self.window.order[0]
        position = atom.searched[0].role == "position"
        direction = 0 if not is_monotone(atom, item) else 1 if position or not key.descending else -1
        if len(atom.searched) == len(atom.known) == 1 and all(_is_leaf(p) for p in (*atom.searched, *atom.known)):
            searched, known = self.pair(atom.searched[0], atom.known[0])
        else:
            searched, known = self.total(atom.searched), self.total(atom.known)
        return specs.CompareSpec(searched, atom.operator, known, direction, key.nulls_come_first)


def _is_leaf(part: Summand) -> bool:
    return bool(part.side) and part.role != "position" and part.sign > 0
