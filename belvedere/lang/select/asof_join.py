"""`ASOF JOIN T t`: of the rows of T that ON selects, the one whose time is nearest to the row's own.

In: the join as written, and the joined rows. Out: the join in the frame's plan, reduced to the nearest row for each
left row. Snowflake's spelling has the inequality in MATCH_CONDITION and keeps unmatched rows. DuckDB's has it in ON and
keeps them only with LEFT.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem
from belvedere.lang.select.from_using import shared_columns
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts, equated
from belvedere.plan.operators.nodes import Expr, Join, JoinKind, Node, Order, TopK
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.schema import UID

MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
"""Inequalities with their sides exchanged."""
FORMS = "write ASOF JOIN t ON t.k = e.k AND e.ts >= t.ts, or ASOF JOIN t MATCH_CONDITION (e.ts >= t.ts) ON t.k = e.k"


def join_nearest(frame: Frame, join: exp.Join, right: Node, sources: list[FromItem]) -> None:
    """Join the nearest row. Raises B3021 if the conditions do not determine which row is nearest."""
    _check_words(frame, join)
    left = carry_keys(frame.plan)
    right = carry_keys(right)
    shared = shared_columns(frame, join, sources) if join.args.get("using") else []
    frame.scope.merge([own for own, _ in shared], frame.scope.sources, sources)
    frame.scope.sources += sources
    frame.plan = Join(left, right, JoinKind.INNER, None)
    match, on = join.args.get("match_condition"), join.args.get("on")
    asked = [_resolved(frame, c) for c in (match, on) if c is not None]
    asked += [exp.EQ(this=column(own.internal), expression=column(other.internal)) for own, other in shared]
    parts = [part for condition in asked for part in conjuncts(condition)]
    nearest = [part for part in parts if type(part) in MIRRORED]
    links = [part for part in parts if type(part) not in MIRRORED]
    if len(nearest) != 1 or (match is not None and type(asked[0].unnest()) not in MIRRORED):
        place = match or on or join
        raise frame.fail("B3021", "ASOF JOIN needs one inequality between times of both sides", place, FORMS)
    for link in links:
        if not any(_is_across(column(name), other, left, right) for name, other in equated(link)):
            raise frame.fail(
                "B3021",
                "ASOF JOIN takes one inequality and otherwise only equalities between both sides",
                on or join,
                FORMS,
            )
    kind = JoinKind.LEFT if join.args.get("side") or match is not None else JoinKind.INNER
    frame.plan = _nearest(frame, join, left, right, kind, links, nearest[0])


def _check_words(frame: Frame, join: exp.Join) -> None:
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        hint = "write ASOF JOIN, or ASOF LEFT JOIN, which keeps rows without a match"
        raise frame.fail("B3021", f"ASOF {' '.join(w for w in (side, kind) if w)} JOIN is not supported", join, hint)
    if frame.empty:
        raise frame.fail("B3021", "ASOF JOIN needs a table with a time on its left", join, FORMS)


def _resolved(frame: Frame, written: exp.Expr) -> Expr:
    condition = Resolver(frame).resolve(written)
    frame.inference().typed(condition)
    if condition.find(SubqueryValue) is not None:
        raise frame.fail("B3022", "a subquery in an ASOF JOIN is not supported", written, "join the subquery first")
    if frame.is_outer(condition):
        raise frame.fail(
            "B3011", "a correlated condition is not supported in this join", written, "move the condition to WHERE"
        )
    return condition


def _is_across(one: Expr, other: Expr, left: Node, right: Node) -> bool:
    """Return whether one expression reads only the right side and the other only the left side, in either order."""
    sides = set(left.schema.names), set(right.schema.names)
    read = columns_of(one), columns_of(other)
    if not all(read):
        return False
    return any(read[0] <= a and read[1] <= b for a, b in (sides, sides[::-1]))


def _nearest(
    frame: Frame, join: exp.Join, left: Node, right: Node, kind: JoinKind, links: list[Expr], nearest: Expr
) -> Node:
    """Return the join reduced to the first row by the right side's time: descending if the row is before the left row's
    time."""
    if not _is_across(nearest.this, nearest.expression, left, right):
        raise frame.fail("B3021", "the inequality of an ASOF JOIN must compare both sides", join, FORMS)
    found = type(nearest)
    theirs, own = nearest.this, nearest.expression
    if not columns_of(theirs) <= set(right.schema.names):
        found, theirs, own = MIRRORED[found], own, theirs
    order = [Order(theirs.copy(), descending=found in (exp.LT, exp.LTE))]
    arrived = [c.name for c in right.schema if c.name.rpartition(".")[2] == UID]
    order += [Order(column(name), descending=True) for name in arrived[:1]]
    condition = conjunction([*links, found(this=theirs.copy(), expression=own.copy())])
    joined = Join(left, right, kind, condition)
    return TopK(joined, tuple(order), 1, partition=left.schema.key or (), alike=left.schema.names)
