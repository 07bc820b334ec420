"""The normal form of START and END, which determines how fast a boundary is found.

In: a clause and the type of its items. Out: the conjunctions of atoms of a boundary's predicate, or None for the
arbitrary class d (`plan/operators/window_explanation.py` names the classes). A search finds, for each known tuple i,
the first tuple j at or after a position for which one of the conjunctions is TRUE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import Type
from belvedere.sqlpp.expression_types import VariableScope
from belvedere.sqlpp.query_tree import MEMBER, Boundary, Expr, QueryExpression, RunningAggregate, WindowBy, reference
from belvedere.sqlpp.query_types import Typing
from belvedere.sqlpp.substitute import substituted

ITEM = "$item"
MAX_CONJUNCTIONS = 16
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
COUNTED = ("position", "count")
"""Roles of summands that never decrease from tuple to tuple."""
ARITHMETIC: Mapping[type[Any], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "DIV",
    exp.Mod: "%",
}
OPERATORS: Mapping[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(frozen=True)
class Summand:
    """A summand: an expression over the item (`$item`) of one side's tuple or its neighbor, its position, or a
    constant.

    Sum and count are of the partition's tuples before the start, or up to the end: their difference is the window's.
    """

    side: str  # label, start, end, or "" for a constant
    role: str  # item, previous, next, position, sum, count, or "" for a constant
    expr: Expr
    sign: int = 1


@dataclass(frozen=True)
class Compare:
    """`sum(searched) operator sum(known)`. There is more than one summand only if sums are exact."""

    searched: tuple[Summand, ...]
    operator: str
    known: tuple[Summand, ...]


@dataclass(frozen=True)
class Conjunction:
    """Atoms that must all be TRUE: on the known tuples, on the searched one, and between them."""

    known: tuple[Expr, ...] = ()
    local: tuple[Expr, ...] = ()
    compares: tuple[Compare, ...] = ()


Search = tuple[Conjunction, ...]
"""A search for the first tuple for which one of the conjunctions is TRUE."""


@dataclass(frozen=True)
class TypedWindow:
    """A clause, the type of its items, ORDER BY's first key over `$item`, and the types of outer names."""

    window: WindowBy
    type: Type
    order: Expr
    constants: Mapping[str, Type]

    @cached_property
    def start(self) -> Search | None:
        """Return the search for START of a labelled window; None for class d and UNBOUNDED."""
        return self._search("start", self.window.start)

    @cached_property
    def end(self) -> Search | None:
        """Return the search for END; None for class d, for UNBOUNDED, and without END."""
        return self._search("end", self.window.end)

    def _search(self, side: str, boundary: Boundary | None) -> Search | None:
        if boundary is None or boundary.unbounded:
            return None
        try:
            found = _Normal(self, side).alternatives(
                exp.true() if boundary.when is None else boundary.when, positive=True
            )
        except _NotNormal:
            return None
        return None if any(map(self._searches_many, found)) else tuple(found)

    def _searches_many(self, conjunction: Conjunction) -> bool:
        """Return whether two comparisons would each need a separate search."""
        return sum(not self.is_monotone(c) or c.operator == "<>" for c in conjunction.compares) > 1

    def is_monotone(self, compare: Compare) -> bool:
        """Return whether the searched sum is monotone in the position: it is the position, or ORDER BY's first key."""
        part, *others = compare.searched
        return not others and (part.role in COUNTED or (part.role != "sum" and part.expr == self.order))

    @property
    def descending(self) -> bool:
        """Return whether ORDER BY's first key decreases from tuple to tuple."""
        return self.window.order[0].descending

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles of the variables that boundaries declare."""
        return frozenset(role for _, role in self.window.variables.values())

    def with_end(self, when: Expr, only: bool) -> TypedWindow:
        """Return the clause with another condition of END."""
        assert self.window.end is not None
        return replace(self, window=replace(self.window, end=replace(self.window.end, when=when), only=only))


class _NotNormal(Exception):
    """The predicate has no normal form of known class."""


class _Normal:
    def __init__(self, typed: TypedWindow, side: str):
        self.typed, self.sides, self.searched = typed, typed.window.variables, side

    def alternatives(self, node: Expr, positive: bool) -> list[Conjunction]:
        """Return the disjunctive normal form of `node` (or of its negation)."""
        sides = self.sides_of(node)
        if len(sides) <= 1 and not node.find(QueryExpression):
            return self.one_sided(node if positive else exp.Not(this=node.copy()), next(iter(sides), ""))
        if isinstance(node, exp.Not):
            return self.alternatives(node.this, not positive)
        if isinstance(node, exp.Between):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return self.alternatives(exp.And(this=low, expression=high), positive)
        if isinstance(node, (exp.And, exp.Or)):
            parts = [self.alternatives(s, positive) for s in (node.left, node.right)]
            if isinstance(node, exp.Or) == positive:
                return self.limited(parts[0] + parts[1])
            return self.limited([_joined(a, b) for a, b in product(*parts)])
        if type(node) in OPERATORS:
            operator = OPERATORS[type(node)]
            compare = self.compare(node.this, operator if positive else NEGATED[operator], node.expression)
            sums = (p for p in (*compare.searched, *compare.known) if p.side == "end" and p.role == "sum")
            return [Conjunction(compares=(compare, *map(_has_values, sums)))]
        raise _NotNormal

    def limited(self, found: list[Conjunction]) -> list[Conjunction]:
        if len(found) > MAX_CONJUNCTIONS:
            raise _NotNormal
        return found

    def sides_of(self, node: Expr) -> frozenset[str]:
        found = frozenset(self.sides[c.name][0] for c in node.find_all(exp.Column) if c.name in self.sides)
        return found | {"start", "end"} if node.find(RunningAggregate) else found

    def one_sided(self, node: Expr, side: str) -> list[Conjunction]:
        if isinstance(node, exp.Boolean):
            return [Conjunction()] if node.this else []
        # a constant holds for all tuples or for none
        return [Conjunction(local=(node,)) if side in ("", self.searched) else Conjunction(known=(node,))]

    def compare(self, left: Expr, operator: str, right: Expr) -> Compare:
        if self.sides_of(right) == {self.searched}:
            left, operator, right = right, FLIPPED[operator], left
        known = self.sides_of(right)
        if self.sides_of(left) == {self.searched} and len(known) == 1 and self.searched not in known:
            one, other = self.whole(left), self.whole(right)
            if one is not None and other is not None:
                return Compare((one,), operator, (other,))
        return self.linear(left, operator, right)

    def whole(self, node: Expr) -> Summand | None:
        """Return an expression over one role of one side as a single summand; None for other expressions."""
        used = {self.sides[c.name] for c in node.find_all(exp.Column) if c.name in self.sides}
        if len(used) > 1 or node.find(QueryExpression, RunningAggregate):
            return None
        if not used:
            return Summand("", "", node.copy())
        side, role = next(iter(used))
        if role == "position" and not isinstance(node, exp.Column):
            return None
        return Summand(side, role, substituted(node, dict.fromkeys(self.sides, reference(ITEM))))

    def linear(self, left: Expr, operator: str, right: Expr) -> Compare:
        """Return both sides as sums, with the searched summands on the left."""
        summands = self.summands(left, 1) + self.summands(right, -1)
        searched = [p for p in summands if p.side == self.searched]
        known = [Summand(p.side, p.role, p.expr, -p.sign) for p in summands if p.side != self.searched]
        if not searched:
            raise _NotNormal
        if all(p.sign < 0 for p in searched):
            searched, known = ([Summand(p.side, p.role, p.expr, -p.sign) for p in x] for x in (searched, known))
            operator = FLIPPED[operator]
        return Compare(tuple(searched), operator, tuple(known))

    def summands(self, node: Expr, sign: int) -> list[Summand]:
        if isinstance(node, (exp.Add, exp.Sub)):
            other = sign if isinstance(node, exp.Add) else -sign
            return self.summands(node.this, sign) + self.summands(node.expression, other)
        if isinstance(node, exp.Neg):
            return self.summands(node.this, -sign)
        if isinstance(node, RunningAggregate):
            return self.running(node, sign)
        part = self.whole(node)
        if part is None or not self.is_exact(part):
            raise _NotNormal
        return [Summand(part.side, part.role, part.expr, sign)]

    def running(self, node: RunningAggregate, sign: int) -> list[Summand]:
        """Return COUNT, or SUM of whole numbers, as a difference: up to the end without what is before the start."""
        if node.value is None and self.typed.window.label is None:
            one = Summand("", "", exp.Literal.number(1), sign)
            places = (("end", sign), ("start", -sign))
            return [*(Summand(side, "position", exp.true(), way) for side, way in places), one]
        value = exp.true() if node.value is None else substituted(node.value, {MEMBER: reference(ITEM)})
        if node.function == "SUM" and not _is_whole(self.type_of(value)):
            raise _NotNormal
        if node.function not in ("COUNT", "SUM"):
            raise _NotNormal
        return [Summand(side, node.function.lower(), value, way) for side, way in (("end", sign), ("start", -sign))]

    def type_of(self, expr: Expr) -> Type:
        return Typing().of(expr, VariableScope({ITEM: self.typed.type, **self.typed.constants}))

    def is_exact(self, part: Summand) -> bool:
        if part.role == "position":
            return True
        type_ = self.type_of(part.expr)
        return type_ is not None and (
            pa.types.is_integer(type_)
            or pa.types.is_date(type_)
            or pa.types.is_timestamp(type_)
            or pa.types.is_duration(type_)
        )


def _is_whole(type_: Type) -> bool:
    return type_ is not None and pa.types.is_integer(type_)


def _has_values(sum_: Summand) -> Compare:
    """Return that a window has a value to sum: its sum is NULL otherwise."""
    counts = (Summand("end", "count", sum_.expr),), (Summand("start", "count", sum_.expr),)
    return Compare(counts[0], ">", counts[1])


def compared(typed: TypedWindow, node: Expr) -> Compare | None:
    """Return a comparison of END's tuple and its neighbors as sums; None for other conditions, and for inexact sums."""
    inner = node.unnest()
    if type(inner) not in OPERATORS:
        return None
    try:
        return _Normal(typed, "end").linear(inner.this, OPERATORS[type(inner)], inner.expression)
    except _NotNormal:
        return None


def _joined(a: Conjunction, b: Conjunction) -> Conjunction:
    return Conjunction(a.known + b.known, a.local + b.local, a.compares + b.compares)
