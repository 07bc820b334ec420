"""WHERE: conditions on the rows of FROM; subqueries that are a whole condition become semi and anti joins.

In: the frame with its FROM done, and the select. Out: the frame's plan with filters and joins; conditions that
correlate the rows with the outer query are returned, not applied.
"""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.select.subqueries import Inner, attach_all, keep_where_all_differ, keep_where_exists, keep_where_in
from belvedere.plan.expressions import columns_of, conjunction, conjuncts
from belvedere.plan.operators.nodes import Expr, Filter


def apply_where(frame: Frame, select: exp.Select) -> list[Expr]:
    """Apply WHERE to the frame's plan; return the conditions that correlate it with the outer row."""
    correlated: list[Expr] = []
    where = select.args.get("where")
    parts = conjuncts(where.this if where is not None else None)
    for part in _together(parts):
        if contains_aggregate(part):
            raise frame.fail("B3031", "an aggregate is not allowed in WHERE", part, "write HAVING")
        if not _subquery_condition(frame, part):
            correlated += _condition(frame, select, part, alone=len(parts) == 1)
    return correlated


MANY = 16
"""Maximum number of conditions before they become one filter, which keeps the plan flat."""


def _together(parts: tuple[exp.Expr, ...]) -> list[exp.Expr]:
    """Combine many conditions: those without subqueries become one."""
    if len(parts) < MANY:
        return list(parts)
    plain = [part for part in parts if part.find(exp.Query) is None and not contains_aggregate(part)]
    one = conjunction(plain)
    others = [part for part in parts if not any(part is p for p in plain)]
    return [*([one] if one is not None else []), *others]


def _condition(frame: Frame, select: exp.Select, part: exp.Expr, *, alone: bool) -> list[Expr]:
    condition = Resolver(frame, partial(_alias_before_items, frame, select)).resolve(part)
    if not alone and frame.inference().type(condition) == t.NULL:
        condition = t.cast(condition, t.BOOLEAN)  # with AND, a NULL needs no type
    frame.check_condition(condition, part, "WHERE")
    condition = attach_all(frame, condition)
    if frame.is_outer(condition):
        return [condition]
    frame.plan = Filter(frame.plan, condition)
    return []


def _alias_before_items(frame: Frame, select: exp.Select, node: exp.Column) -> Expr | None:
    """Return the expression of a select-list alias in a condition (One SQL's WHERE after GROUP BY uses them),
    or None."""
    for item in select.expressions:
        if (
            isinstance(item, exp.Alias)
            and item.alias.casefold() == node.name.casefold()
            and not contains_aggregate(item.this)
        ):
            return Resolver(frame).resolve(item.this)
    return None


def _subquery_condition(frame: Frame, part: exp.Expr) -> bool:
    """Lower EXISTS and IN that are whole conditions to semi and anti joins."""
    negated = isinstance(part, exp.Not)
    inner_part = part.this.unnest() if negated else part
    if isinstance(inner_part, exp.Exists) and isinstance(inner_part.this, exp.Query):
        inner = frame.subquery(inner_part.this)
        if not _is_alone(frame, inner) or inner.conditional:
            return False
        keep_where_exists(frame, inner, negated=negated)
        return True
    if isinstance(inner_part, exp.In) and inner_part.args.get("query") is not None:
        return _in(frame, inner_part, negated=negated)
    return False


def _in(frame: Frame, part: exp.In, *, negated: bool) -> bool:
    """Lower `a IN (SELECT ...)`, `(a, b) IN (SELECT ...)` to a semi join on all operands."""
    if isinstance(part.this.unnest(), exp.Tuple):
        return _tuple_in(frame, part, negated=negated)
    inner = frame.subquery(part.args["query"])
    operand = Resolver(frame).resolve(part.this)
    if len(inner.outputs) != 1 or inner.total is not None or not _is_alone(frame, inner):
        return False
    if frame.is_outer(operand) or not columns_of(operand) <= set(frame.plan.schema.names):
        return False
    left, right = frame.inference().type(operand), inner.outputs[0].type
    if not t.same_kind(left, right):
        message = f"{t.a_type(left)} cannot be compared with {t.a_type(right)}"
        raise frame.fail("B3002", message, part, "CAST one side to the type of the other")
    keep_where_in(frame, inner, [attach_all(frame, operand)], negated=negated)
    return True


def _tuple_in(frame: Frame, part: exp.In, *, negated: bool) -> bool:
    operands = [Resolver(frame).resolve(e) for e in part.this.expressions]
    inner = frame.subquery(part.args["query"])
    if len(operands) != len(inner.outputs) or not _is_alone(frame, inner):
        raise frame.fail(
            "B3014", "this comparison with a subquery is not supported", part, "write EXISTS or NOT EXISTS"
        )
    for operand, output in zip(operands, inner.outputs, strict=True):
        frame.inference().typed(exp.EQ(this=operand, expression=operand.copy()))
        if not t.same_kind(frame.inference().type(operand), output.type):
            raise frame.fail("B3002", "the types of this comparison do not match", part, "CAST one side")
    operands = [attach_all(frame, operand) for operand in operands]
    if negated:
        keep_where_all_differ(frame, inner, operands)
    else:
        keep_where_in(frame, inner, operands, negated=False)
    return True


def _is_alone(frame: Frame, inner: Inner) -> bool:
    """Return whether the subquery can be joined directly: it reads only columns of this frame's plan."""
    return not inner.needs_domain and set(inner.used) <= set(frame.plan.schema.names)
