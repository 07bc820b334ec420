"""Aggregates over paths in a query: `SELECT o.id, sum(o.items.price * o.items.amount) FROM Orders o`.

In: a SELECT, which is changed, and the scope of its FROM. Out: the SELECT with such aggregates replaced by local
queries: one value for each row of FROM. An aggregate over a path is a local value wherever no aggregate of the query is
allowed: in WHERE and ON, in the argument of another aggregate, and in the select list of a query that selects rows.
Elsewhere an aggregate is over the rows of the query.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from belvedere.functions.function_table import is_aggregate, unwrap_aggregate
from belvedere.lang.names.scope import Scope
from belvedere.lang.relationships.path_aggregates import LocalSelect, PathNames, path_aggregates
from belvedere.lang.relationships.path_ways import ways_of_query
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.query_frame import StatementContext

GROUPS = ("group", "having")


def expand_local_aggregates(select: exp.Select, context: StatementContext, scope: Scope) -> None:
    """Replace the aggregates over paths that a SELECT computes for each of its rows by local queries."""
    if not any(s.starts is not None and s.starts.relationships for s in scope.sources):
        return
    ways = ways_of_query(context, scope)
    where = select.args.get("where")
    if where is not None:
        expand_within(where, ways)
    clauses = _clauses(select)
    if _selects_rows(select, ways):
        for item in clauses:
            expand_within(item, ways)
        return
    for item in clauses:
        for outer in list(_aggregates(item)):
            for child in _arguments(outer):
                expand_within(child, ways)


def expand_within(expression: exp.Expr, ways: PathNames) -> None:
    """Replace the aggregates over paths to several rows in an expression that is part of a query."""
    for call in list(path_aggregates(expression, ways)):
        call.replace(LocalSelect(call, ways).subquery())


def _selects_rows(select: exp.Select, ways: PathNames) -> bool:
    """Return whether a select list has columns of rows, and no aggregates except those over paths."""
    if any(select.args.get(key) for key in GROUPS):
        return False
    rows = [item for item in select.expressions if not contains_aggregate(item)]
    others = [item for item in _clauses(select) if contains_aggregate(item)]
    over_paths = all(set(map(id, _aggregates(item))) <= set(map(id, path_aggregates(item, ways))) for item in others)
    return bool(others) and over_paths and any(item.find(exp.Column, exp.Star) is not None for item in rows)


def _clauses(select: exp.Select) -> list[exp.Expr]:
    """Return the select list, and the expressions over its rows or groups."""
    order = select.args.get("order")
    others = [select.args.get(key) for key in ("having", "qualify")]
    keys = order.expressions if order is not None else []
    return [*select.expressions, *keys, *(c for c in others if c is not None)]


def _aggregates(expression: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost aggregates of an expression, except those of window functions and subqueries."""
    if isinstance(expression, exp.Query | exp.Window):
        return
    if is_aggregate(unwrap_aggregate(expression)):
        yield expression
        return
    for child in expression.iter_expressions():
        yield from _aggregates(child)


def _arguments(call: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the arguments of an aggregate, and the condition of its FILTER."""
    inner = unwrap_aggregate(call)
    yield from list(inner.iter_expressions())
    while call is not inner:
        yield from [e for e in call.iter_expressions() if e is not call.this]
        call = call.this
