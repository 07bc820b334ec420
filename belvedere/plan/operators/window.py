"""Window functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.arrival_order import over_arrival
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr
from belvedere.plan.operators.node import Item, Node, Partition, pruned_below, texts
from belvedere.plan.operators.project import keep_columns
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
        """By the PARTITION BY columns that all window functions share."""
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
        items = tuple(replace(i, expr=over_arrival(i.expr, names, i.type, places, self.input.schema)) for i in self.items)
        below = Window(self.input, tuple(places.values())) if places else self.input
        return keep_columns(Window(below, items), self.schema.names)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """A new row changes rows of its own partition, and none before it where every frame ends at the current row.

        Of the next time, `lead(t) OVER (... ORDER BY t)`, the bound is that of the time: a row to come is the next of those before it.
        """
        below = self.input.bounds(known)
        kept = set(below)
        for call in self._calls():
            own = {e.name for e in call.args.get("partition_by") or [] if isinstance(e, exp.Column)}
            leading = _leading_column(call, self.input)
            if leading is not None and not _looks_ahead(call):
                own.add(leading)
            kept &= own
        ends = {i.name: below[time] for i in self.items if (time := next_time(i.expr)) is not None and time in below}
        return ({n: b for n, b in below.items() if n in kept} | ends,)

    def _calls(self) -> list[exp.Window]:
        return [w for i in self.items for w in i.expr.find_all(exp.Window)]


def next_time(expr: Expr) -> str | None:
    """The column of which a window function gives the next value in its own order; None for any other."""
    call = expr.this if isinstance(expr, exp.Window) else None
    order = expr.args.get("order")
    if not isinstance(call, exp.Lead) or call.args.get("offset") or call.args.get("default") or order is None:
        return None
    first = order.expressions[0]
    same = isinstance(call.this, exp.Column) and first.this == call.this
    return call.this.name if same and not first.args.get("desc") else None


def _leading_column(call: exp.Expr, below: Node) -> str | None:
    """The column that rows are ordered by first; not where a later NULL could come before all of them."""
    order = call.args.get("order")
    first = order.expressions[0] if order is not None and order.expressions else None
    if not isinstance(first, exp.Ordered) or first.args.get("desc") or not isinstance(first.this, exp.Column):
        return None
    name = first.this.name
    spec = call.args.get("spec")
    limited = spec is not None and spec.args.get("kind") == "RANGE" and spec.args.get("start") != "UNBOUNDED"
    nulls_last = first.args.get("nulls_first") is False
    return name if nulls_last or limited or not below.schema[name].nullable else None


def _looks_ahead(call: exp.Expr) -> bool:
    """Whether a row's value may depend on rows after it (also ntile and percent_rank, which count the whole partition)."""
    backward = (exp.AggFunc, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.FirstValue, exp.LastValue)
    inner = call.this.this if isinstance(call.this, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)) else call.this
    if not isinstance(inner, backward) or isinstance(inner, (exp.Lead, exp.PercentRank, exp.CumeDist, exp.Ntile)):
        return True
    spec = call.args.get("spec")
    if spec is None:
        return False
    end = spec.args.get("end")
    return not (end is None or end == "CURRENT ROW" or spec.args.get("end_side") == "PRECEDING")
