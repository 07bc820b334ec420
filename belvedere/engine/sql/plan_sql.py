"""Prints a plan as one Spark SQL query.

In: a plan and the name of the temporary view behind each scan. Out: SQL text that stays the same from epoch to epoch,
so Spark compiles its code once. `now()` is read from the one-row view `clock`. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from belvedere.engine.sql.canonical_values import normalised, restored
from belvedere.functions.spark_types import quote, type_text
from belvedere.plan.expressions import reads_clock
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from belvedere.plan.operators.observed import Observed
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.recursion import Last, Recursion
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.select_printer import SelectPrinter
from belvedere.schema import Column, Schema, has_map
from belvedere.spark_sql.dialect import SparkSql

__all__ = ["CLOCK_COLUMN", "order_text", "print_expression", "render", "session_numbers"]

CLOCK_COLUMN = "_now"


def render(node: Node, view_of: Callable[[str], str], clock: str = "clock") -> str:
    """Return the query of a plan.

    `view_of` names the temporary view behind a scan, `clock` the view with `now()`.
    """
    return SparkPrinter(view_of, clock).query(node)


class SparkPrinter(SelectPrinter):
    """Prints plans in Spark's dialect.

    `view_of` names the view behind a scan, `clock_view` the view with `now()`.
    """

    row_number: ClassVar[str] = "`_row`"

    def __init__(self, view_of: Callable[[str], str], clock_view: str):
        self.view_of = view_of
        self.clock_view = clock_view

    def query(self, node: Node) -> str:
        printer = SPARK_SQL.get(type(node))
        if printer is None:
            raise TypeError(type(node).__name__)
        return printer(self, node)

    def name(self, name: str) -> str:
        return quote(name)

    def relation(self, node: Scan) -> str:
        return quote(self.view_of(node.relation))

    def expression(self, expr: Expr, schema: Schema) -> str:
        return print_expression(expr)

    def item(self, item: Item, schema: Schema, aggregates: bool = False) -> str:
        return _item(item)

    def aligned(self, own: Column, requested: Column) -> str:
        return f"CAST({quote(own.name)} AS {type_text(requested.type)}) AS {quote(requested.name)}"

    def order_key(self, order: Order, schema: Schema) -> str:
        return order_text(order)

    def last_number(self, node: TopK) -> str:
        return "" if node.limit is None else str(node.offset + node.limit)

    def semi_join(self, node: Join, left: str, right: str) -> str:
        word = "LEFT SEMI JOIN" if node.kind is JoinKind.SEMI else "LEFT ANTI JOIN"
        return f"SELECT {self.columns(node)} FROM {left} {word} {right} ON {self.join_condition(node)}"

    def clock_join(self, *exprs: Expr) -> str:
        return f" CROSS JOIN {quote(self.clock_view)}" if any(map(reads_clock, exprs)) else ""

    def side(self, node: SetOperation, side: Node) -> str:
        return f"({self.query(side)})"

    def values(self, node: Values) -> str:
        if not node.columns:
            return "SELECT 0 AS `_nothing`" + ("" if node.rows else " WHERE FALSE")
        names = ", ".join(quote(c.name) for c in node.columns)
        casts = [
            ", ".join(
                f"CAST({print_expression(e)} AS {type_text(c.type)})" for e, c in zip(row, node.columns, strict=True)
            )
            for row in node.rows
        ]
        if not casts:
            empty = ", ".join(f"CAST(NULL AS {type_text(c.type)}) AS {quote(c.name)}" for c in node.columns)
            return f"SELECT {empty} WHERE FALSE"
        if any(reads_clock(e) for row in node.rows for e in row):
            rows = " UNION ALL ".join(f"SELECT {c} FROM {quote(self.clock_view)}" for c in casts)
            return f"SELECT * FROM ({rows}) AS t({names})"
        return f"SELECT * FROM VALUES {', '.join(f'({c})' for c in casts)} AS t({names})"

    def window(self, node: Window) -> str:
        items = ", ".join(map(_item, node.items))
        source = f"{self.source(node.input)}{self.clock_join(*(i.expr for i in node.items))}"
        return f"SELECT {self.columns(node.input)}, {items} FROM {source}"

    def distinct(self, node: Distinct) -> str:
        if any(has_map(c.type) for c in node.schema):
            return self.aggregate(Aggregate(node.input, tuple(map(item_of, node.schema)), ()))
        return super().distinct(node)

    def aggregate(self, node: Aggregate) -> str:
        if node.grouping_sets is not None:
            return self._grouping_sets(node)
        if any(has_map(k.type) for k in node.keys):
            return self._groups_of_maps(node)
        return super().aggregate(node)

    def _groups_of_maps(self, node: Aggregate) -> str:
        """Print groups by maps. The maps are computed below, so that GROUP BY can name them."""
        maps = {n: f"`_g{n}`" for n, k in enumerate(node.keys) if has_map(k.type)}
        below = ", ".join(f"{_key(node.keys[n])} AS {name}" for n, name in maps.items())
        source = f"(SELECT {below}, * FROM {self.group_source(node)}) AS g"
        keys = [_restored(maps[n], k) if n in maps else _item(k) for n, k in enumerate(node.keys)]
        group = ", ".join(maps.get(n, str(n + 1)) for n in range(len(node.keys)))
        return f"SELECT {', '.join([*keys, *map(_item, node.aggregates)])} FROM {source} GROUP BY {group}"

    def _grouping_sets(self, node: Aggregate) -> str:
        """Print grouping sets. The keys are computed below, so that a grouping set can name them."""
        names = {i.name: f"_g{n}" for n, i in enumerate(node.keys)}
        now = [quote(CLOCK_COLUMN)] if any(reads_clock(i.expr) for i in (*node.keys, *node.aggregates)) else []
        below = ", ".join([f"{_key(i)} AS {names[i.name]}" for i in node.keys] + ["t.*", *now])
        source = f"(SELECT {below} FROM {self.group_source(node)}) AS g"
        sets = ", ".join("(" + ", ".join(names[n] for n in s) + ")" for s in node.grouping_sets or ())
        items = [_restored(names[i.name], i) for i in node.keys] + [_item(i) for i in node.aggregates]
        if node.grouping_id is not None:
            items.append(f"grouping_id({', '.join(names.values())}) AS {quote(node.grouping_id)}")
        group = ", ".join(names.values())
        return f"SELECT {', '.join(items)} FROM {source} GROUP BY {group} GROUPING SETS ({sets})"

    def unnest(self, node: Unnest) -> str:
        outer = " OUTER" if node.outer else ""
        source = f"{self.source(node.input)}{self.clock_join(node.expr)}"
        columns = self.columns(node.input)
        if len(node.columns) == 2 and not node.inline:
            names = f"{quote(node.position.name)}, {quote(node.columns[0].name)}, {quote(node.columns[1].name)}"
            view = f"LATERAL VIEW{outer} posexplode({print_expression(node.expr)}) AS {names}"
            return f"SELECT {columns}, {_names(node.columns)}, {quote(node.position.name)} FROM {source} {view}"
        parts = [f"`_element` AS {quote(node.columns[0].name)}"] if not node.inline else self._fields(node)
        position = f"`_at` AS {quote(node.position.name)}"
        view = f"LATERAL VIEW{outer} posexplode({print_expression(node.expr)}) AS `_at`, `_element`"
        return f"SELECT {columns}, {', '.join(parts)}, {position} FROM {source} {view}"

    @staticmethod
    def _fields(node: Unnest) -> list[str]:
        return [f"`_element`.{quote(c.name.split('.')[-1])} AS {quote(c.name)}" for c in node.columns]

    def time_window(self, node: TimeWindow) -> str:
        if node.kind is TimeWindowKind.SESSION:
            return self._session(node)
        columns = self.columns(node.input)
        micros = f"unix_micros({quote(node.time)})"
        start, end = quote(node.start), quote(node.end)
        source = self.source(node.input)
        if node.kind is TimeWindowKind.TUMBLE:
            first = _floor(micros, node.size, node.offset)
            bounds = f"timestamp_micros({first}) AS {start}, timestamp_micros({first} + {node.size}L) AS {end}"
            return f"SELECT {bounds}, {columns} FROM {source} WHERE {quote(node.time)} IS NOT NULL"
        if node.kind is TimeWindowKind.HOP:
            last = _floor(micros, node.step, node.offset)
            # starts from the last one at or before the row back to the first whose window still reaches it
            first = _floor(f"({micros} - {node.size}L)", node.step, node.offset)
            starts = f"sequence({first} + {node.step}L, {last}, {node.step}L)"
            guard = f"{quote(node.time)} IS NOT NULL AND {first} + {node.step}L <= {last}"
            bounds = f"timestamp_micros(`_start`) AS {start}, timestamp_micros(`_start` + {node.size}L) AS {end}"
            inner = f"(SELECT *, {starts} AS `_starts` FROM {source} WHERE {guard}) AS h"
            return f"SELECT {bounds}, {columns} FROM {inner} LATERAL VIEW explode(`_starts`) AS `_start`"
        first = _floor(micros, node.size, node.offset)
        earliest = f"{first} + (({micros} - {first}) DIV {node.step}L + 1L) * {node.step}L"
        ends = f"sequence({earliest}, {first} + {node.size}L, {node.step}L)"
        bounds = f"timestamp_micros(`_first`) AS {start}, timestamp_micros(`_end`) AS {end}"
        guard = f"{quote(node.time)} IS NOT NULL"
        inner = f"(SELECT *, {first} AS `_first`, {ends} AS `_ends` FROM {source} WHERE {guard}) AS h"
        return f"SELECT {bounds}, {columns} FROM {inner} LATERAL VIEW explode(`_ends`) AS `_end`"

    def _session(self, node: TimeWindow) -> str:
        """Print session windows. A session ends at its last row's time plus the gap."""
        columns, time = self.columns(node.input), quote(node.time)
        within = f"PARTITION BY {', '.join([*(quote(p) for p in node.partition), '`_session`'])}"
        last = session_end(node, lambda c: f"max({c}) OVER ({within})")
        bounds = f"min({time}) OVER ({within}) AS {quote(node.start)}, {last} AS {quote(node.end)}"
        return f"SELECT {bounds}, {columns} FROM {session_numbers(node, self.query(node.input))}"


