"""Aggregates with ORDER BY: `array_agg(x ORDER BY t)`, `listagg(x, ',') WITHIN GROUP (ORDER BY t)` and similar calls.

In: the parsed call, with the FILTER around it. Out: the same value by aggregates without ORDER BY: rows become structs
of the sort keys and the value, which are collected and sorted. `min_by` and `max_by` compute a first and a last value.
Tied rows are ordered by their values, so the result is deterministic.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.forms.query_forms import filled
from belvedere.syntax.problems import Problem
from belvedere.syntax.query_tree import place_of

FIRST = (exp.FirstValue, exp.First)
LAST = (exp.LastValue, exp.Last)
LISTS = (exp.ArrayAgg, exp.GroupConcat)
AGGREGATES = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.Count, exp.ArgMin, exp.ArgMax, exp.Mode, exp.Quantile)
"""Aggregates that are rewritten."""
ORDERED = (*FIRST, *LAST, *LISTS)


GREATEST_MODE = (
    "array_max(transform(array_distinct(collect_list(x_)), "
    "e -> named_struct('n', size(filter(collect_list(x_), f -> f = e)), 'v', e))).v"
)
"""Expression for the greatest of the most frequent values; `mode` returns the least."""


def refuse_order(node: exp.Order) -> exp.Expr:
    """Reject ORDER BY in a function that ignores it."""
    call: Any = node.parent
    if isinstance(call, exp.Func) and not isinstance(call, ORDERED):
        message = "ORDER BY in this function is not supported"
        hint = "array_agg, listagg, string_agg, first_value and last_value take it"
        raise Problem("B3015", message, *place_of(node), hint)
    return node


def ordered_call(node: Any) -> exp.Expr:
    """Rewrite a call with ORDER BY; a call inside FILTER is left to `filtered`."""
    if not isinstance(node.this, exp.Order) or isinstance(node.parent, (exp.Filter, exp.Window)):
        return node  # type: ignore[no-any-return]
    return _ordered(node, None)


def filtered(node: exp.Filter) -> exp.Expr:
    """Rewrite an ordered aggregate with FILTER: it applies to each aggregate of the result."""
    if isinstance(node.parent, exp.Window):
        return node
    return _unordered(node.this, node.expression) or node


def windowed(node: exp.Window) -> exp.Expr:
    """Rewrite an ordered aggregate with OVER: each aggregate of the result has the same window."""
    inner: Any = node.this
    where = inner.expression if isinstance(inner, exp.Filter) else None
    found = _unordered(inner.this if isinstance(inner, exp.Filter) else inner, where)
    if found is None:
        return node
    clauses = {k: v for k, v in node.args.items() if k != "this"}

    def over(part: exp.Expr) -> exp.Expr:
        is_call = isinstance(part, exp.Filter) or (
            isinstance(part, AGGREGATES) and not isinstance(part.parent, exp.Filter)
        )
        return exp.Window(**{**exp.Window(**clauses).copy().args, "this": part.copy()}) if is_call else part

    found = found.transform(over)
    if isinstance(found, exp.Window):
        return found
    return exp.paren(found, copy=False)


def _unordered(call: Any, where: exp.Expr | None) -> exp.Expr | None:
    """Return the same value by aggregates without ORDER BY; None for a call without one."""
    if isinstance(call, exp.WithinGroup):
        return _within(call, where)
    return _ordered(call, where) if isinstance(call, ORDERED) and isinstance(call.this, exp.Order) else None


def within_group(node: exp.WithinGroup) -> exp.Expr:
    """Rewrite `mode()`, `percentile_cont(p)` and `percentile_disc(p)` WITHIN GROUP. sqlglot moves the order of a list
    into its call."""
    return node if isinstance(node.parent, (exp.Filter, exp.Window)) else _within(node, None)


def _ordered(node: Any, where: exp.Expr | None) -> exp.Expr:
    order = node.this
    if isinstance(node, LISTS):
        return _list(node, order.this, order.expressions, where)
    _, descending = _keys(node, order.expressions)
    if any(bool(o.args.get("desc")) != descending for o in order.expressions):
        raise _problem(node, "a first value ordered in two directions is not supported", "write them in one direction")
    fields, _ = _keys(node, order.expressions)
    least = isinstance(node, FIRST) != descending
    by = exp.Struct(expressions=fields)
    found = (
        exp.ArgMin(this=order.this.copy(), expression=by)
        if least
        else exp.ArgMax(this=order.this.copy(), expression=by)
    )
    return _with_filter(found, where)


def _keys(node: exp.Expr, orders: list[exp.Expr]) -> tuple[list[exp.Expr], bool]:
    """Return the fields of the sort key, and whether the order is descending. A separate field gives the position of
    NULL if it differs from Spark's default."""
    fields: list[exp.Expr] = []
    descending = bool(orders[0].args.get("desc"))
    for n, ordered in enumerate(orders):
        down = bool(ordered.args.get("desc"))
        if bool(ordered.args.get("nulls_first")) == down:
            missing = exp.Is(this=exp.paren(ordered.this.copy(), copy=False), expression=exp.Null())
            fields.append(exp.PropertyEQ(this=exp.to_identifier(f"n{n}"), expression=missing))
        fields.append(exp.PropertyEQ(this=exp.to_identifier(f"k{n}"), expression=ordered.this.copy()))
    return fields, descending


