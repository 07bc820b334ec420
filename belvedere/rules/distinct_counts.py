"""Distinct counts: `count(DISTINCT x)` as a count over an aggregate by the group and `x`, of which an epoch reads only
the changed rows.

In: an aggregate with distinct counts, each with or without a FILTER. Out: an equivalent plan of aggregates whose
accumulators support retraction. For distinct counts of several columns, every row is expanded once per column, as in
Spark's own plan. The other aggregates form a separate aggregate that is joined by the group.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.nodes import Aggregate, Expr, Item, Join, JoinKind, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.rules.grouping_sets import fresh_name, in_order_of, once_for_each
from belvedere.rules.merge.accumulate import ROWS, accumulate
from belvedere.rules.merge.merge_rule import MERGE
from belvedere.rules.rule import Maintain, Refusal, Rule, Site
from belvedere.schema import Column, has_map

_BIGINT = pa.int64()


def _applies(site: Site) -> Maintain | Refusal | None:
    top = site.top
    if (
        not isinstance(top, Aggregate)
        or top.grouping_sets is not None
        or needs_clock(top)
        or MERGE.name in site.builder.options.off
    ):
        return None
    counts = {i.name: found for i in top.aggregates if (found := _distinct_count(i.expr)) is not None}
    if not counts:
        return None
    schema = top.input.schema
    if any(has_map(t) for t in (*(k.type for k in top.keys), *(schema[value].type for value, _ in counts.values()))):
        return None
    grows = site.builder.grows(top.input)
    others = tuple(i for i in top.aggregates if i.name not in counts)
    if any(accumulate(i, schema, grows) is None for i in others):
        return Refusal("distinct counts beside an aggregate without accumulators")
    return partial(site.maintain, _without_distinct(top, counts, others))


def _distinct_count(expr: Expr) -> tuple[str, Expr | None] | None:
    """Return the column whose values are counted and the condition, or None for other aggregates."""
    call, condition = (expr.this, expr.expression.this) if isinstance(expr, exp.Filter) else (expr, None)
    if not isinstance(call, exp.Count) or not isinstance(call.this, exp.Distinct) or call.expressions:
        return None
    values = call.this.expressions
    return (values[0].name, condition) if len(values) == 1 and isinstance(values[0], exp.Column) else None


def _without_distinct(node: Aggregate, counts: dict[str, tuple[str, Expr | None]], others: tuple[Item, ...]) -> Node:
    taken = {*node.input.schema.names, *node.schema.names, ROWS}
    keys = tuple(replace(k, name=fresh_name(k.name, taken)) for k in node.keys) if others else node.keys
    counted = _counted(node, keys, counts, taken)
    if not others:
        return in_order_of(node, counted)
    same = [
        exp.NullSafeEQ(this=column(a.name), expression=column(b.name)) for a, b in zip(node.keys, keys, strict=True)
    ]
    beside = Aggregate(node.input, node.keys, others)
    return in_order_of(node, Join(beside, counted, JoinKind.INNER, conjunction(same) if same else None))


def _counted(
    node: Aggregate, keys: tuple[Item, ...], counts: dict[str, tuple[str, Expr | None]], taken: set[str]
) -> Aggregate:
    """Return the groups with their distinct counts, computed over an aggregate by the group and the values."""
    values = tuple(dict.fromkeys(value for value, _ in counts.values()))
    conditions = tuple(dict.fromkeys(condition for _, condition in counts.values() if condition is not None))
    rows, number, tests = node.input, None, {c: c for c in conditions}
    if len(values) > 1:
        rows, keys, tests = _computed(rows, keys, conditions, taken)
        rows, number = once_for_each(rows, range(len(values)), "_number", taken)
    own = {value: fresh_name(f"_of_{n}", taken) for n, value in enumerate(values)}
    by = [
        Item(own[v], _where(number, n, column(v)), node.input.schema[v].type, hidden=True) for n, v in enumerate(values)
    ]
    if number is not None:
        by.append(item_of(number))
    flags = {c: fresh_name(f"_if_{n}", taken) for n, c in enumerate(conditions)}
    counted = [Item(flags[c], _count(tests[c]), _BIGINT, nullable=False, hidden=True) for c in conditions]
    each = _flagged(Aggregate(rows, (*keys, *by), tuple(counted)))
    found = []
    for item in node.aggregates:
        if item.name in counts:
            value, condition = counts[item.name]
            counts_if: list[Expr] = [exp.Not(this=exp.Is(this=column(own[value]), expression=exp.Null()))]
            if condition is not None:
                counts_if.append(column(flags[condition]))
            found.append(replace(item, expr=_count(exp.and_(*counts_if))))
    return Aggregate(each, tuple(replace(k, expr=column(k.name)) for k in keys), tuple(found))


def _computed(
    rows: Node, keys: tuple[Item, ...], conditions: tuple[Expr, ...], taken: set[str]
) -> tuple[Node, tuple[Item, ...], dict[Expr, Expr]]:
    """Return the rows with their keys and conditions as columns, and the keys and conditions over these columns.

    They are then computed once per row.
    """
    names = [fresh_name(f"_by_{n}", taken) for n in range(len(keys))]
    tests = {c: fresh_name(f"_is_{n}", taken) for n, c in enumerate(conditions)}
    items = [replace(k, name=own, hidden=True) for k, own in zip(keys, names, strict=True)]
    items += [Item(name, test, pa.bool_(), hidden=True) for test, name in tests.items()]
    found = Project(rows, (*map(item_of, rows.schema), *items))
    by = tuple(replace(k, expr=column(own)) for k, own in zip(keys, names, strict=True))
    return found, by, {test: column(name) for test, name in tests.items()}


def _flagged(node: Aggregate) -> Node:
    """Replace the counts of an aggregate by flags that say whether rows exist.

    Most changes of rows then change no flag.
    """
    some = (exp.GT(this=column(i.name), expression=exp.Literal.number(0)) for i in node.aggregates)
    flags = [replace(i, expr=test, type=pa.bool_()) for i, test in zip(node.aggregates, some, strict=True)]
    return Project(node, (*(item_of(node.schema[k.name]) for k in node.keys), *flags))


def _where(number: Column | None, place: int, value: Expr) -> Expr:
    """Return an expression for the value in the rows that count for it, and NULL in other rows."""
    if number is None:
        return value
    return exp.Case(
        ifs=[exp.If(this=exp.EQ(this=column(number.name), expression=exp.Literal.number(place)), true=value)]
    )


def _count(condition: Expr) -> Expr:
    return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=condition.copy()))


DISTINCT_COUNTS = Rule("distinct counts", _applies)
