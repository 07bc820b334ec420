"""Window functions whose frames grow from the first row of their partition, continued after a row with known results.

In: a `Window` node with growing frames. Out: a `RunningWindow`: the node with hidden columns (the accumulators) from
which the next row continues, and the same functions over rows that carry the accumulators of a known row before them. A
sum continues from its old value in row order, so a sum of doubles has the same digits as in batch. If the order of rows
is not fixed (peers of a RANGE frame), there is no `RunningWindow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.arrival_order import unwrapped, with_ties
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Item, Node, Project, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.rewrite import with_column
from belvedere.plan.ties import tie_columns
from belvedere.plan.unused_names import unused_name
from belvedere.rules.frames.frames import name_of, running_frame_end
from belvedere.rules.merge.accumulate import BIGINT, DOUBLE, adds_exactly, is_modified, is_small_integer, template
from belvedere.schema import Column

LAST, PART, SEED = "_last.", "_part.", "_seed."
"""Prefixes of columns: an accumulator at the previous row, a function over only the following rows, and a value that
adds the former to the latter."""
RUNNING = "_running"
PEERS = (
    "rows of equal ORDER BY are added to a DOUBLE in no fixed order (write ROWS UNBOUNDED PRECEDING, or add the "
    "key to ORDER BY, "
    "and it continues from the row before a change)"
)
FILTERED = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max)


class _CannotGoOn(Exception):
    """Reason why a function is not continued."""


@dataclass(frozen=True)
class RunningWindow:
    """A window that can be continued.

    `window` has the node's functions and the accumulators; `number` is its column that numbers the rows of a partition.

    `known` are the columns of the previous row that the following rows need. The other fields are the steps of
    `following`.
    """

    window: Window
    number: str
    known: tuple[str, ...]
    numbered: Item
    seeds: tuple[Item, ...]
    parts: tuple[Item, ...]
    results: tuple[Item, ...]

    @property
    def last(self) -> tuple[Column, ...]:
        """Return the columns added to following rows: `known` of the row before, NULL if there is none."""
        return tuple(Column(LAST + n, self.window.schema[n].type, hidden=True) for n in self.known)

    def following(self, below: Node, scan: str) -> Node:
        """Return the columns of `window` for following rows.

        These come through `below`, a chain over a scan with `last`.
        """
        for added in self.last:
            below = with_column(below, added, frozenset({scan}))
        numbered = Window(below, (self.numbered,))
        seeded = Project(numbered, (*(item_of(c) for c in numbered.schema), *self.seeds))
        found = Window(seeded, self.parts)
        return Project(found, (*(item_of(c) for c in self.window.input.schema), *self.results))


def running_window_of(node: Window) -> RunningWindow | str:
    """Return how a node's growing functions are continued, or the reason why they cannot be."""
    try:
        return _UnboundedPreceding(node).running_window()
    except _CannotGoOn as reason:
        return str(reason)


