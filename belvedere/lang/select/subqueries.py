"""Subqueries as joins: IN, NOT IN, EXISTS and scalar subqueries, correlated or not.

In: a subquery found in an expression. Out: SEMI and ANTI joins if it is a whole condition of WHERE, else a LEFT JOIN
with an aggregate and an expression over its columns. NULLs are exactly as in SQL: `x NOT IN (...)` is not TRUE if x or
an element is NULL.

A subquery that is correlated by equalities is grouped by them. Any other correlation is evaluated over the distinct
values of the outer columns that it reads (its `domain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError
from belvedere.functions.spark_types import Typed
from belvedere.lang.names.scope import SourceColumn
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, columns_of, conjunction, replace_columns
from belvedere.plan.operators.nodes import Aggregate, Distinct, Expr, Filter, Item, Join, JoinKind, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.schema import has_map


@dataclass(frozen=True)
class Totals:
    """An aggregate without GROUP BY: its plan, and its outputs over it, which are also correct without matching
    rows."""

    plan: Node
    values: tuple[Expr, ...]
    having: Expr | None

    def where_it_is(self, value: Expr) -> Expr:
        """Return the value; NULL if HAVING is not TRUE."""
        return value if self.having is None else exp.Case(ifs=[exp.If(this=self.having.copy(), true=value)])


@dataclass(frozen=True)
class Inner:
    """A lowered subquery. `plan` has the columns of the outputs and of the correlation with the outer row."""

    plan: Node
    outputs: tuple[Item, ...]
    pairs: tuple[tuple[Expr, str, bool], ...]
    """Equalities of the correlation: (outer expression, column of the plan, whether NULLs match)."""
    residual: tuple[Expr, ...]
    """Other conditions on outer and own columns."""
    used: Mapping[str, SourceColumn]
    single: bool
    """Whether there is at most one row per outer row."""
    grouped: bool = False
    """Whether it aggregates; its rows then depend on the whole correlation."""
    open: bool = False
    """Whether its outputs, orders or groups read outer columns, so it cannot be evaluated without them."""
    totals: Totals | None = None
    """For an aggregate without GROUP BY: its single row, also for outer rows without a match."""

    @property
    def total(self) -> tuple[Node, Expr] | None:
        """Return the plan and the value of `totals`, NULL if HAVING is not TRUE, if there is one output."""
        if self.totals is None or len(self.totals.values) != 1:
            return None
        return self.totals.plan, self.totals.where_it_is(self.totals.values[0])

    @property
    def conditional(self) -> bool:
        """Return whether an aggregate without GROUP BY has a HAVING, so it may have no row."""
        return self.totals is not None and self.totals.having is not None

    @property
    def needs_domain(self) -> bool:
        """Return whether the subquery must be evaluated over the outer values: its outputs read them, or an aggregate
        depends on conditions other than equalities."""
        return self.open or (bool(self.residual) and self.grouped)


@dataclass(frozen=True, eq=False)
class Pending:
    """A subquery inside an expression (scalar, exists or in) that is not yet joined to a plan."""

    kind: str
    query: exp.Expr
    inner: Inner
    written: exp.Expr

    def value(self, *operands: Expr) -> SubqueryValue:
        """Return a placeholder for the subquery's value. It contains the outer columns, so later rewrites reach
        them."""
        scalar = self.kind == "scalar"
        typed = Typed(self.inner.outputs[0].type, True) if scalar else Typed(pa.bool_(), self.kind == "in")
        outer = [column(name) for name in self.inner.used]
        return SubqueryValue(entry=self, typed=typed, expressions=[*operands, *outer])


def attach_all(frame: Frame, expr: Expr) -> Expr:
    """Join all subqueries of an expression to the plan. Return the expression over the joined columns."""
    if expr.find(SubqueryValue) is None:
        return expr
    result: Expr = exp.paren(expr, copy=True)
    for value in _inner_first(result):
        value.replace(_attach(frame, value))
    found: Expr = result.this.pop()
    return found


def _inner_first(expr: Expr) -> list[SubqueryValue]:
    """Return the subqueries of an expression. A subquery in the operand of another, `(SELECT ...) IN (SELECT ...)`,
    comes first."""
    return sorted(expr.find_all(SubqueryValue), key=lambda value: -sum(1 for _ in _around(value)))


def _around(value: SubqueryValue) -> Iterator[SubqueryValue]:
    node = value.parent
    while node is not None:
        if isinstance(node, SubqueryValue):
            yield node
        node = node.parent


def attach_to(frame: Frame, plan: Node, expr: Expr) -> tuple[Node, Expr]:
    """Join to a plan the subqueries of an expression that read only columns of that plan, or none."""
    own = set(plan.schema.names)
    result: Expr = exp.paren(expr, copy=True)
    before, frame.plan = frame.plan, plan
    try:
        for value in _inner_first(result):
            if {c.name for e in value.expressions for c in e.find_all(exp.Column)} <= own:
                value.replace(_attach(frame, value))
        plan = frame.plan
    finally:
        frame.plan = before
    found: Expr = result.this.pop()
    return plan, found


def attach_same(frame: Frame, expr: Expr, others: Iterable[Expr]) -> tuple[Expr, list[Expr]]:
    """Attach subqueries of a grouping key; `others` that contain the key, by the same text, use the same joined
    columns.
    """
    attached, requested = attach_all(frame, expr), _as_text(expr)

    def change(node: Expr) -> Expr:
        return attached.copy() if _as_text(node) == requested else node

    return attached, [other.copy().transform(change) for other in others]


def _as_text(expr: Expr) -> Expr:
    """Return an expression whose subqueries are equal if they are written alike."""

    def change(node: Expr) -> Expr:
        if not isinstance(node, SubqueryValue):
            return node
        entry: Pending = node.args["entry"]
        return exp.Anonymous(this=f"{entry.kind} {entry.query.sql('spark')}", expressions=node.expressions)

    return expr.copy().transform(change)


def _attach(frame: Frame, value: SubqueryValue) -> Expr:
    entry: Pending = value.args["entry"]
    count = len(value.expressions) - len(entry.inner.used)
    operands = [e.copy() for e in value.expressions[:count]]
    outer = dict(zip(entry.inner.used, value.expressions[count:], strict=True))
    inner = _linked(frame, entry, outer)
    match entry.kind:
        case "scalar":
            return _attach_scalar(frame, entry, inner, outer)
        case "exists":
            return _attach_exists(frame, inner, outer)
        case _:
            return _attach_in(frame, inner, outer, operands[0])


def _linked(frame: Frame, entry: Pending, outer: Mapping[str, Expr]) -> Inner:
    """Return the subquery, lowered again over the domain of its outer values if equalities are not enough."""
    again = entry.inner.residual or entry.inner.open
    return over_domain(frame, entry.query, outer) if again else entry.inner


def over_domain(frame: Frame, query: exp.Expr, outer: Mapping[str, Expr]) -> Inner:
    """Return the subquery over the distinct outer values (by their names in it) of the frame's plan."""
    values = tuple(frame.item(name, expr) for name, expr in outer.items())
    if any(has_map(v.type) for v in values):
        hint = "unnest it in FROM: LATERAL VIEW explode(m) x AS k, v, or JOIN LATERAL explode(m) AS x(k, v)"
        raise frame.fail("B3022", "a subquery that reads a MAP of the outer query is not supported", query, hint)
    domain = Distinct(Project(_source_of(frame.plan, values), values))
    found: Inner = frame.subquery(query, domain)
    return found


