"""Subqueries as joins: IN, NOT IN, EXISTS and scalar subqueries, correlated or not.

In: a subquery met in an expression. Out: SEMI and ANTI joins where it stands alone in WHERE, else a LEFT JOIN with an aggregate
and an expression over its columns. NULLs are exactly as in SQL: `x NOT IN (...)` is not TRUE where x or an element is NULL.

A subquery whose link to the outer row is equalities is grouped by them. Any other link is evaluated over the distinct values of
the outer columns that it reads (its `domain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.types import Typed
from belvedere.lang.select.frame import Frame, StatementContext
from belvedere.lang.select.scope import Scope, SourceColumn
from belvedere.lang.types.infer import Inference, SubqueryValue
from belvedere.plan.expressions import column, columns_of, conjunction, replace_columns
from belvedere.plan.nodes import Aggregate, Distinct, Expr, Filter, Item, Join, JoinKind, Node, Project


@dataclass(frozen=True)
class Totals:
    """An aggregate without GROUP BY: its plan, and its outputs over it, right also where no row links."""

    plan: Node
    values: tuple[Expr, ...]
    having: Expr | None

    @property
    def only(self) -> tuple[Node, Expr] | None:
        """The plan and the value, NULL where HAVING does not hold, if there is one output."""
        if len(self.values) != 1:
            return None
        return self.plan, self.where_it_is(self.values[0])

    def where_it_is(self, value: Expr) -> Expr:
        """The value, NULL where HAVING does not hold."""
        return value if self.having is None else exp.Case(ifs=[exp.If(this=self.having.copy(), true=value)])


@dataclass(frozen=True)
class Inner:
    """A lowered subquery. `plan` has the outputs' columns and those of the link to the outer row."""

    plan: Node
    outputs: tuple[Item, ...]
    pairs: tuple[tuple[Expr, str, bool], ...]
    """(outer expression, column of the plan, whether NULLs match): equalities that link it."""
    residual: tuple[Expr, ...]
    """Other conditions on outer and own columns."""
    used: Mapping[str, SourceColumn]
    single: bool
    """Whether there is at most one row per link."""
    total: tuple[Node, Expr] | None = None
    """For an aggregate without GROUP BY: its plan and the output as an expression over it, right also where no row links."""
    conditional: bool = False
    """Whether `total` has a HAVING: then there may be no row at all where nothing links."""
    grouped: bool = False
    """Whether it aggregates: then its rows depend on the whole of what links."""
    open: bool = False
    """Whether its outputs, orders or groups read outer columns, so that it cannot stand without them."""
    totals: Totals | None = None
    """As `total`, for any number of outputs."""


@dataclass
class Pending:
    """A subquery inside an expression, waiting for the plan that it will be joined to."""

    kind: str
    query: exp.Query
    inner: Inner
    context: StatementContext
    scope: Scope
    operands: int = 0
    written: exp.Expr = field(default_factory=exp.Null)


def value_of(pending: list[Pending], entry: Pending, operands: list[Expr]) -> SubqueryValue:
    """A placeholder for the subquery's value; it carries the outer columns so that later rewrites reach them."""
    outer = [column(name) for name in entry.inner.used]
    node = SubqueryValue(index=len(pending), expressions=[*operands, *outer])
    if entry.kind == "scalar":
        node.meta["typed"] = Typed(entry.inner.outputs[0].type, True)
    else:
        node.meta["typed"] = Typed(pa.bool_(), entry.kind == "in")
    entry.operands = len(operands)
    pending.append(entry)
    return node


def attach_all(plan: Node, expr: Expr, pending: list[Pending]) -> tuple[Node, Expr]:
    """Join in every subquery that an expression waits for."""
    result = expr.copy()
    if isinstance(result, SubqueryValue):
        return _attach(plan, result, pending)
    for value in list(result.find_all(SubqueryValue)):
        plan, replacement = _attach(plan, value, pending)
        value.replace(replacement)
    return plan, result


def _attach(plan: Node, value: SubqueryValue, pending: list[Pending]) -> tuple[Node, Expr]:
    entry = pending[value.args["index"]]
    operands = [e.copy() for e in value.expressions[: entry.operands]]
    outer = dict(zip(entry.inner.used, value.expressions[entry.operands :], strict=True))
    inner = _linked(plan, entry, outer)
    match entry.kind:
        case "scalar":
            return _attach_scalar(plan, entry, inner, outer)
        case "exists":
            return _attach_exists(plan, entry, inner, outer)
        case _:
            return _attach_in(plan, entry, inner, outer, operands)