@dataclass
class _UnboundedPreceding:
    node: Window
    items: list[Item] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    seeds: dict[Expr, Item] = field(default_factory=dict)
    parts: dict[Expr, Item] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schema = self.node.input.schema
        used = [n for below in self.node.input.walk() for n in below.schema.names]
        if any(n.startswith((LAST, PART, SEED)) for n in used):
            raise _CannotGoOn("columns have names that Belvedere uses itself")
        windows = [
            i.expr for i in self.node.items if isinstance(i.expr, exp.Window) and running_frame_end(i.expr) is not None
        ]
        self.partition = [e.copy() for e in windows[0].args.get("partition_by") or ()]
        orders = [w.args["order"] for w in windows]
        self.order = with_ties(max(orders, key=lambda o: len(o.expressions)), tie_columns(schema))
        if any(o.expressions != self.order.expressions[: len(o.expressions)] for o in orders):
            raise _CannotGoOn("its functions differ in ORDER BY")
        if not self._separates_rows(self.order):
            raise _CannotGoOn("the order of rows that tie is not fixed")
        self.items.extend(self.node.items)
        number = exp.Window(this=exp.RowNumber(), partition_by=self.partition, order=self.order, over="OVER")
        self.number = self._item(number, pa.int32())
        self.numbered = replace(self.number, name=PART, hidden=True)

    def running_window(self) -> RunningWindow:
        results: list[Item] = []
        self._last(self.number)
        while len(results) < len(self.items):  # accumulators that are added on the way are continued too
            item = self.items[len(results)]
            results.append(replace(item, expr=self._result(item)))
        window = Window(self.node.input, tuple(self.items))
        seeds, parts = tuple(self.seeds.values()), tuple(self.parts.values())
        return RunningWindow(window, self.number.name, tuple(self.known), self.numbered, seeds, parts, tuple(results))

    def _separates_rows(self, order: Expr) -> bool:
        by = {e.this.name for e in order.expressions} | {e.name for e in self.partition}
        key = self.node.input.schema.key
        return key is not None and by.issuperset(key)

    def _item(self, window: Expr, type_: pa.DataType) -> Item:
        """Return the node's column for this function; create the column if it is missing."""
        found = next((i for i in self.items if i.expr == window and i.type == type_), None)
        if found is None:
            taken = {*self.node.input.schema.names, *(i.name for i in self.items)}
            found = Item(unused_name(RUNNING, taken), window, type_, hidden=True)
            self.items.append(found)
        return found

    def _last(self, item: Item) -> Expr:
        """Return the value of a function over all rows up to the row before."""
        window = item.expr
        if isinstance(window, exp.Window) and running_frame_end(window) != 0:
            spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
            window = _with(window, order=self.order, spec=spec)
        name = self._item(window, item.type).name
        if name not in self.known:
            self.known.append(name)
        return column(LAST + name)

    def _part(self, window: Expr, type_: pa.DataType) -> Expr:
        """Return a function over only the following rows."""
        if window == self.numbered.expr:
            return column(self.numbered.name)
        if window not in self.parts:
            self.parts[window] = Item(f"{PART}{len(self.parts)}", window, type_, hidden=True)
        return column(self.parts[window].name)

    def _result(self, item: Item) -> Expr:
        window = item.expr
        if not isinstance(window, exp.Window) or running_frame_end(window) is None:
            return self._part(window, item.type)
        call, condition, skips = unwrapped(window.this)
        simple = isinstance(call, exp.Count) or not is_modified(call)
        if (
            not simple
            or isinstance(call.this, exp.Distinct)
            or (condition is not None and not isinstance(call, FILTERED))
        ):
            raise _CannotGoOn(f"{name_of(call)} with more arguments is computed from all rows of its frame")
        match call:
            case exp.RowNumber() | exp.Rank():
                return template("coalesce(l, 0) + p", l=self._last(self.number), p=self._part(window, item.type))
            case exp.Sum():
                return self._sum(window, _value(call.this, condition), item)
            case exp.Avg():
                return self._average(window, _value(call.this, condition), item)
            case exp.Last() | exp.LastValue() if not skips:
                return self._part(window, item.type)
        return template(
            _together(call, skips), l=self._last(item), p=self._part(window, item.type), n=self._last(self.number)
        )

    def _sum(self, window: exp.Window, value: Expr, item: Item) -> Expr:
        """Return a sum to which the first following row adds the old sum."""
        type_ = item.type
        if not (type_ in (BIGINT, DOUBLE) or (pa.types.is_decimal(type_) and adds_exactly(type_))):
            raise _CannotGoOn(f"a sum of type {type_} is computed from all rows of its frame")
        if type_ == DOUBLE:
            self._require_fixed_order(window, value)
        last, value = (
            self._last(item),
            value if isinstance(value, exp.Cast) and type_ == DOUBLE else _cast(value, type_),
        )
        following = template("l + coalesce(x, z)", l=last, x=value, z=_cast(exp.Literal.number(0), type_))
        seed = template(
            "CASE WHEN f = 1 AND l IS NOT NULL THEN s ELSE x END",
            f=column(self.numbered.name),
            l=last,
            s=_cast(following, type_),
            x=value,
        )
        if seed not in self.seeds:
            self.seeds[seed] = Item(f"{SEED}{len(self.seeds)}", seed, type_, hidden=True)
        return self._part(_with(window, this=exp.Sum(this=column(self.seeds[seed].name))), type_)

    def _average(self, window: exp.Window, value: Expr, item: Item) -> Expr:
        """Return an average as Spark computes it: a sum of doubles divided by the number of rows, with the same
        digits.
        """
        if item.type != DOUBLE:
            raise _CannotGoOn("an average of decimals is computed from all rows of its frame")
        number = Item("", _with(window, this=exp.Count(this=value.copy(), big_int=True)), BIGINT)
        summed = _with(window, this=exp.Sum(this=_cast(value, DOUBLE)))
        c = template("coalesce(l, 0) + p", l=self._last(number), p=self._part(number.expr, BIGINT))
        s = self._sum(summed, _cast(value, DOUBLE), Item("", summed, DOUBLE))
        return template("CASE WHEN c > 0 THEN s / CAST(c AS DOUBLE) END", c=c, s=s)

    def _require_fixed_order(self, window: exp.Window, value: Expr) -> None:
        """Raise if the order of rows is not fixed and their sum depends on it in its last digits."""
        if is_small_integer(value.this if isinstance(value, exp.Cast) else value, self.node.input.schema):
            return
        spec = window.args.get("spec")
        by_rows = spec is not None and spec.args["kind"].upper() == "ROWS"
        if not (by_rows or self._separates_rows(window.args["order"])):
            raise _CannotGoOn(PEERS)


def _together(call: Expr, skips: bool) -> str:
    """Return the combined result of the earlier rows (`l`; `n` is NULL if there are none) and the following rows
    (`p`).
    """
    match call:
        case exp.Min():
            return "least(l, p)"
        case exp.Max():
            return "greatest(l, p)"
        case exp.First() | exp.FirstValue():
            return "coalesce(l, p)" if skips else "CASE WHEN n IS NOT NULL THEN l ELSE p END"
        case exp.Last() | exp.LastValue():
            return "coalesce(p, l)"
        case _:
            return "coalesce(l, 0) + p"


def _value(value: Expr, condition: Expr | None) -> Expr:
    return value if condition is None else exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _with(window: Expr, **changed: Expr) -> exp.Window:
    made = window.copy()
    assert isinstance(made, exp.Window)
    for name, part in changed.items():
        made.set(name, part.copy())
    return made


def _cast(value: Expr, type_: pa.DataType) -> Expr:
    names = {BIGINT: "BIGINT", DOUBLE: "DOUBLE"}
    name = names.get(type_) or f"DECIMAL({type_.precision}, {type_.scale})"
    return exp.cast(value.copy(), name, dialect="spark")
