"""Predicates on the rows of a relation: tests of its columns, and other rows that must, or must not, match.

In: conditions over columns, plans of other rows. Out: predicates on an operator's rows, which `narrowing` turns into
plans.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.expressions import column, columns_of, conjunction, map_columns, replace_columns
from belvedere.plan.operators.nodes import Expr, Node, Project
from belvedere.plan.operators.project import item_of

MARK = "~wanted"
"""Suffix of the column names of matching rows. It keeps them distinct from the relation's own columns."""


@dataclass(frozen=True)
class Match:
    """The condition that a row of `rows` matches, over both relations' columns (`negated`: that none matches)."""

    rows: Node
    condition: Expr
    negated: bool = False

    @property
    def reads(self) -> frozenset[str]:
        """Return the columns of the relation that the condition reads."""
        return columns_of(self.condition) - set(self.rows.schema.names)


@dataclass(frozen=True)
class RowPredicate:
    """A predicate that is TRUE if all tests and all matches are; without any it selects all rows."""

    tests: tuple[Expr, ...] = ()
    matches: tuple[Match, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tests or self.matches)

    def __add__(self, other: RowPredicate) -> RowPredicate:
        tests = (*self.tests, *(t for t in other.tests if t not in self.tests))
        return RowPredicate(tests, (*self.matches, *other.matches))

    def over(self, mapping: Mapping[str, Expr]) -> RowPredicate:
        """Return the predicate over other columns, from which these expressions compute the relation's columns."""
        tests = tuple(replace_columns(t, mapping) for t in self.tests)
        return RowPredicate(
            tests, tuple(replace(m, condition=replace_columns(m.condition, mapping)) for m in self.matches)
        )

    def split(self, names: Collection[str]) -> tuple[RowPredicate, RowPredicate]:
        """Split the predicate into the part that reads only these columns, and the rest."""
        known = frozenset(names)
        tests = [t for t in self.tests if columns_of(t) <= known]
        matches = [m for m in self.matches if m.reads <= known]
        left = RowPredicate(
            tuple(t for t in self.tests if t not in tests), tuple(m for m in self.matches if m not in matches)
        )
        return RowPredicate(tuple(tests), tuple(matches)), left


def test(*conditions: Expr) -> RowPredicate:
    """Return the predicate that these conditions are TRUE."""
    return RowPredicate(conditions)


def marked(rows: Node) -> Node:
    """Return rows with column names that no relation has."""
    return Project(rows, tuple(item_of(c, c.name + MARK) for c in rows.schema))


def other(name: str) -> exp.Column:
    """Return a column of the matching rows, given its original name."""
    return column(name + MARK)


def of_other(expr: Expr, names: Collection[str] | None = None) -> Expr:
    """Return an expression over columns of the matching rows; with `names` only these columns are theirs."""
    return map_columns(expr, lambda c: other(c.name) if names is None or c.name in names else c)


def same(pairs: Mapping[str, Expr] | None, names: Collection[str] = ()) -> tuple[Expr, ...]:
    """Return tests that columns of matching rows equal the relation's expressions or its columns `names`; NULL equals
    NULL."""
    found = {**{n: column(n) for n in names}, **(pairs or {})}
    return tuple(exp.NullSafeEQ(this=e.copy(), expression=other(n)) for n, e in found.items())


def matching(rows: Node, *conditions: Expr, negated: bool = False) -> RowPredicate:
    """Return the predicate that one of `rows` matches, by conditions over own columns and `other` ones."""
    condition = conjunction(conditions) or exp.true()
    return RowPredicate((), (Match(marked(rows), condition, negated),))