def _linked(plan: Node, entry: Pending, outer: Mapping[str, Expr]) -> Inner:
    """The subquery, lowered again over the domain of its outer values where equalities are not enough."""
    if not entry.inner.residual and not entry.inner.open:
        return entry.inner
    return over_domain(plan, entry.query, entry.context, entry.scope, outer)


def over_domain(plan: Node, query: exp.Query, context: StatementContext, scope: Scope, outer: Mapping[str, Expr]) -> Inner:
    """The subquery over the distinct outer values (by the names under which it reads them) that `plan` has."""
    inference = Inference({c.name: Typed(c.type, c.nullable) for c in plan.schema}, file=context.file)
    items = []
    for name, expr in outer.items():
        typed = inference.typed(expr)
        items.append(Item(name, expr, typed.type, typed.nullable))
    domain = Distinct(Project(plan, tuple(items)))
    found: Inner = context.lower_select(query, context, scope, domain=domain)
    return found


def reads_outer(plan: Node, used: Iterable[str]) -> bool:
    """Whether an expression of the plan reads one of the outer columns where its input does not have it."""
    outer = frozenset(used)
    for node in plan.walk() if outer else ():
        own = {name for i in node.inputs for name in i.schema.names}
        if any(columns_of(e) & outer - own for e in _expressions_of(node)):
            return True
    return False


def _expressions_of(value: object) -> Iterator[Expr]:
    """The expressions in a node's fields, its inputs' not."""
    parts = (getattr(value, f.name) for f in fields(value)) if is_dataclass(value) else ()
    for part in parts if not isinstance(value, tuple) else value:
        if isinstance(part, exp.Expr):
            yield part
        elif not isinstance(part, Node) and (isinstance(part, tuple) or is_dataclass(part)):
            yield from _expressions_of(part)


def _condition(inner: Inner, outer: Mapping[str, Expr]) -> Expr | None:
    parts: list[Expr] = []
    for expr, name, nulls in inner.pairs:
        class_ = exp.NullSafeEQ if nulls else exp.EQ
        parts.append(class_(this=column(name), expression=replace_columns(expr, outer)))
    return conjunction(parts)


def _attach_scalar(plan: Node, entry: Pending, inner: Inner, outer: Mapping[str, Expr]) -> tuple[Node, Expr]:
    if not inner.single:
        raise entry.context.fail(
            "B3010",
            "this subquery could give more than one row",
            entry.written,
            "aggregate it, add LIMIT 1, or group by what links it to the outer row",
        )
    condition = _condition(inner, outer)
    if inner.total is not None:
        right, value = inner.total
        return Join(plan, right, JoinKind.LEFT, condition), exp.paren(value.copy(), copy=False)
    return Join(plan, inner.plan, JoinKind.LEFT, condition), column(inner.outputs[0].name)


def join_single(plan: Node, entry: Pending) -> tuple[Node, tuple[Item, ...]]:
    """A LEFT JOIN of a subquery that has at most one row per outer row, and its outputs."""
    outer = {name: column(name) for name in entry.inner.used}
    inner = _linked(plan, entry, outer)
    return Join(plan, inner.plan, JoinKind.LEFT, _condition(inner, outer)), inner.outputs


def _grouped(inner: Inner, items: tuple[Item, ...], keys: tuple[Item, ...] = ()) -> Node:
    links = tuple(_item(inner.plan, name) for _, name, _ in inner.pairs)
    return Aggregate(inner.plan, links + keys, items)


def _item(plan: Node, name: str) -> Item:
    c = plan.schema[name]
    return Item(name, column(name), c.type, c.nullable)


def _counts(name: str, argument: Expr | None = None) -> Item:
    count = exp.Count(this=argument.copy() if argument is not None else exp.Star(), big_int=True)
    return Item(name, count, pa.int64(), False)


def _positive(name: str) -> Expr:
    zero = exp.Literal.number(0)
    return exp.GT(this=exp.Coalesce(this=column(name), expressions=[zero.copy()]), expression=zero)


def _attach_exists(plan: Node, entry: Pending, inner: Inner, outer: Mapping[str, Expr]) -> tuple[Node, Expr]:
    if inner.totals is not None:
        return plan, exp.true()
    name = entry.context.names.fresh("exists")
    joined = Join(plan, _grouped(inner, (_counts(name),)), JoinKind.LEFT, _condition(inner, outer))
    return joined, exp.paren(_positive(name), copy=False)