def _list(node: Any, value: exp.Expr, orders: list[exp.Expr], where: exp.Expr | None) -> exp.Expr:
    distinct = isinstance(value, exp.Distinct)
    value = value.expressions[0] if distinct else value
    if distinct and [o.this for o in orders] != [value]:
        raise _problem(node, "DISTINCT can only be ordered by its own value", "order by that value")
    shown = exp.cast(value.copy(), "STRING") if isinstance(node, exp.GroupConcat) else value.copy()
    fields, descending = _keys(node, orders)
    if any(bool(o.args.get("desc")) != descending for o in orders):
        raise _problem(
            node, "an aggregate ordered in two directions is not supported", "write the keys in one direction"
        )
    row = exp.Struct(expressions=[*fields, exp.PropertyEQ(this=exp.to_identifier("v"), expression=shown)])
    collect = "collect_set" if distinct else "collect_list"
    text = f"transform(sort_array({collect}(CASE WHEN x_ IS NOT NULL THEN r_ END), u_), e -> e.v)"
    array = filled(text, x_=exp.paren(value.copy(), copy=False), r_=row, u_=exp.false() if descending else exp.true())
    array = _with_filter(array, where)
    if isinstance(node, exp.ArrayAgg):
        return array
    separator = node.args.get("separator") or exp.Literal.string("")
    return filled("CASE WHEN size(a_) > 0 THEN array_join(a_, s_) END", a_=array, s_=separator)


def _within(node: exp.WithinGroup, where: exp.Expr | None) -> exp.Expr:
    call, order = node.this, node.expression
    keys = order.expressions if isinstance(order, exp.Order) else []
    if len(keys) != 1 or not isinstance(call, (exp.Mode, exp.PercentileDisc, exp.PercentileCont)):
        name = call.sql(SparkSql).partition("(")[0].lower()
        raise _problem(
            node,
            f"`{name}` WITHIN GROUP is not supported",
            "supported are percentile_cont, percentile_disc, mode and listagg",
        )
    key, down = keys[0].this, bool(keys[0].args.get("desc"))
    if isinstance(call, exp.Mode):
        if call.this is not None:
            raise _problem(node, "mode(x) WITHIN GROUP names two values", "write mode() WITHIN GROUP (ORDER BY x)")
        if down:
            return _with_filter(filled(GREATEST_MODE, x_=key), where)
        return _with_filter(exp.Mode(this=key.copy(), deterministic=exp.true()), where)
    place = call.this
    if isinstance(call, exp.PercentileCont):
        place = (
            exp.Sub(this=exp.Literal.number(1), expression=exp.paren(place.copy(), copy=False))
            if down
            else place.copy()
        )
        return _with_filter(exp.Quantile(this=key.copy(), quantile=place), where)
    if not isinstance(place, exp.Literal) or place.is_string or not 0 <= float(place.name) <= 1:
        raise _problem(node, "percentile_disc takes a number from 0 to 1", "write percentile_disc(0.5)")
    text = (
        "CASE WHEN count(x_) > 0 THEN CAST(element_at(sort_array(collect_list(x_), u_), "
        "greatest(CAST(ceil(CAST(p_ AS DOUBLE) * count(x_)) AS INT), 1)) AS DOUBLE) END"
    )
    return _with_filter(filled(text, x_=key, u_=exp.false() if down else exp.true(), p_=place), where)


def _with_filter(tree: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    if where is None:
        return tree
    return tree.transform(
        lambda n: (
            exp.Filter(this=n.copy(), expression=where.copy())
            if isinstance(n, AGGREGATES) and not isinstance(n.parent, exp.Filter)
            else n
        )
    )


def _problem(node: exp.Expr, message: str, hint: str) -> Problem:
    return Problem("B3015", message, *place_of(node), hint)