SPARK_SQL: dict[type[Node], Callable[[SparkPrinter, Any], str]] = {
    Scan: SparkPrinter.scan,
    Values: SparkPrinter.values,
    Project: SparkPrinter.project,
    Filter: SparkPrinter.filter,
    Join: SparkPrinter.join,
    Aggregate: SparkPrinter.aggregate,
    Distinct: SparkPrinter.distinct,
    Union: SparkPrinter.union,
    SetOperation: SparkPrinter.set_operation,
    Window: SparkPrinter.window,
    TopK: SparkPrinter.top_k,
    Unnest: SparkPrinter.unnest,
    TimeWindow: SparkPrinter.time_window,
}
"""Printer of each operator as a query."""
NOT_SPARK_SQL: dict[type[Node], str] = {
    PredicateWindow: "Belvedere's own code finds its windows, over rows that Spark prepares",
    Recursion: "one query per level, until a level has no rows",
    Emit: "its output depends on earlier epochs",
    InOrder: "its output depends on earlier epochs",
    SplAggregate: "Belvedere's own code computes each firing of the window",
    SplJoin: "Belvedere's own code finds the pairs of its windows",
    Observed: "its events are made from changes",
    Last: "a scan inside the recursion's step",
}
"""Reasons why Spark computes only parts of the other operators, or nothing."""


