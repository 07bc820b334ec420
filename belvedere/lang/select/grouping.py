"""GROUP BY: keys, grouping sets, and aggregate calls extracted from expressions.

In: resolved expressions over the FROM and the GROUP BY clause. Out: one `Aggregate` and the expressions over its
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.function_table import function_of, is_aggregate, unwrap_aggregate
from belvedere.lang.names.scope import SourceColumn
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.select.subqueries import attach_all
from belvedere.lang.select.window_bounds import WindowBoundary, determines, window_end
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, map_operands, replace_columns
from belvedere.plan.operators.nodes import Aggregate, Expr, Item, Node, Unnest
from belvedere.plan.operators.time_window import TimeWindowKind
from belvedere.schema import Column


def contains_aggregate(expr: exp.Expr) -> bool:
    """Return whether an expression contains an aggregate call outside of subqueries and OVER."""
    if isinstance(expr, exp.Window):
        call = unwrap_aggregate(expr.this)
        inner = [a for v in call.args.values() for a in (v if isinstance(v, list) else [v]) if isinstance(a, exp.Expr)]
        others = [expr.args.get("order"), *(expr.args.get("partition_by") or ())]
        return any(contains_aggregate(p) for p in [*inner, *others] if p is not None)
    if is_aggregate(expr):
        return True
    if isinstance(expr, exp.Query):
        return False
    return any(contains_aggregate(c) for c in expr.iter_expressions())


def grouping_sets(group: exp.Group) -> tuple[list[exp.Expr], list[tuple[int, ...]] | None]:
    """Return the grouping expressions, and the sets as positions among them (None for a plain GROUP BY)."""
    # `()` groups by nothing, `(a, b)` by both
    written = [part for e in group.expressions for part in (e.expressions if isinstance(e, exp.Tuple) else [e])]
    plain = [e for e in written if not isinstance(e, (exp.Rollup, exp.Cube, exp.GroupingSets))]
    constructs = [e for e in written if e not in plain]
    for key in ("rollup", "cube", "grouping_sets"):
        value = group.args.get(key)
        constructs += [v for v in value if isinstance(v, exp.Expr)] if isinstance(value, list) else []
    if not constructs:
        return plain, None
    keys: list[exp.Expr] = []

    def index(expr: exp.Expr) -> int:
        if expr not in keys:
            keys.append(expr)
        return keys.index(expr)

    if group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (...): only the sets count, of these columns
        for e in plain:
            index(e)
        plain = []
    bare = [c for c in constructs if not c.expressions and not isinstance(c, exp.GroupingSets)]
    fixed = () if bare else tuple(index(e) for e in plain)
    parts: list[list[tuple[int, ...]]] = []
    for construct in constructs:
        inside = plain if construct in bare else construct.expressions
        parts.append(_sets(construct, [_within(x, index) for x in inside]))
    result = []
    for combination in product(*parts):
        merged = dict.fromkeys((*fixed, *(i for s in combination for i in s)))
        result.append(tuple(merged))
    return keys, result


def _elements(expr: exp.Expr) -> list[exp.Expr]:
    if isinstance(expr, exp.Tuple):
        return list(expr.expressions)
    return [expr.this] if isinstance(expr, exp.Paren) else [expr]


def _within(expr: exp.Expr, index: Callable[[exp.Expr], int]) -> list[tuple[int, ...]]:
    """Return the grouping sets of a construct: one set, or the sets of a construct within GROUPING SETS."""
    if isinstance(expr, (exp.Rollup, exp.Cube, exp.GroupingSets)):
        return _sets(expr, [_within(e, index) for e in expr.expressions])
    return [tuple(index(e) for e in _elements(expr))]


def _sets(construct: exp.Expr, inner: list[list[tuple[int, ...]]]) -> list[tuple[int, ...]]:
    if isinstance(construct, exp.GroupingSets):
        return [s for sets in inner for s in sets]
    parts = [sets[0] for sets in inner]
    if isinstance(construct, exp.Rollup):
        return [tuple(i for s in parts[:n] for i in s) for n in range(len(parts), -1, -1)]
    choices = product(*[(True, False)] * len(parts))
    return [tuple(i for s, chosen in zip(parts, c, strict=True) if chosen for i in s) for c in choices]


@dataclass
class Grouping:
    """Extracts aggregate calls while it rewrites expressions over the frame into ones over the `Aggregate`."""

    frame: Frame
    keys: list[Item]
    sets: list[tuple[int, ...]] | None = None
    aggregates: list[Item] = field(default_factory=list)
    found: dict[Expr, str] = field(default_factory=dict)
    """Columns of aggregates, by their calls."""
    grouping_id: str | None = None
    whole: bool = False
    """Whether all rows that belong to the outer row are one group, which exists even without rows."""
    ends: dict[str, Expr] = field(default_factory=dict)
    """Ends of windows that are also grouped by their starts, as expressions of the start. They are not keys."""
    fixed: int = 0
    """Number of leading keys that are implied (correlated with an outer row): they are part of every grouping set."""

    def lift(self, expr: Expr, written: exp.Expr) -> Expr:
        """Return the expression over the keys and aggregates."""
        for item in self.keys:
            if expr.unnest() == item.expr.unnest():
                return column(item.name)
        if isinstance(expr, exp.Column) and expr.name in self.ends:
            return exp.paren(self.ends[expr.name].copy(), copy=False)
        if isinstance(expr, exp.Paren):
            return exp.paren(self.lift(expr.this, written), copy=False)
        if is_aggregate(unwrap_aggregate(expr)):
            return self._aggregate(expr, written)
        if isinstance(expr, exp.Window):
            return self._window(expr, written)
        if isinstance(expr, (exp.Grouping, exp.GroupingId)):
            return self._grouping_function(expr, written)
        if isinstance(expr, exp.Column):
            return self._dependent(expr, written)
        return self._children(expr, written)

    def _children(self, expr: Expr, written: exp.Expr) -> Expr:
        return map_operands(expr.copy(), lambda e: self.lift(e, written))

    def _aggregate(self, expr: Expr, written: exp.Expr) -> Expr:
        call = unwrap_aggregate(expr)
        if any(contains_aggregate(c) for c in call.iter_expressions()):
            raise self.frame.fail(
                "B3032",
                "an aggregate inside an aggregate is not allowed",
                written,
                "compute the inner aggregate in a view first",
            )
        if expr.find(exp.Window) is not None:
            hint = "compute it in a subquery of FROM, and aggregate that"
            raise self.frame.fail("B3038", "a window function is not allowed inside an aggregate", written, hint)
        known = self.found.get(expr)
        if known is None:
            over = attach_all(self.frame, expr) if expr.find(SubqueryValue) is not None else expr.copy()
            item = self.frame.item(self.frame.context.names.fresh("aggregate"), over)
            self.aggregates.append(item)
            known = self.found[expr] = item.name
        return column(known)

    def _window(self, expr: Expr, written: exp.Expr) -> Expr:
        copied = expr.copy()
        call = unwrap_aggregate(copied.this)
        lifted = self._children(call, written)
        if call is copied.this:
            copied.set("this", lifted)
        else:
            call.replace(lifted)
        for key in ("partition_by", "order"):
            value = copied.args.get(key)
            if isinstance(value, list):
                lifted_values = [self.lift(v.copy(), written) for v in value]
                starts = {v.name for v in lifted_values if isinstance(v, exp.Column)}
                reported = [
                    isinstance(e := v.unnest(), exp.Add) and e in self.ends.values() and e.this.name in starts
                    for v in lifted_values
                ]
                copied.set(key, [v for v, is_reported in zip(lifted_values, reported, strict=True) if not is_reported])
            elif value is not None:
                copied.set(key, self._children(value, written))
        return copied

    def _grouping_function(self, expr: Expr, written: exp.Expr) -> Expr:
        if self.sets is None:
            raise self.frame.fail("B3034", "grouping() needs GROUPING SETS, ROLLUP or CUBE", written)
        name = self.id_column()
        keys = [k.expr.unnest() for k in self.keys]
        if isinstance(expr, exp.GroupingId):
            if expr.expressions and [e.unnest() for e in expr.expressions] != keys[self.fixed :]:
                hint = "write grouping_id() without arguments"
                raise self.frame.fail(
                    "B3034", "grouping_id() takes all columns of GROUP BY in their order", written, hint
                )
            return column(name)
        argument = expr.expressions[0].unnest()
        if argument not in keys:
            raise self.frame.fail("B3034", "grouping() takes one column of GROUP BY", written)
        shift = len(keys) - 1 - keys.index(argument)
        moved = exp.BitwiseRightShift(this=column(name), expression=exp.Literal.number(shift))
        bit = exp.BitwiseAnd(this=moved, expression=exp.Literal.number(1))
        return exp.Cast(this=exp.paren(bit, copy=False), to=exp.DataType.build("TINYINT", dialect="spark"))

    def id_column(self) -> str:
        """Return the name of the column that distinguishes grouping sets."""
        if self.grouping_id is None:
            self.grouping_id = self.frame.context.names.fresh("grouping_id")
        return self.grouping_id

    def _dependent(self, expr: exp.Column, written: exp.Expr) -> Expr:
        """Return a column that the group keys determine: the other end of a window, or a column of a row whose key is a
        group key."""
        grouped = {k.expr.name for k in self.keys if isinstance(k.expr, exp.Column)}
        if self.sets is None and (
            self._is_known_by_window(expr.name, grouped) or self._of_grouped_row(expr.name, grouped)
        ):
            type_ = self.frame.inference().type(expr)
            orderable = not (pa.types.is_map(type_) or pa.types.is_struct(type_) or t.is_array(type_))
            return self._aggregate(exp.Max(this=expr.copy()) if orderable else exp.AnyValue(this=expr.copy()), written)
        shown = self._shown(expr.name)
        outer = self.frame.scope.used.get(expr.name)
        if outer is not None and expr.name not in self.frame.plan.schema.names:
            return expr
        hint = f"add it to GROUP BY, or aggregate it: `max({shown})`"
        raise self.frame.fail(
            "B3030", f"`{shown}` is neither grouped by nor aggregated", expr if expr.meta else written, hint
        )

    def _is_known_by_window(self, name: str, grouped: set[str]) -> bool:
        found = _window_end(self.frame, name)
        if found is None:
            return False
        others = [_window_end(self.frame, g) for g in grouped]
        return any(o is not None and determines(o, found) for o in others)

    def _of_grouped_row(self, name: str, grouped: set[str]) -> bool:
        for source in self.frame.scope.sources:
            names = {c.name: c.internal for c in source.columns}
            if name in names.values() and source.relation is not None:
                key = source.relation.schema.key
                return bool(key) and all(names.get(k) in grouped for k in key or ())
        return False

    def _shown(self, internal: str) -> str:
        columns = (*self.frame.scope.columns(), *(m.column for m in self.frame.scope.merged))
        found: SourceColumn | None = next((c for c in columns if c.internal == internal), None)
        return found.name if found is not None else internal

    def node(self) -> Node:
        """Return the `Aggregate` over the frame's plan."""
        sets = None
        if self.sets is not None:
            names = [k.name for k in self.keys]
            implied = range(self.fixed)
            sets = tuple(tuple(names[i] for i in (*implied, *(p + self.fixed for p in s))) for s in self.sets)
            self.id_column()
        if not self.keys and not self.aggregates and sets is None:  # its only row needs a column
            name = self.frame.context.names.fresh("aggregate")
            self.aggregates.append(Item(name, exp.Count(this=exp.Star()), t.INT64, False))
        once = None if sets is None else tuple(dict.fromkeys(sorted_sets := [_in_key_order(s, names) for s in sets]))
        node = Aggregate(self.frame.plan, tuple(self.keys), tuple(self.aggregates), once, self.grouping_id)
        if once is None or len(once) == len(sorted_sets):
            return node
        return self._repeated(node, {s: sorted_sets.count(s) for s in once})

    def _repeated(self, node: Aggregate, times: Mapping[tuple[str, ...], int]) -> Node:
        """Return the plan with the rows of a set that occurs n times repeated n times."""
        names = [k.name for k in self.keys]
        counts = [
            exp.If(this=exp.EQ(this=column(node.grouping_id or ""), expression=exp.Literal.number(_number(s, names))),
                   true=exp.Literal.number(n))
            for s, n in times.items()
        ]  # fmt: skip
        most = exp.Case(ifs=counts, default=exp.Literal.number(1))
        copies = exp.Anonymous(this="sequence", expressions=[exp.Literal.number(1), most])
        number = Column(self.frame.context.names.fresh("copy"), t.INT32, nullable=False, hidden=True)
        position = Column(self.frame.context.names.fresh("place"), t.INT32, nullable=False, hidden=True)
        return Unnest(node, copies, (number,), position)


