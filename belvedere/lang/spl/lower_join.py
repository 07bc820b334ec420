"""A SELECT over two SPL windows -> a plan: an `SplJoin` in place of an ordinary `Join`.

In: the SELECT as written, without its windows, and these. Out: its plan. The select list is over the results; filters,
groups and sorting belong in a separate view, before the windows or after the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.query_frame import Frame, StatementContext
from belvedere.lang.select.select import SelectLowering
from belvedere.lang.spl.arrival_rows import arriving_rows, with_firings
from belvedere.lang.spl.clause_checks import window_of
from belvedere.lang.spl.spl_functions import reading_of
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, reads_clock
from belvedere.plan.operators.nodes import Expr, Item, Join, JoinKind, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import FiringReading
from belvedere.plan.operators.spl_join import FIRED, FIRING, JoinedWindow, SplJoin
from belvedere.plan.operators.spl_windows import Count, Sliding, SplWindow
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP, is_engine_column
from belvedere.syntax.spl.window_tree import SplClause
from belvedere.syntax.spl.window_words import WORDS

APART = ("where", "group", "having", "order", "limit", "offset", "distinct", "qualify", "windows", "laterals")
VIEW = "write the join as a view, and this in a query of the view"
BEFORE = (
    "to filter rows before the window write FROM (SELECT ... WHERE ...) WINDOW (...); "
    "to filter pairs use ON, or query a view with the join"
)
READINGS = {FiringReading.FIRING_TIME: FIRED, FiringReading.FIRING: FIRING}
FORM = "write WINDOW (sliding, count(n) or time(s) or delta(column, step)), perhaps partitioned BY columns"


@dataclass(frozen=True)
class _JoinedTable:
    """One table of FROM: its plan, including the columns that its window reads."""

    plan: Node
    window: JoinedWindow
    numbered_by_firings: bool


class SplJoinLowering(SelectLowering):
    """State of one SELECT over two windows while it is lowered; `clauses` are those of the left and the right table."""

    def __init__(
        self, select: exp.Select, context: StatementContext, clauses: Sequence[SplClause], sources: Sequence[exp.Expr]
    ):
        super().__init__(select, context)
        self.clauses = clauses
        self.tables = sources

    def whole(self) -> Node:
        """Return the plan, with the hidden columns that distinguish its firings."""
        for key in APART:
            if self.select.args.get(key):
                shown = "WINDOW w AS (...)" if key == "windows" else key.upper()
                place = self.select.args[key]
                place = place if isinstance(place, exp.Expr) and "start" in place.meta else self.select
                hint = BEFORE if key == "where" else VIEW
                raise self.context.fail(
                    "B5214", f"{shown} is not supported together with a join of windows", place, hint
                )
        plan = self.lower(named=True).plan
        fired = Item(FIRED, column(FIRED), TIMESTAMP, False, hidden=True)
        return with_firings(plan, fired, Item(FIRING, column(FIRING), pa.int64(), False, hidden=True))

    def _from(self) -> None:
        super()._from()
        join = self.frame.plan
        kinds = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
        sources = self.frame.scope.sources
        if not isinstance(join, Join) or join.kind not in kinds or len(sources) != 2:
            hint = "write a JOIN b ON ..., LEFT, RIGHT or FULL; FULL with ON"
            raise self.context.fail("B5214", "this join of windows is not supported", self.tables[1], hint)
        if join.condition is not None and reads_clock(join.condition):
            raise self.context.fail("B5214", "now() in the ON of windows is not supported", self.tables[1], VIEW)
        left, right = (self._side(n, plan, sources[n]) for n, plan in enumerate(join.inputs))
        right = _apart(right, left.plan.schema.names)
        one_order = not (left.numbered_by_firings or right.numbered_by_firings)
        windows = (left.window, right.window)
        self.frame.plan = SplJoin(left.plan, right.plan, join.kind, join.condition, windows, one_order)

    def _group(self) -> None:
        for output in (*self.outputs, *self.orders):
            if contains_aggregate(output.expr) or output.expr.find(exp.Window, SubqueryValue) is not None:
                raise self.context.fail(
                    "B5214", "a join of windows can only select columns of its rows", output.written, VIEW
                )
            output.expr = output.expr.transform(_reading)
        if not isinstance(self.frame.plan, SplJoin):
            raise self.context.fail(
                "B5214", "related rows are not supported together with a join of windows", self.select, VIEW
            )

    # -- the sides ----------------------------------------------------------------------------------------------------

    def _side(self, number: int, plan: Node, source: FromItem) -> _JoinedTable:
        rows = arriving_rows(plan, self.context, self.tables[number])
        if rows.of_panes:
            hint = "join the views as tables, by intervalStart()"
            raise self.context.fail(
                "B5216", "the firings of a timeInterval window have no order of rows", self.tables[number], hint
            )
        frame = Frame(self.context)
        frame.scope.sources.append(source)
        frame.plan = rows.plan
        clause = self.clauses[number]

        def find(written: exp.Expr) -> tuple[str, pa.DataType]:
            found = Resolver(frame).resolve(written)
            if not isinstance(found, exp.Column):
                raise self.context.fail(
                    "B5205", "delta's first argument must be a column of the table", written, "name a column"
                )
            return found.name, frame.inference().type(found)

        window = window_of(clause, find, self.context.fail)
        self._check(window, clause)
        items = {c.name: item_of(c) for c in rows.plan.schema}
        partition = [self._key_name(written, frame, items) for written in clause.keys]
        joined = JoinedWindow(window, tuple(dict.fromkeys(partition)), rows.order, rows.clock)
        return _JoinedTable(Project(rows.plan, tuple(items.values())), joined, not rows.by_arrival)

    def _key_name(self, written: exp.Expr, frame: Frame, items: dict[str, Item]) -> str:
        """Return the column with a partition expression."""
        expr = Resolver(frame).resolve(written).unnest()
        frame.check_order(expr, written)
        if isinstance(expr, exp.Column):
            return str(expr.name)
        if contains_aggregate(expr) or expr.find(SubqueryValue) is not None or reads_clock(expr):
            raise self.context.fail(
                "B5208", "only columns of the row can partition a window", written, "compute it in a view first"
            )
        name = unused_name("partition", set(items))
        items[name] = frame.item(name, expr, hidden=True)
        return name

    def _check(self, window: SplWindow, clause: SplClause) -> None:
        """Check the clauses of a window that is joined with another one."""
        kind, *parts = clause.expressions
        if not isinstance(window.kind, Sliding):
            raise self.context.fail("B5216", f"a {kind.word} window cannot be joined", kind, FORM)
        if window.kind.trigger != Count(1):
            place = [p for p in parts if p.args.get("called")][1]
            message = f"a joined window cannot have the trigger `{place.shown}`: each row is joined as it arrives"
            raise self.context.fail("B5216", message, place, "remove the trigger")
        if window.forgetting is not None or window.incomplete:
            names = ("partitionage", "partitioncount", "tuplecount", "aggregateincompletewindows")
            place = next(p for p in parts if p.word in names)
            raise self.context.fail("B5216", f"`{WORDS[place.word]}` is not supported for joined windows", place, FORM)


def _reading(node: Expr) -> Expr:
    """Return a firing's time or number as its column."""
    reading = reading_of(node)
    return column(READINGS[reading]) if reading in READINGS else node


def _apart(side: _JoinedTable, taken: Sequence[str]) -> _JoinedTable:
    """Return the side with new names for unnamed columns that the other side also has."""
    used = {*taken, *side.plan.schema.names}
    names: dict[str, str] = {}
    for c in side.plan.schema:
        if c.name in taken:
            names[c.name] = unused_name(c.name, used, engine=is_engine_column(c.name))
            used.add(names[c.name])
    if not names:
        return side
    items = tuple(item_of(c, names.get(c.name)) for c in side.plan.schema)
    old = side.window
    order, clock = (names.get(n, n) for n in (old.order, old.clock))
    window = replace(old, partition=tuple(names.get(n, n) for n in old.partition), order=order, clock=clock)
    return replace(side, plan=Project(side.plan, items), window=window)