def session_numbers(node: TimeWindow, query: str) -> str:
    """Return the rows of a query over the input of sessions, with the number `_session` of each within its key.

    A row begins a session if it is more than the gap after the previous row. Spark and Flink also merge windows that
    touch.
    """
    time = quote(node.time)
    by = f"PARTITION BY {', '.join(quote(p) for p in node.partition)} " if node.partition else ""
    present = f"{time} IS NOT NULL" if node.until is None else f"{quote(node.until)} > {time}"
    source = f"(SELECT * FROM ({query}) AS t WHERE {present}) AS t"
    if node.until is None:
        reached = f"unix_micros({time}) - unix_micros(lag({time}) OVER ({by}ORDER BY {time})) <= {node.size}L"
    else:
        before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        reached = f"{time} <= max({quote(node.until)}) OVER ({by}ORDER BY {time} {before})"
    breaks = f"(SELECT *, CASE WHEN {reached} THEN 0 ELSE 1 END AS `_new` FROM {source}) AS b"
    return (
        f"(SELECT *, sum(`_new`) OVER ({by}ORDER BY {time} RANGE UNBOUNDED PRECEDING) AS `_session` FROM {breaks}) AS s"
    )


def session_end(node: TimeWindow, latest: Callable[[str], str]) -> str:
    """Return the end of a session, from the aggregate that gives the maximum of a column over its rows."""
    if node.until is not None:
        return latest(quote(node.until))
    return f"timestamp_micros(unix_micros({latest(quote(node.time))}) + {node.size}L)"


