"""A SELECT over a window of SPL -> a plan: an `SplAggregate` in place of an ordinary `Aggregate`.

In: the SELECT as written. Out: its plan. WHERE selects the rows that enter the window; GROUP BY divides the contents of
a firing; HAVING and the select list are over the firing's groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.select.grouping import Grouping, contains_aggregate, grouping_sets
from belvedere.lang.select.query_frame import StatementContext
from belvedere.lang.select.select import SelectLowering
from belvedere.lang.select.select_list import ordinal
from belvedere.lang.spl.arrival_rows import ArrivingRows, arriving_rows, rows_source, with_firings
from belvedere.lang.spl.clause_checks import window_of
from belvedere.lang.spl.spl_functions import count_of, reading_of, spelled_out
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, map_operands
from belvedere.plan.operators.nodes import Expr, Item, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import CountColumn, FiringReading, GroupCount, ReadingColumn, SplAggregate
from belvedere.plan.operators.spl_join import FIRED, FIRING
from belvedere.plan.operators.spl_windows import Interval, Punctuation, SplWindow, Tumbling
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP
from belvedere.syntax.spl.window_tree import SplClause
from belvedere.syntax.spl.window_words import FINAL

PANE = "_pane"


@dataclass
class SplGrouping(Grouping):
    """GROUP BY inside the contents of a window: `keys` are the partitions' and then the groups' expressions."""

    window: SplWindow = field(kw_only=True)
    readings: list[ReadingColumn] = field(default_factory=list)
    counts: list[CountColumn] = field(default_factory=list)

    def lift(self, expr: Expr, written: exp.Expr) -> Expr:
        """Extract aggregates from an expression as for GROUP BY, with the firing's properties as columns."""
        reading, count = reading_of(expr), count_of(expr)
        if count is not None:
            return column(self._counted(count))
        if reading is None:
            return super().lift(expr, written)
        if reading.of_panes and not isinstance(self.window.kind, Interval):
            hint = "write WINDOW (timeInterval, intervalDuration(60)), or firingTime()"
            place = expr if "start" in expr.meta else written
            raise self.frame.fail("B5213", f"`{reading}()` is only for timeInterval windows", place, hint)
        return column(self.reading(reading))

    def reading(self, reading: FiringReading, name: str | None = None) -> str:
        """Return the column of a reading; with a `name`, a separate hidden one."""
        found = next((r.name for r in self.readings if r.reading is reading), None)
        if found is not None and name is None:
            return found
        made = name or self.frame.context.names.fresh(str(reading))
        self.readings.append(ReadingColumn(made, reading, hidden=name is not None))
        return made

    def _counted(self, count: GroupCount) -> str:
        found = next((c.name for c in self.counts if c.count is count), None)
        if found is None:
            found = self.frame.context.names.fresh("count")
            self.counts.append(CountColumn(found, count))
        return found

    def _dependent(self, expr: exp.Column, written: exp.Expr) -> Expr:
        shown = self._shown(expr.name)
        hint = f"aggregate it: `last({shown})`, or add it to GROUP BY"
        message = f"`{shown}` is neither partitioned by, grouped by nor aggregated"
        raise self.frame.fail("B3030", message, expr if expr.meta else written, hint)