def _source_of(plan: Node, values: Iterable[Item]) -> Node:
    """Return the part of a plan that has all its values: a LEFT JOIN removes no row. So a subquery is not computed over
    the joins of others, which would double the plan with each."""
    needed = frozenset[str]().union(*(columns_of(v.expr) for v in values))
    while isinstance(plan, Join) and plan.kind is JoinKind.LEFT and needed <= set(plan.left.schema.names):
        plan = plan.left
    return plan


def reads_outer(plan: Node, used: Iterable[str]) -> bool:
    """Return whether an expression of the plan reads an outer column that its input does not have."""
    outer = frozenset(used)
    for node in plan.walk() if outer else ():
        own = {name for i in node.inputs for name in i.schema.names}
        if any(columns_of(e) & outer - own for e in node.expressions):
            return True
    return False


def _condition(inner: Inner, outer: Mapping[str, Expr]) -> Expr | None:
    parts: list[Expr] = []
    for expr, name, nulls in inner.pairs:
        class_ = exp.NullSafeEQ if nulls else exp.EQ
        parts.append(class_(this=column(name), expression=replace_columns(expr, outer)))
    return conjunction(parts)


def _attach_scalar(frame: Frame, entry: Pending, inner: Inner, outer: Mapping[str, Expr]) -> Expr:
    if not inner.single:
        raise more_than_one_row(frame, entry.written)
    right, value = inner.total or (inner.plan, column(inner.outputs[0].name))
    frame.join(right, JoinKind.LEFT, _condition(inner, outer))
    return value if inner.total is None else exp.paren(value.copy(), copy=False)


def more_than_one_row(frame: Frame, written: exp.Expr) -> BelvedereError:
    """Return the error for a subquery that is used as a value."""
    hint = "aggregate it, add LIMIT 1, or group by the columns that correlate it with the outer row"
    return frame.fail("B3010", "this subquery can return more than one row", written, hint)


def join_single(frame: Frame, entry: Pending) -> tuple[Item, ...]:
    """LEFT JOIN a subquery that has at most one row per outer row; return its outputs."""
    outer = {name: column(name) for name in entry.inner.used}
    inner = _linked(frame, entry, outer)
    frame.join(inner.plan, JoinKind.LEFT, _condition(inner, outer))
    return inner.outputs


def _counts(name: str, argument: Expr | None = None) -> Item:
    count = exp.Count(this=argument if argument is not None else exp.Star(), big_int=True)
    return Item(name, count, pa.int64(), False)


