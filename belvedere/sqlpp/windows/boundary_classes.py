"""The normal form of START and END: what makes a boundary fast to find.

In: a boundary's predicate, the variables' sides and the type of an item. Out: its conjunctions of atoms, or None for the arbitrary
class d (`plan/operators/window_explanation.py` names the classes). A search looks, for each known tuple i, for the first tuple j at or
after a place where one of the conjunctions holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import Type
from belvedere.sqlpp.expression_types import VariableScope
from belvedere.sqlpp.query_names import renamed
from belvedere.sqlpp.query_tree import Expr, QueryExpression, WindowBy
from belvedere.sqlpp.query_types import Typing

ITEM = "$item"
MAX_CONJUNCTIONS = 16
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
ARITHMETIC: Mapping[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%"}
OPERATORS: Mapping[type[Any], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True)
class Summand:
    """A summand: an expression over the item (`$item`) of one side's tuple, or its neighbour's, or its position, or a constant."""

    side: str  # label, start, end, or "" for a constant
    role: str  # item, previous, next, position, or "" for a constant
    expr: Expr
    sign: int = 1


@dataclass(frozen=True)
class Compare:
    """`sum(searched) operator sum(known)`; more than one summand only where sums are exact."""

    searched: tuple[Summand, ...]
    operator: str
    known: tuple[Summand, ...]


@dataclass(frozen=True)
class Conjunction:
    """Atoms that must all be TRUE: on the known tuples, on the searched one, and between them."""

    known: tuple[Expr, ...] = ()
    local: tuple[Expr, ...] = ()
    compares: tuple[Compare, ...] = ()


@dataclass(frozen=True)
class Search:
    """Look for the first tuple for which a conjunction holds."""

    conjunctions: tuple[Conjunction, ...]


@dataclass(frozen=True)
class ItemFacts:
    """What classification knows of the items: their type, ORDER BY's first key over `$item` (None if not a plain one)."""

    type: Type
    order: Expr | None
    constants: Mapping[str, Type]


class _NotNormal(Exception):
    """The predicate has no normal form of known class."""


def item_expression(expr: Expr, variables: tuple[str, ...]) -> Expr:
    """An expression over the binding variables as one over `$item`."""

    def change(node: Any) -> Any:
        if isinstance(node, exp.Column) and node.name in variables:
            item = exp.Column(this=exp.to_identifier(ITEM))
            return item if len(variables) == 1 else exp.Dot(this=item, expression=exp.to_identifier(node.name))
        return node

    result: Expr = expr.transform(change)
    return result


def classify(window: WindowBy, side: str, item: ItemFacts) -> Search | None:
    """The search for START (of a labelled window) or END; None for class d. UNBOUNDED and no WHEN are the caller's."""
    boundary = window.end if side == "end" else window.start
    assert boundary is not None
    when = boundary.when if boundary.when is not None else exp.true()
    try:
        alternatives = _Normal(window.variables, side, item).alternatives(when, positive=True)
    except _NotNormal:
        return None
    if any(_searches_many(c, item) for c in alternatives):
        return None
    return Search(tuple(alternatives))


def _searches_many(conjunction: Conjunction, item: ItemFacts) -> bool:
    """Whether two comparisons would each need a search of its own."""
    return sum(not is_monotone(c, item) or c.operator == "<>" for c in conjunction.compares) > 1


def is_monotone(compare: Compare, item: ItemFacts) -> bool:
    """Whether the searched sum grows or falls with the position: it is the position, or ORDER BY's first key."""
    if len(compare.searched) != 1:
        return False
    part = compare.searched[0]
    return part.role == "position" or (item.order is not None and part.expr == item.order)


class _Normal:
    def __init__(self, sides: Mapping[str, tuple[str, str]], side: str, item: ItemFacts):
        self.sides, self.searched, self.item = sides, side, item

    def alternatives(self, node: Expr, positive: bool) -> list[Conjunction]:
        """The disjunctive normal form of `node` (or of its negation)."""
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
            return [
                Conjunction(compares=(self.compare(node.this, operator if positive else NEGATED[operator], node.expression),))
            ]
        raise _NotNormal

    def limited(self, found: list[Conjunction]) -> list[Conjunction]:
        if len(found) > MAX_CONJUNCTIONS:
            raise _NotNormal
        return found

    def sides_of(self, node: Expr) -> frozenset[str]:
        return frozenset(self.sides[c.name][0] for c in node.find_all(exp.Column) if c.name in self.sides)

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
        """An expression over one role of one side as a single part."""
        used = {self.sides[c.name] for c in node.find_all(exp.Column) if c.name in self.sides}
        if len(used) > 1 or node.find(QueryExpression):
            return None
        if not used:
            return Summand("", "", node.copy())
        side, role = next(iter(used))
        if role == "position" and not isinstance(node, exp.Column):
            return None
        return Summand(side, role, _over_item(node, self.sides))

    def linear(self, left: Expr, operator: str, right: Expr) -> Compare:
        """Both sides as sums, the searched summands on the left."""
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
        part = self.whole(node)
        if part is None or not self.is_exact(part):
            raise _NotNormal
        return [Summand(part.side, part.role, part.expr, sign)]

    def is_exact(self, part: Summand) -> bool:
        if part.role == "position":
            return True
        type_ = Typing().of(part.expr, VariableScope({ITEM: self.item.type, **self.item.constants}))
        return type_ is not None and (
            pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_) or pa.types.is_duration(type_)
        )


def _joined(a: Conjunction, b: Conjunction) -> Conjunction:
    return Conjunction(a.known + b.known, a.local + b.local, a.compares + b.compares)


def _over_item(node: Expr, sides: Mapping[str, tuple[str, str]]) -> Expr:
    """Variables of one role as `$item`."""
    return renamed(node, dict.fromkeys(sides, ITEM))
