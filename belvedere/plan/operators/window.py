"""Window functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from belvedere.plan.arrival_order import over_arrival
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr
from belvedere.plan.monotone import FOREVER, LAST_TIME, NEVER, interval_length
from belvedere.plan.operators.node import Item, Node, Partition, pruned_below, texts
from belvedere.plan.operators.project import keep_columns
from belvedere.plan.rising import time_literal, whole_number
from belvedere.plan.ties import tie_columns
from belvedere.schema import Schema


@dataclass(frozen=True)
class Window(Node):
    """The input's columns and window functions over them: `items` hold `exp.Window` expressions."""

    input: Node
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.input.schema.columns + tuple(i.column for i in self.items), self.input.schema.key)

    @property
    def text(self) -> str:
        return f"window {texts(self.items)}"

    @property
    def key_by_key(self) -> Partition | None:
        """Partition by the PARTITION BY columns that all window functions share."""
        shared: list[str] | None = None
        for window in self._calls():
            own = [e.name for e in window.args.get("partition_by") or [] if isinstance(e, exp.Column)]
            shared = own if shared is None else [n for n in shared if n in own]
        return Partition.by_columns(shared, self.input.schema) if shared else None

    def pruned(self, requested: frozenset[str]) -> Node:
        items = tuple(i for i in self.items if i.name in requested)
        return pruned_below(replace(self, items=items), requested) if items else self.input.pruned(requested)

    def in_arrival_order(self) -> Node:
        names = tie_columns(self.input.schema)
        if not names:
            return self
        places: dict[Expr, Item] = {}
        items = tuple(
            replace(i, expr=over_arrival(i.expr, names, i.type, places, self.input.schema)) for i in self.items
        )
        below = Window(self.input, tuple(places.values())) if places else self.input
        return keep_columns(Window(below, items), self.schema.names)

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null | {i.name for i in self.items if not i.nullable}

    @property
    def holds(self) -> tuple[Expr, ...]:
        return self.input.holds

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """Return the bounds of its columns. A new row changes rows of its own partition: for each window function,
        earlier rows that look ahead to it.

        The k-th next time, `lead(t, k) OVER (... ORDER BY t)`, has the bound of the time: if it is below the bound, no
        later arrival is among the k next rows.
        """
        below = self.input.bounds(known)
        nexts = {i.name: found for i in self.items if (found := next_time(i.expr)) is not None}
        ways: list[Bounds] = []
        for call in self._calls():
            way = _of_call(call, self.input, below, nexts)
            if way not in ways:
                ways.append(way)
        return tuple(ways) or (below,)

    def _calls(self) -> list[exp.Window]:
        return [w for i in self.items for w in i.expr.find_all(exp.Window)]


@dataclass(frozen=True)
class NextTime:
    """A column that gives the time of a later row: the `rows`-th next one in the order of the column `time`."""

    time: str
    rows: int
    window: exp.Window

    @property
    def has_default(self) -> bool:
        """Return whether the value is the last possible time, not NULL, if there is no such row."""
        return self.window.this.args.get("default") is not None


def next_time(expr: Expr) -> NextTime | None:
    """Describe a window function that returns a next time in its own order; None for any other."""
    if not isinstance(expr, exp.Window) or not isinstance(expr.this, exp.Lead) or expr.args.get("order") is None:
        return None
    call, order = expr.this, expr.args["order"]
    default, rows = call.args.get("default"), rows_ahead(expr)
    first = order.expressions[0]
    if rows is None or not isinstance(call.this, exp.Column) or first.this != call.this or first.args.get("desc"):
        return None
    return NextTime(call.this.name, rows, expr) if default is None or time_literal(default) == LAST_TIME else None


def _of_call(call: exp.Window, below: Node, bounds: Bounds, nexts: Mapping[str, NextTime]) -> Bounds:
    """Return the bounds of columns in the rows that a new row can change through one window function."""
    own = [e.name for e in call.args.get("partition_by") or [] if isinstance(e, exp.Column)]
    found = {n: bounds[n] for n in own if n in bounds}
    time = leading_column(call, below)
    if time is None or time not in bounds:
        return found
    rows, distance = rows_ahead(call), _time_ahead(call)
    if distance is not None:
        limit = bounds[time] if bounds[time] in (NEVER, FOREVER) else bounds[time] - distance
        return {**found, time: limit, **{n: limit for n, following in nexts.items() if following.time == time}}
    covers = (n for n, f in nexts.items() if rows is not None and rows <= f.rows and same_rows(f.window, call))
    return {**found, **dict.fromkeys(covers, bounds[time])}


def same_rows(one: exp.Window, other: exp.Window) -> bool:
    """Return whether two window functions have the same partitions in the same order."""
    return all((one.args.get(n) or None) == (other.args.get(n) or None) for n in ("partition_by", "order"))


def leading_column(call: exp.Window, below: Node) -> str | None:
    """Return the column of the first sort key; None if a later NULL could come before all rows."""
    order = call.args.get("order")
    first = order.expressions[0] if order is not None and order.expressions else None
    if not isinstance(first, exp.Ordered) or first.args.get("desc") or not isinstance(first.this, exp.Column):
        return None
    name = first.this.name
    spec = call.args.get("spec")
    limited = spec is not None and spec.args.get("kind") == "RANGE" and spec.args.get("start") != "UNBOUNDED"
    nulls_last = first.args.get("nulls_first") is False
    return name if nulls_last or limited or name in below.never_null else None


def rows_ahead(call: exp.Window) -> int | None:
    """Return the number of following rows on which a row's value may depend; None if it is unlimited or given by a
    time."""
    inner = call.this.this if isinstance(call.this, exp.Filter) else call.this
    if isinstance(inner, exp.Lead):
        offset = inner.args.get("offset")
        rows = 1 if offset is None else whole_number(offset)
        return rows if rows is None or rows >= 0 else 0
    spec: Any = call.args.get("spec")
    by_rows = spec is not None and spec.args.get("kind") == "ROWS" and spec.args.get("end_side") == "FOLLOWING"
    if by_rows and isinstance(inner, BACKWARD) and isinstance(spec.args["end"], exp.Expr):
        return whole_number(spec.args["end"])
    return None if _looks_ahead(call) else 0


def _time_ahead(call: exp.Window) -> int | None:
    """Return how far after its own time a row's value may depend on rows, in microseconds; None if a number of rows
    limits it."""
    spec: Any = call.args.get("spec")
    ahead = spec is not None and spec.args.get("kind") == "RANGE" and spec.args.get("end_side") == "FOLLOWING"
    if ahead and isinstance(spec.args["end"], exp.Expr) and isinstance(_called(call), BACKWARD):
        return interval_length(spec.args["end"])
    return None if _looks_ahead(call) else 0


BACKWARD = (exp.AggFunc, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.FirstValue, exp.LastValue)
"""Functions that read no row after their frame; without a frame, they read their own row or those before it."""


def _called(call: exp.Window) -> Any:
    return call.this.this if isinstance(call.this, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)) else call.this


def _looks_ahead(call: exp.Window) -> bool:
    """Return whether a row's value may depend on later rows. This includes ntile and percent_rank, which count the
    whole partition."""
    inner = _called(call)
    if not isinstance(inner, BACKWARD) or isinstance(inner, (exp.Lead, exp.PercentRank, exp.CumeDist, exp.Ntile)):
        return True
    spec = call.args.get("spec")
    if spec is None:
        return call.args.get("order") is None and isinstance(inner, exp.AggFunc)
    end = spec.args.get("end")
    return not (end is None or end == "CURRENT ROW" or spec.args.get("end_side") == "PRECEDING")
