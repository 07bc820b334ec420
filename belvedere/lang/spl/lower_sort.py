"""A SELECT STREAM of a window's rows with ORDER BY -> a plan: the rows of each firing, sorted.

In: the SELECT as written, without its window, and the window. Out: its plan. There are no aggregates: a row of the
window is a row of the result.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.select_list import Clause
from belvedere.lang.spl.clause_checks import window_of
from belvedere.lang.spl.lower_window import SplGrouping, SplLowering
from belvedere.lang.spl.spl_functions import ARITY, REFUSED, reading_of
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Node, Order, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_windows import Count, Sliding, SplWindow, Tumbling
from belvedere.plan.unused_names import unused_name

AGGREGATES = {"last", *ARITY, *REFUSED}
"""Names of aggregates of windows that sqlglot does not know as aggregates."""


def sorts_rows(select: exp.Select) -> bool:
    """Return whether a SELECT STREAM over a window returns its rows themselves, in an order."""
    if not select.args.get("order") or select.args.get("group") or select.args.get("having"):
        return False
    return not any(_aggregates(e) for e in (*select.expressions, *select.args["order"].expressions))


def _aggregates(expr: exp.Expr) -> bool:
    return contains_aggregate(expr) or any(n.name.lower() in AGGREGATES for n in expr.find_all(exp.Anonymous))


class SplSorting(SplLowering):
    """State of one such SELECT while it is lowered."""

    def _group(self) -> None:
        self._check_where()
        self._check_late_windows()
        window = window_of(self.clause, self._column, self.context.fail)
        self._check_sorted(window)
        self._notice_final(window)
        grouping = SplGrouping(self.frame, [self._own_key(k) for k in self.clause.keys], window=window)
        for output in self.outputs:
            output.expr = _read(grouping, output.expr, output)
        orders = [self._order(o) for o in self.orders]
        self.orders.clear()
        self.frame.plan = self._sorted(grouping, window, orders)

    def _check_sorted(self, window: SplWindow) -> None:
        kind = window.kind
        if isinstance(kind, Sliding):
            counts = isinstance(kind.eviction, Count) and kind.eviction.rows > 0 and kind.trigger == Count(1)
            sorts = counts and window.forgetting is None and not window.incomplete
        else:
            sorts = isinstance(kind, Tumbling) and not window.evicted
        if not sorts:
            message = "only a tumbling window or sliding, count(n) sorts rows"
            hint = "write tumbling and a policy, or sliding, count(n), without options; or aggregate the rows"
            raise self.context.fail("B5218", message, self.clause.expressions[0], hint)

    def _order(self, clause: Clause) -> tuple[Expr, Order]:
        self.frame.check_order(clause.expr, clause.written)
        return clause.expr, clause.order

    def _sorted(self, grouping: SplGrouping, window: SplWindow, orders: list[tuple[Expr, Order]]) -> Node:
        """Return the node; sort keys are columns of its input."""
        arriving, punctuation = self._arriving(grouping, window)
        columns = {c.name: item_of(c) for c in self.frame.plan.schema}
        for key in grouping.keys:
            columns.setdefault(key.name, replace(key, hidden=True))
        partition = tuple(replace(k, expr=column(k.name)) for k in grouping.keys)
        sort = []
        for expr, order in orders:
            name = expr.name if isinstance(expr, exp.Column) else unused_name("sort", set(columns))
            columns.setdefault(name, self.frame.item(name, expr, hidden=True))
            sort.append(Order(column(name), order.descending, order.nulls_first))
        own = {k.name for k in partition}
        rows = tuple(replace(i, expr=column(i.name)) for i in columns.values() if i.name not in own)
        below = Project(self.frame.plan, tuple(columns.values()))
        readings = tuple(grouping.readings)
        return SplAggregate(
            below,
            window,
            partition,
            (),
            rows,
            readings,
            arriving.order,
            arriving.clock,
            None,
            punctuation,
            True,
            sort=tuple(sort),
        )


def _read(grouping: SplGrouping, expr: Expr, clause: Clause) -> Expr:
    """Return the expression with properties of a firing as columns."""
    return expr.transform(lambda n: n if reading_of(n) is None else grouping.lift(n, clause.written))
