"""Ties in an order are broken the same way everywhere: by arrival, then by key, in the direction of the last sort key.

In: a TopK, or a window function over rows. Out: the sort keys to append. 'Among equal order keys the later arrival counts as greater.'
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.nodes import Expr, Order, TopK
from belvedere.schema import UID, Schema, has_map

BY_PLACE = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
"""Window functions that tell rows apart whose sort keys are equal."""


def tie_order(node: TopK) -> tuple[Order, ...]:
    """The arrival numbers and the key of the input, ascending unless the last sort key descends."""
    return _ties(node.input.schema, bool(node.order) and node.order[-1].descending)


def _ties(schema: Schema, descending: bool) -> tuple[Order, ...]:
    arrivals = [c.name for c in schema if c.name == UID or c.name.endswith(f".{UID}")]
    names = dict.fromkeys([*arrivals, *(schema.key or ())])
    return tuple(Order(column(n), descending) for n in names if not has_map(schema[n].type))


def with_ties(expr: Expr, schema: Schema) -> Expr:
    """A copy in which window functions that count rows one by one have a total order; others take equal rows together as they are."""
    result = expr.copy()
    for window in result.find_all(exp.Window):
        order = window.args.get("order")
        if order is None or not order.expressions or not _counts_rows(window):
            continue
        descending = bool(order.expressions[-1].args.get("desc"))
        for tie in _ties(schema, descending):
            order.append("expressions", exp.Ordered(this=tie.expr, desc=descending, nulls_first=not descending))
    return result


def _counts_rows(window: exp.Window) -> bool:
    call = window.this.this if isinstance(window.this, exp.IgnoreNulls | exp.RespectNulls) else window.this
    spec = window.args.get("spec")
    return isinstance(call, BY_PLACE) or (spec is not None and str(spec.args.get("kind")).upper() == "ROWS")