def ends_of_starts(frame: Frame, keys: Sequence[Item]) -> dict[str, Expr]:
    """Return the ends of Tumble and Hop windows among the keys whose starts are also keys, as expressions of these."""
    found: dict[str, Expr] = {}
    known = [
        (k, end)
        for k in keys
        if isinstance(k.expr, exp.Column) and (end := _window_end(frame, k.expr.name)) is not None
    ]
    for key, end in known:
        start = next((k for k, other in known if other.is_start and determines(other, end)), None)
        if start is not None and end.kind in (TimeWindowKind.TUMBLE, TimeWindowKind.HOP):
            seconds = f"{end.size // 1_000_000}.{end.size % 1_000_000:06d}".rstrip("0").rstrip(".")
            length = exp.Interval(this=exp.Literal.string(seconds), unit=exp.var("SECOND"))
            found[key.expr.name] = exp.Add(this=column(start.name), expression=length)
    return found


def _window_end(frame: Frame, name: str) -> WindowBoundary | None:
    """Return the window of which a column of the frame is an end; None if it is none."""
    definitions = frame.context.definitions

    def view_plan(relation: str) -> Node | None:
        view = definitions.views.get(relation)
        return view.plan if view is not None else None

    return window_end(frame.plan, name, view_plan)


def _in_key_order(names: tuple[str, ...], keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(k for k in keys if k in names)


def _number(names: tuple[str, ...], keys: Sequence[str]) -> int:
    """Return the `grouping_id()` of a set."""
    return sum(1 << n for n, key in enumerate(reversed(keys)) if key not in names)


def over_nothing(expr: Expr, aggregates: Sequence[Item]) -> Expr:
    """Return an expression over aggregate columns that is also correct without a row: counts are 0, lists empty."""
    values: dict[str, Expr] = {}
    for item in aggregates:
        row = function_of(unwrap_aggregate(item.expr))
        if row is not None and row.over_nothing != "NULL":
            default = exp.Literal.number(0) if row.over_nothing == "0" else t.cast(exp.Array(expressions=[]), item.type)
            values[item.name] = exp.Coalesce(this=column(item.name), expressions=[default])
    return replace_columns(expr, values)