def _attach_in(plan: Node, entry: Pending, inner: Inner, outer: Mapping[str, Expr], operands: list[Expr]) -> tuple[Node, Expr]:
    """TRUE where the value is there; NULL where it is not but x or an element is NULL (and there is any); else FALSE."""
    operand, element = operands[0], inner.outputs[0]
    names = entry.context.names
    rows, known, found, link = names.fresh("rows"), names.fresh("known"), names.fresh("found"), names.fresh("element")
    statistics = _grouped(inner, (_counts(rows), _counts(known, column(element.name))))
    renamed = {name: names.fresh("link") for _, name, _ in inner.pairs}
    keys = tuple(
        Item(renamed[name], column(name), inner.plan.schema[name].type, inner.plan.schema[name].nullable)
        for _, name, _ in inner.pairs
    )
    elements = Aggregate(
        inner.plan, (*keys, Item(link, column(element.name), element.type, element.nullable)), (_counts(found),)
    )
    condition = _condition(inner, outer)
    joined = Join(plan, statistics, JoinKind.LEFT, condition)
    same = exp.EQ(this=column(link), expression=operand.copy())
    linked = replace_columns(condition, {a: column(b) for a, b in renamed.items()}) if condition is not None else None
    joined = Join(joined, elements, JoinKind.LEFT, conjunction([p for p in (linked, same) if p is not None]))
    some = _positive(rows)
    null_inside = exp.LT(this=column(known), expression=column(rows))
    null_outside = exp.Is(this=exp.paren(operand), expression=exp.Null())
    unknown = exp.And(this=some, expression=exp.paren(exp.Or(this=null_inside, expression=null_outside), copy=False))
    ifs = [exp.If(this=_positive(found), true=exp.true()), exp.If(this=unknown, true=exp.Null())]
    return joined, exp.Case(ifs=ifs, default=exp.false())


# -- alone in WHERE: semi and anti joins ------------------------------------------------------------------------------


def keep_where_exists(frame: Frame, inner: Inner, *, negated: bool) -> None:
    """`[NOT] EXISTS (...)` as a condition of its own."""
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
    """Without a link, whether there is any row is all that matters: one row at most."""
    if inner.pairs or inner.residual:
        return inner.plan
    return Distinct(Project(inner.plan, (Item("one", exp.Literal.number(1), pa.int32(), False),)))


def keep_where_in(frame: Frame, inner: Inner, operand: Expr) -> None:
    """`x IN (...)` as a condition of its own."""
    same = exp.EQ(this=operand.copy(), expression=column(inner.outputs[0].name))
    frame.join(inner.plan, JoinKind.SEMI, _full_condition(inner, same))


def keep_where_in_all(frame: Frame, inner: Inner, operands: list[Expr]) -> None:
    """`(x, y) IN (...)` as a condition of its own."""
    pairs = zip(operands, inner.outputs, strict=True)
    same = [exp.EQ(this=operand.copy(), expression=column(output.name)) for operand, output in pairs]
    frame.join(inner.plan, JoinKind.SEMI, _full_condition(inner, *same))


def keep_where_not_in(frame: Frame, inner: Inner, operand: Expr) -> None:
    """`x NOT IN (...)`: no element equal, no element NULL, and x not NULL unless there is no element at all."""
    element = inner.outputs[0]
    nullable = frame.inference().typed(operand).nullable
    same = exp.EQ(this=operand.copy(), expression=column(element.name))
    frame.join(inner.plan, JoinKind.ANTI, _full_condition(inner, same))
    if element.nullable:
        nulls = Filter(inner.plan, exp.Is(this=column(element.name), expression=exp.Null()))
        frame.join(_links_only(_over(inner, nulls)), JoinKind.ANTI, _full_condition(inner))
    if nullable:
        missing = exp.Is(this=exp.paren(operand), expression=exp.Null())
        frame.join(_links_only(inner), JoinKind.ANTI, _full_condition(inner, missing))


def _over(inner: Inner, plan: Node) -> Inner:
    return Inner(
        plan,
        inner.outputs,
        inner.pairs,
        inner.residual,
        inner.used,
        inner.single,
        inner.total,
        grouped=inner.grouped,
        open=inner.open,
        totals=inner.totals,
    )


def needs_domain(inner: Inner) -> bool:
    """Whether an aggregate's rows hang on conditions that are not equalities, or any rows on outer columns themselves."""
    return inner.open or (bool(inner.residual) and inner.grouped)