def _positive(name: str) -> Expr:
    zero = exp.Literal.number(0)
    return exp.GT(this=exp.Coalesce(this=column(name), expressions=[zero.copy()]), expression=zero)


def _links(inner: Inner) -> tuple[Item, ...]:
    return tuple(item_of(inner.plan.schema[name], hidden=False) for _, name, _ in inner.pairs)


def _attach_exists(frame: Frame, inner: Inner, outer: Mapping[str, Expr]) -> Expr:
    if inner.totals is not None:
        return exp.true()
    name = frame.context.names.fresh("exists")
    frame.join(Aggregate(inner.plan, _links(inner), (_counts(name),)), JoinKind.LEFT, _condition(inner, outer))
    return exp.paren(_positive(name), copy=False)


def _attach_in(frame: Frame, inner: Inner, outer: Mapping[str, Expr], operand: Expr) -> Expr:
    """Return the value of IN: TRUE if the value is found; NULL if not, but x or an element is NULL (and there is any);
    else FALSE."""
    fresh, element = frame.context.names.fresh, inner.outputs[0]
    rows, known, found, link = fresh("rows"), fresh("known"), fresh("found"), fresh("element")
    statistics = Aggregate(inner.plan, _links(inner), (_counts(rows), _counts(known, column(element.name))))
    keys = tuple(replace(i, name=fresh("link")) for i in _links(inner))
    elements = Aggregate(inner.plan, (*keys, replace(element, name=link)), (_counts(found),))
    condition = _condition(inner, outer)
    frame.join(statistics, JoinKind.LEFT, condition)
    linked = () if condition is None else (replace_columns(condition, {k.expr.name: column(k.name) for k in keys}),)
    same = exp.EQ(this=column(link), expression=operand.copy())
    frame.join(elements, JoinKind.LEFT, conjunction([*linked, same]))
    null_inside = exp.LT(this=column(known), expression=column(rows))
    null_outside = exp.Is(this=exp.paren(operand), expression=exp.Null())
    unknown = exp.And(
        this=_positive(rows), expression=exp.paren(exp.Or(this=null_inside, expression=null_outside), copy=False)
    )
    ifs = [exp.If(this=_positive(found), true=exp.true()), exp.If(this=unknown, true=exp.Null())]
    return exp.Case(ifs=ifs, default=exp.false())


# -- whole conditions of WHERE: semi and anti joins -------------------------------------------------------------------


def keep_where_exists(frame: Frame, inner: Inner, *, negated: bool) -> None:
    """Apply `[NOT] EXISTS (...)` as a whole condition."""
    if inner.totals is not None:
        if negated:
            frame.plan = Filter(frame.plan, exp.false())
        return
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    frame.join(_links_only(inner), kind, _full_condition(inner))


def _full_condition(inner: Inner, *more: Expr) -> Expr | None:
    links = _condition(inner, {})
    return conjunction([*more, *((links,) if links is not None else ()), *inner.residual])


def _links_only(inner: Inner) -> Node:
    """Return at most one row if there is no correlation, because then only the existence of a row matters."""
    if inner.pairs or inner.residual:
        return inner.plan
    return Distinct(Project(inner.plan, (Item("one", exp.Literal.number(1), pa.int32(), False),)))


def keep_where_all_differ(frame: Frame, inner: Inner, operands: Sequence[Expr]) -> None:
    """Apply `(x, y) NOT IN (...)`: in each row of the subquery one of the columns is different, and not NULL."""
    pairs = zip(operands, inner.outputs, strict=True)
    same = [exp.EQ(this=operand.copy(), expression=column(output.name)) for operand, output in pairs]
    maybe = [exp.Coalesce(this=exp.paren(s, copy=False), expressions=[exp.true()]) for s in same]
    frame.join(inner.plan, JoinKind.ANTI, _full_condition(inner, *maybe))


def keep_where_in(frame: Frame, inner: Inner, operands: Sequence[Expr], *, negated: bool) -> None:
    """Apply `x IN (...)` or `(x, y) IN (...)` as a whole condition; NOT IN only with one operand.

    `x NOT IN (...)`: no element equal, no element NULL, and x not NULL unless there is no element at all.
    """
    nullable = frame.inference().typed(operands[0]).nullable
    pairs = zip(operands, inner.outputs, strict=True)
    same = [exp.EQ(this=operand.copy(), expression=column(output.name)) for operand, output in pairs]
    frame.join(inner.plan, JoinKind.ANTI if negated else JoinKind.SEMI, _full_condition(inner, *same))
    if negated and inner.outputs[0].nullable:
        nulls = Filter(inner.plan, exp.Is(this=column(inner.outputs[0].name), expression=exp.Null()))
        frame.join(_links_only(replace(inner, plan=nulls)), JoinKind.ANTI, _full_condition(inner))
    if negated and nullable:
        missing = exp.Is(this=exp.paren(operands[0]), expression=exp.Null())
        frame.join(_links_only(inner), JoinKind.ANTI, _full_condition(inner, missing))