def _floor(micros: str, size: int, offset: int) -> str:
    """Round microseconds down to a multiple of `size` after `offset`.

    This is also correct for times before 1970.
    """
    return f"({micros} - pmod({micros} - {offset}L, {size}L))"


def print_expression(expr: Expr) -> str:
    """Return a scalar expression in Spark's dialect, with `now()` read from the clock view."""
    changed = expr.copy().transform(
        lambda e: exp.column(CLOCK_COLUMN, quoted=True) if isinstance(e, exp.CurrentTimestamp) else e
    )
    return _readable(changed).sql(dialect=SparkSql, comments=False)


def _readable(expr: Expr) -> Expr:
    """Make texts made of bytes valid UTF-8: invalid bytes become U+FFFD, as Spark shows them.

    No store holds other texts.
    """
    root = exp.Paren(this=expr)
    for cast in list(root.find_all(exp.Cast)):
        if cast.to.this in exp.DataType.TEXT_TYPES and not _is_text(cast.this):
            around = exp.Anonymous(this="make_valid_utf8")
            cast.replace(around)
            around.set("expressions", [cast])
    made: Expr = root.this
    return made


def _is_text(expr: Expr) -> bool:
    """Return whether an expression is a literal or NULL, or a cast of one.

    Spark requires visible constants in places such as formats.
    """
    while isinstance(expr, exp.Cast | exp.Paren) and not (isinstance(expr, exp.Cast) and expr.to.is_type("binary")):
        expr = expr.this
    return isinstance(expr, exp.Literal | exp.Null)


def order_text(order: Order) -> str:
    """Return one sort key with its direction and its place for NULLs."""
    direction = "DESC" if order.descending else "ASC"
    nulls = "FIRST" if order.nulls_come_first else "LAST"
    return f"{print_expression(order.expr)} {direction} NULLS {nulls}"


def _key(key: Item) -> str:
    """Return the expression that distinguishes a key's groups."""
    text = print_expression(key.expr)
    return normalised(text, key.type) if has_map(key.type) else text


def _item(item: Item) -> str:
    return f"CAST({print_expression(item.expr)} AS {type_text(item.type)}) AS {quote(item.name)}"


def _restored(name: str, key: Item) -> str:
    text = f"CAST({restored(name, key.type)} AS {type_text(key.type)})" if has_map(key.type) else name
    return f"{text} AS {quote(key.name)}"


def _names(columns: tuple[Column, ...]) -> str:
    return ", ".join(quote(c.name) for c in columns)
