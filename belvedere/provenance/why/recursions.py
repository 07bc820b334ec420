"""Backward tracing of a recursion: the rows in the derivations of its requested rows.

In: a Recursion and the requested predicate on its rows. Out: predicates on its first rows and on each side of its step;
a plan of its rows that lead to the requested ones. That plan is itself a recursion, backwards from these rows. Nothing
is computed here.

Source: Cui, Widom, "Lineage tracing for general data warehouse transformations" (VLDB 2001). A step is traced like any
plan. The closure is that of semi-naive evaluation (Bancilhon 1985) over the relation "the step derives it from".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from belvedere.plan.operators import recursion
from belvedere.plan.operators.nodes import Node, Project, Scan, Union
from belvedere.plan.operators.project import item_of, keep_columns
from belvedere.plan.operators.recursion import LAST, Last, Recursion, parted, side_name
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.row_predicates import RowPredicate, matching, same
from belvedere.provenance.why.traces import Backward, Below, Found, Traced, Trail
from belvedere.schema import Schema

Trace = Callable[[Backward, Node, RowPredicate, Trail], Iterator[Found]]
"""`backward.trace`, which calls this module for a Recursion."""


@dataclass(frozen=True)
class StepPlan:
    """The step of a recursion over scans with names that no relation of a script has."""

    node: Recursion

    def name(self, scan: str) -> str:
        """Return the name of a scan in the step."""
        return f"{scan} of recursion {self.node.name}"

    @property
    def plan(self) -> Node:
        """Return the step over these scans."""
        return replace_scans(self.node.step, lambda s: Scan(self.name(s.relation), s.schema))

    @property
    def last(self) -> str:
        """Return the scan of the rows that the step reads."""
        return self.name(LAST)

    @property
    def sides(self) -> dict[str, int]:
        """Return the scans of the sides, with their indexes among the inputs of the recursion."""
        return {self.name(side_name(n)): n + 1 for n in range(len(self.node.sides))}

    def reading(self, back: Backward, rows: Node) -> Backward:
        """Return the tracer that knows the sides, with these rows as the step's input."""
        known = {self.last: rows, **{s: self.node.inputs[n] for s, n in self.sides.items()}}
        return Backward(lambda i: known.get(i) or back.definition(i))


def recursed(trace: Trace, back: Backward, node: Recursion, requested: RowPredicate) -> Iterator[Below]:
    """Trace the first rows that lead to the requested rows, and the rows of the sides in the steps between."""
    step, leading = StepPlan(node), leading_rows(trace, back, node, requested)
    them = _among(node, leading)
    yield Below(0, them, f"first rows of {node.name} that lead to it", certain=False)
    for found in trace(step.reading(back, leading), step.plan, them, Trail(certain=False)):
        if isinstance(found, Traced) and found.relation.relation in step.sides:
            words = "; ".join((f"steps of {node.name} that lead to it", *found.words))
            yield Below(step.sides[found.relation.relation], found.requested, words, certain=False)


def leading_rows(trace: Trace, back: Backward, node: Recursion, requested: RowPredicate) -> Node:
    """Return the plan of the requested rows and, transitively, the rows from which the step derives them."""
    everything = own_columns(node, back.rows(members(node), RowPredicate()))
    step, last = StepPlan(node), Last(node.columns, f"leading to rows of {node.name}")
    inside = step.reading(back, everything)
    ways = [
        narrowed(t.relation, t.requested, inside.definition)
        for t in trace(inside, step.plan, _among(node, last), Trail(certain=False))
        if isinstance(t, Traced) and t.relation.relation == step.last
    ]
    before, sides = parted(Union(tuple(keep_columns(w, names_of(node)) for w in ways)), last)
    own, of_copies = requested.split(names_of(node))
    # equal rows have the same derivations, so any of them may be chosen
    first = own_columns(node, back.rows(node, requested) if of_copies.matches else back.rows(members(node), own))
    # a path back may be longer than the level of a row; it ends, since each row is visited once
    return replace(node, base=first, sides=sides, step=before, distinct=True, levels=recursion.ROWS, copy=None)


def members(node: Recursion) -> Recursion:
    """Return a recursion with each row once.

    UNION ALL becomes distinct if the step derives equal rows from equal rows.
    """
    reads = sum(isinstance(n, Scan) and n.relation == LAST for n in node.step.walk())
    return replace(node, distinct=True, copy=None) if reads == 1 else node


def step_over(node: Recursion) -> Node:
    """Return the step over all rows of the recursion, and over the sides themselves."""
    known = {LAST: own_columns(node, members(node)), **{side_name(n): side for n, side in enumerate(node.sides)}}
    return replace_scans(node.step, lambda s: known[s.relation])


def names_of(node: Recursion) -> tuple[str, ...]:
    """Return the columns that the step reads, without the number of equal rows."""
    return tuple(c.name for c in node.columns)


def own_columns(node: Recursion, rows: Node) -> Node:
    """Return rows of a recursion with the columns that its step reads."""
    return Project(rows, tuple(item_of(c) for c in Schema(node.columns)))


def _among(node: Recursion, rows: Node) -> RowPredicate:
    """Return the predicate on rows that equal one of `rows` in all columns."""
    return matching(rows, *same(None, names_of(node)))
