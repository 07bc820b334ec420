"""`T.c := avg(sensors.lastReading.temp)`: aggregates over paths, as the local queries that they stand for.

In: an expression, and a function that follows relationships. Out: the same with scalar subqueries. Resolves nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.functions.function_table import is_aggregate
from belvedere.lang.names.scope import name_parts
from belvedere.lang.select.grouping import contains_aggregate

PATH_ALIAS = "path"
"""The alias of related rows in a subquery that stands for a dotted name."""

Steps = Callable[[Sequence[str]], int]
"""How many names from the first are relationships, each starting where the one before ends."""


def is_scalar(query: exp.Select) -> bool:
    """One output column, aggregates, no GROUP BY: a value per row of the table around."""
    return len(query.expressions) == 1 and query.args.get("group") is None and contains_aggregate(query.expressions[0])


def expand_path_aggregates(expression: exp.Expr, steps: Steps) -> exp.Expr:
    """`avg(sensors.lastReading.temp)` as `(SELECT avg(path.temp) FROM _.sensors.lastReading path)`."""

    def change(node: exp.Expr) -> exp.Expr:
        if not is_aggregate(node):
            return node
        path = _path_argument(node)
        if not path:
            return node
        found = steps([p.name for p in path])
        return _local_select(node, path, whole=found == len(path)) if found else node

    return expression.copy().transform(change)


def _path_argument(call: exp.Expr) -> tuple[exp.Identifier, ...]:
    """The argument as a path, without a leading `_`; empty where it is no path."""
    argument = call.args.get("this")
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    parts = name_parts(argument)
    return parts[1:] if parts and parts[0].name == OWNER else parts


def _local_select(call: exp.Expr, path: Sequence[exp.Identifier], *, whole: bool) -> exp.Expr:
    """`whole`: the path ends at a relationship, so its rows are meant, not a column of them."""
    copied, steps = call.copy(), path if whole else path[:-1]
    query = over_path([exp.to_identifier(OWNER), *steps], exp.Star() if whole else path[-1].copy(), path[-1])
    value = exp.Star() if whole else query.expressions[0]
    copied.set("this", exp.Distinct(expressions=[value]) if isinstance(copied.this, exp.Distinct) else value)
    query.set("expressions", [copied])
    return exp.Subquery(this=query)


def over_path(parts: Sequence[exp.Identifier], column: exp.Expr, place: exp.Expr) -> exp.Select:
    """`SELECT path.column FROM a.b.c path`, with the place in the script of what it stands for."""
    value = exp.Column(this=column, table=exp.to_identifier(PATH_ALIAS))
    value.meta.update(place.meta)
    alias = exp.TableAlias(this=exp.to_identifier(PATH_ALIAS))
    table = exp.Table(this=exp.Dot.build([part.copy() for part in parts]), alias=alias)
    return exp.Select(expressions=[value], from_=exp.From(this=table))
