"""Backward tracing of joins to both sides.

In: a join and the requested predicate on its rows. Out: predicates on each side, separately for pairs and for rows
without a partner.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import conjuncts
from belvedere.plan.operators.nodes import Expr, Join, JoinKind, Node
from belvedere.provenance.constants import fixed_columns, is_impossible
from belvedere.provenance.row_predicates import RowPredicate, matching, of_other, same
from belvedere.provenance.why.traces import Backward, Below, Trail, is_fixed


def partner_condition(condition: Expr | None, partner: Node) -> tuple[Expr, ...]:
    """Return a join's condition over one side's own columns and the marked columns of its partner."""
    names = partner.schema.names
    return tuple(of_other(part, names) for part in conjuncts(condition))


def without_partner(rows: Node, condition: Expr | None, partner: Node) -> RowPredicate:
    """Return the predicate on rows without a partner on the other side of a join."""
    return matching(rows, *partner_condition(condition, partner), negated=True)


def joined(back: Backward, node: Join, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    """Yield the ways in which a join produces the requested rows."""
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        yield from _existence(back, node, requested, trail)
        return
    with_left, without_left = (
        requested if node.there is None else requested.over({node.there: value}) for value in (exp.true(), exp.false())
    )
    yield from _pairs(back, node, with_left, trail)
    if node.kind in (JoinKind.LEFT, JoinKind.FULL):
        yield from _alone(back, node, with_left, 0)
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        yield from _alone(back, node, without_left, 1)


def _existence(back: Backward, node: Join, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    anti = node.kind is JoinKind.ANTI
    there = matching(
        back.rows(node.right, RowPredicate()), *partner_condition(node.condition, node.right), negated=anti
    )
    known = trail.certain and is_fixed(requested, node.schema.key)
    yield Below(0, requested if known else requested + there)
    if not anti:
        yield Below(
            1,
            matching(back.rows(node.left, requested), *partner_condition(node.condition, node.left)),
            "the rows that EXISTS found",
        )


def _alone(back: Backward, node: Join, requested: RowPredicate, number: int) -> Iterator[Below]:
    """Trace the rows of one side, by its number, that have no partner."""
    side, partner = node.inputs[number], node.inputs[1 - number]
    nulls = requested.over({n: exp.Null() for n in partner.schema.names})
    if any(map(is_impossible, nulls.tests)):
        return
    own, _ = nulls.split(side.schema.names)
    alone = without_partner(back.rows(partner, RowPredicate()), node.condition, partner)
    yield Below(number, own + alone, "without a partner")


def _pairs(back: Backward, node: Join, requested: RowPredicate, trail: Trail) -> Iterator[Below]:
    """Trace the pairs of an inner join that give the requested columns."""
    left, rest = requested.split(node.left.schema.names)
    right, mixed = rest.split(node.right.schema.names)
    if any(_is_null_of(side, w) for side, w in ((node.left, left), (node.right, right))):
        return
    own = (left, right)
    words = f"joined by {expression_text(node.condition)}" if node.condition is not None else "joined with each row"
    for number, side, partner in ((0, node.left, node.right), (1, node.right, node.left)):
        known = trail.certain and is_fixed(own[number], side.schema.key) and is_fixed(requested, node.schema.key)
        if known and not mixed:
            yield Below(number, own[number], words if number else "")
            continue
        rows = back.rows(partner, own[1 - number])
        conditions = partner_condition(node.condition, partner)
        mixed_tests = tuple(c for t in mixed.tests for c in partner_condition(t, partner))
        found = own[number] + matching(rows, *conditions, *mixed_tests)
        if mixed.matches:  # they read both sides: find whole pairs, then this side by its key
            found = found + matching(back.rows(node, requested), *same(None, side.schema.key or side.schema.names))
        yield Below(number, found, words if number else "")


def _is_null_of(side: Node, requested: RowPredicate) -> bool:
    """Return whether the predicate requires NULL in a column of the side that is never NULL."""
    fixed = fixed_columns(requested.tests)
    return any(isinstance(v, exp.Null) and not side.schema[n].nullable for n, v in fixed.items() if side.schema.find(n))