class SplLowering(SelectLowering):
    """State of one SELECT over a window while it is lowered."""

    def __init__(self, select: exp.Select, context: StatementContext, clause: SplClause, *, every: bool):
        super().__init__(select, context)
        self.clause = clause
        self.every = every
        self.rows: ArrivingRows | None = None

    def whole(self) -> Node:
        """Return the plan; for all firings with the hidden columns that distinguish them."""
        plan = self.lower(named=True).plan
        if not self.every:
            return plan
        fired, firing = (Item(n, column(n), r.type, False, hidden=True) for n, r in self._reported)
        return with_firings(plan, fired, firing)

    @property
    def _reported(self) -> tuple[tuple[str, FiringReading], ...]:
        return (FIRED, FiringReading.FIRING_TIME), (FIRING, FiringReading.FIRING)

    # -- FROM and WHERE -----------------------------------------------------------------------------------------------

    def _from(self) -> None:
        super()._from()
        source = self.select.args["from_"].this
        self.rows = arriving_rows(self.frame.plan, self.context, source)
        self.frame.plan = self.rows.plan

    def _check_where(self) -> None:
        where = self.select.args.get("where")
        if rows_source(self.frame.plan) is None:
            hint = "use only columns of the row to filter rows before the window"
            raise self.context.fail(
                "B5214", "this WHERE is not supported together with a window", where or self.select, hint
            )

    # -- the window and its groups ------------------------------------------------------------------------------------

    def _group(self) -> None:
        self._check_where()
        self._check_late_windows()
        window = window_of(self.clause, self._column, self.context.fail)
        self._notice_final(window)
        partition = [self._own_key(k) for k in self.clause.keys]
        groups = self._group_keys(partition)
        self.havings = self._late("having")
        grouping = SplGrouping(self.frame, [*partition, *groups], window=window)
        self.grouping = grouping
        for clause in (*self.outputs, *self.orders, *self.havings):
            clause.expr = spelled_out(clause.expr, clause.written, self.frame, grouped=bool(groups))
            clause.expr = grouping.lift(clause.expr, clause.written)
        for item in (*grouping.keys, *grouping.aggregates):
            self.frame.inference().typed(item.expr)
        self.frame.plan = self._node(grouping, window, len(partition))

    def _notice_final(self, window: SplWindow) -> None:
        if window.final and not self.context.is_read:
            part = next(p for p in self.clause.expressions if p.word == FINAL)
            hint = "use it where the input ends: in `belvedere query` and belvedere.sql(...)"
            self.context.notice("B5217", "flushOnFinal has no effect in a view: its input never ends", part, hint)

    def _check_late_windows(self) -> None:
        for clause in (*self.outputs, *self.orders):
            found = clause.expr.find(exp.Window, SubqueryValue)
            if found is not None:
                what = "OVER" if isinstance(found, exp.Window) else "a subquery"
                hint = "write the window as a view, and this in a query of the view"
                raise self.context.fail(
                    "B5214", f"{what} is not supported together with a window", clause.written, hint
                )

    def _column(self, written: exp.Expr) -> tuple[str, pa.DataType]:
        found = Resolver(self.frame).resolve(written)
        if not isinstance(found, exp.Column):
            raise self.context.fail(
                "B5205", "delta's first argument must be a column of the table", written, "name a column"
            )
        return found.name, self.frame.inference().type(found)

    def _own_key(self, written: exp.Expr) -> Item:
        item = self._key(Resolver(self.frame).resolve(written), written)
        self.frame.check_order(item.expr, written)
        return item

    def _group_keys(self, partition: Sequence[Item]) -> list[Item]:
        """Return the keys of GROUP BY that divide a firing: those that are not constant within it."""
        group: Any = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("all") or grouping_sets(group)[1] is not None:
            hint = "name the columns"
            raise self.context.fail("B5214", "this GROUP BY is not supported together with a window", group, hint)
        found: list[Item] = []
        for written in group.expressions:
            position = ordinal(written)
            expr = (
                self.items.at(position, written).expr.copy()
                if position is not None
                else Resolver(self.frame, self.items.earlier_alias).resolve(written)
            ).unnest()
            known = [i.expr for i in (*partition, *found)]
            if reading_of(expr) is None and expr not in known:
                found.append(self._key(expr, written))
        return found

    # -- the node -----------------------------------------------------------------------------------------------------

    def _node(self, grouping: SplGrouping, window: SplWindow, partitions: int) -> Node:
        rows, punctuation = self._arriving(grouping, window)
        below = _Below(self.frame.plan)
        keys = tuple(below.item(i) for i in grouping.keys)
        aggregates = tuple(replace(i, expr=below.arguments(i.expr, self.frame)) for i in grouping.aggregates)
        time = rows.time if isinstance(window.kind, Interval) else None
        for name in (rows.order, rows.clock, time, punctuation, *sorted(window.columns)):
            if name is not None:
                below.keep(name)
        return SplAggregate(
            below.node(), window, keys[:partitions], keys[partitions:], aggregates, tuple(grouping.readings),
            rows.order, rows.clock, time, punctuation, self.every, tuple(grouping.counts),
        )  # fmt: skip

    def _arriving(self, grouping: SplGrouping, window: SplWindow) -> tuple[ArrivingRows, str | None]:
        """Return the rows, and the punctuation column if the window uses it; firings provide the properties that the
        plan needs.
        """
        rows = self.rows
        assert rows is not None
        if isinstance(window.kind, Interval):
            self._check_event_time(rows)
            grouping.reading(FiringReading.INTERVAL_START, None if self._reads(grouping) else PANE)
        if self.every:
            for hidden, reading in self._reported:
                grouping.reading(reading, hidden)
        if not isinstance(window.kind, Tumbling) or not isinstance(window.kind.eviction, Punctuation):
            return rows, None
        if rows.punctuation is None:
            hint = "read a view that fires: V := SELECT STREAM ... FROM t WINDOW (...)"
            raise self._fail_at("punct", "B5212", "punct() needs an input view that fires", hint)
        return rows, rows.punctuation

    @staticmethod
    def _reads(grouping: SplGrouping) -> bool:
        return any(r.reading is FiringReading.INTERVAL_START for r in grouping.readings)

    def _check_event_time(self, rows: ArrivingRows) -> None:
        if rows.time is None:
            hint = "declare WATERMARK FOR in the stream's definition"
            raise self._fail_at("timeinterval", "B5210", "timeInterval needs rows with an event time", hint)
        if self.frame.plan.schema[rows.time].type != TIMESTAMP:
            raise AssertionError("CAST the event time to TIMESTAMP in a view")

    def _fail_at(self, word: str, code: str, message: str, hint: str) -> BelvedereError:
        part = next(p for p in self.clause.expressions if p.word == word)
        return self.context.fail(code, message, part, hint)


