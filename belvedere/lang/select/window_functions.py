"""Window functions of a SELECT: each is computed once, as a column that its expressions read.

In: expressions over the frame after GROUP BY. Out: the expressions without OVER, and the items of a `Window` node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.functions.function_table import is_window_function, unwrap_aggregate
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.select.query_frame import Frame
from belvedere.plan.expressions import column, map_operands
from belvedere.plan.operators.nodes import Expr, Item
from belvedere.schema import find_named


@dataclass
class WindowFunctions:
    """Collects the window functions of one SELECT. `implied` are partition columns of every window."""

    select: exp.Select
    frame: Frame
    implied: Sequence[Item]
    items: list[Item] = field(default_factory=list)

    def lift(self, expr: Expr, written: exp.Expr) -> Expr:
        """Return the expression with its window functions replaced by columns."""
        if isinstance(expr, exp.Window):
            return self._window(expr, written)
        if expr.find(exp.Window, exp.Func) is None:
            return expr
        if is_window_function(unwrap_aggregate(expr)):
            raise self.frame.fail(
                "B3036", "a window function needs OVER", written, "write `OVER (PARTITION BY ... ORDER BY ...)`"
            )
        return map_operands(expr.copy(), lambda e: self.lift(e, written))

    def _window(self, expr: exp.Window, written: exp.Expr) -> Expr:
        window = self._named_window(expr, written)
        if self.implied:
            window.set(
                "partition_by", [*(i.expr.copy() for i in self.implied), *(window.args.get("partition_by") or ())]
            )
        for item in self.items:
            if item.expr == window:
                return column(item.name)
        self.items.append(self.frame.item(self.frame.context.names.fresh("window"), window))
        return column(self.items[-1].name)

    def _named_window(self, expr: exp.Window, written: exp.Expr) -> exp.Window:
        window = expr.copy()
        name = window.args.get("alias")
        if name is None:
            return window
        found = find_named(self.select.args.get("windows") or (), name.name)
        if found is not None and (
            found.args.get("alias") or any(window.args.get(k) for k in ("partition_by", "order", "spec"))
        ):
            hint = "write its definition in OVER (...), without the name"
            raise self.frame.fail("B3040", f"a window over window `{name.name}` is not supported", written, hint)
        if found is None:
            raise self.frame.fail("B2006", f"window `{name.name}` is not defined", written)
        for key in ("partition_by", "order", "spec"):
            value = found.args.get(key)
            if isinstance(value, list):
                window.set(key, [Resolver(self.frame).resolve(v) for v in value])
            elif value is not None:
                window.set(key, Resolver(self.frame).resolve(value))
        window.set("alias", None)
        return window