class _Below:
    """The projection below the node: the columns that it reads, each once."""

    def __init__(self, plan: Node):
        self.plan = plan
        self.items: dict[str, Item] = {}

    def keep(self, name: str) -> str:
        """Add an unchanged column of the plan and return its name."""
        self.items.setdefault(name, item_of(self.plan.schema[name]))
        return name

    def item(self, item: Item) -> Item:
        """Add a key as a column of the projection; return the key over that column."""
        if isinstance(item.expr, exp.Column):
            self.keep(item.expr.name)
            return item
        self.items[item.name] = item
        return replace(item, expr=column(item.name))

    def arguments(self, expr: Expr, frame: Any) -> Expr:
        """Return an aggregate whose arguments are columns or literals."""
        if isinstance(expr, exp.Literal | exp.Star | exp.Boolean | exp.Null | exp.Var | exp.Interval):
            return expr
        if isinstance(expr, exp.AggFunc | exp.Filter | exp.Where | exp.Distinct | exp.IgnoreNulls | exp.RespectNulls):
            return map_operands(expr.copy(), lambda e: self.arguments(e, frame))
        if contains_aggregate(expr):
            return map_operands(expr.copy(), lambda e: self.arguments(e, frame))
        if isinstance(expr, exp.Column):
            return column(self.keep(expr.name))
        for known in self.items.values():
            if known.expr == expr:
                return column(known.name)
        name = unused_name("argument", {*self.items, *self.plan.schema.names})
        self.items[name] = frame.item(name, expr)
        return column(name)

    def node(self) -> Node:
        return Project(self.plan, tuple(self.items.values()))
