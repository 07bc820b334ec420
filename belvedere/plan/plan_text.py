"""A plan as an indented tree for people: golden tests and `explain`.

In: a plan. Out: one line per operator, its inputs indented below. Hidden columns are in parentheses; the key is named where
it is not plain.
"""

from __future__ import annotations

from collections.abc import Iterable

from belvedere.plan.operators.nodes import (
    Aggregate,
    Expr,
    Filter,
    Item,
    Join,
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
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.recursion import Recursion
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import JoinedWindow, SplJoin
from belvedere.plan.operators.time_nodes import Emit, InOrder, TimeWindow
from belvedere.spark_sql.dialect import SparkSql


def plan_text(node: Node, indent: str = "") -> str:
    """The tree, two spaces per level, without a line end at the end."""
    lines = [indent + _line(node)]
    lines += [plan_text(child, indent + "  ") for child in node.inputs]
    if isinstance(node, Recursion):
        lines += [f"{indent}  step", plan_text(node.step, indent + "    ")]
    return "\n".join(lines)


def expression_text(expr: Expr) -> str:
    """An expression without the quotes around plain names."""
    text: str = expr.sql(dialect=SparkSql, comments=False)
    return text.replace("`", "")


def _line(node: Node) -> str:
    match node:
        case Scan():
            return f"scan {node.relation}"
        case Values():
            return f"values {len(node.rows)} rows ({', '.join(c.name for c in node.columns)})"
        case Project():
            return f"project {_items(node.items)}"
        case Filter():
            return f"filter {expression_text(node.condition)}"
        case Join():
            return f"join {node.kind.value} on {expression_text(node.condition) if node.condition is not None else 'true'}"
        case Aggregate():
            return _aggregate(node)
        case Union():
            return "union all" + (f" numbered ({node.branch})" if node.branch else "")
        case SetOperation():
            return node.kind.value
        case Window():
            return f"window {_items(node.items)}"
        case TopK():
            return _top(node)
        case Unnest():
            return _unnest(node)
        case TimeWindow():
            return _time_window(node)
        case Emit():
            return _emit(node)
        case PredicateWindow():
            return "window by" + (f" per [{', '.join(node.by)}]" if node.by else "")
        case InOrder():
            then = "".join(f", {name}{' desc' if down else ''}" for name, down, _ in node.then)
            return f"in order of {node.time}{then}" + (f" within {node.within}us" if node.within is not None else "")
        case _:
            return _recursion(node) or _of_spl(node) or type(node).__name__.lower()


def _recursion(node: Node) -> str | None:
    if not isinstance(node, Recursion):
        return None
    return f"recursion {node.name} by {'union' if node.distinct else 'union all'}, at most {node.levels} levels"


def _items(items: Iterable[Item]) -> str:
    return ", ".join(_item(i) for i in items)


def _item(item: Item) -> str:
    text = expression_text(item.expr)
    shown = item.name if text == item.name else f"{item.name} = {text}"
    return f"({shown})" if item.hidden else shown


def _aggregate(node: Aggregate) -> str:
    sets = ""
    if node.grouping_sets is not None:
        sets = " sets " + ", ".join("(" + ", ".join(s) + ")" for s in node.grouping_sets)
    return f"aggregate by [{_items(node.keys)}]{sets} {_items(node.aggregates)}".rstrip()


def _orders(orders: Iterable[Order]) -> str:
    return ", ".join(
        expression_text(o.expr)
        + (" desc" if o.descending else "")
        + (
            ""
            if o.nulls_first is None or o.nulls_come_first != o.descending
            else f" nulls {'first' if o.nulls_first else 'last'}"
        )
        for o in orders
    )


def _top(node: TopK) -> str:
    words = [f"top {node.limit if node.limit is not None else 'all'}"]
    if node.offset:
        words.append(f"after {node.offset}")
    if node.partition:
        words.append(f"per [{', '.join(node.partition)}]")
    if node.order:
        words.append(f"by {_orders(node.order)}")
    if node.number is not None:
        words.append(f"as {node.number.name}")
    return " ".join(words)


def _unnest(node: Unnest) -> str:
    columns = ", ".join(c.name for c in (*node.columns, node.position))
    return f"unnest{' outer' if node.outer else ''} {expression_text(node.expr)} as {columns}"


def _time_window(node: TimeWindow) -> str:
    words = [f"{node.kind.value} {node.time} size {node.size}us"]
    if node.step:
        words.append(f"step {node.step}us")
    if node.offset:
        words.append(f"offset {node.offset}us")
    if node.partition:
        words.append(f"per [{', '.join(node.partition)}]")
    return " ".join(words)


def _emit(node: Emit) -> str:
    words = ["emit"]
    if node.stream:
        words.append("stream")
    if node.delay is not None:
        words.append(f"after delay {node.delay}us")
    if node.watermark:
        words.append("after watermark")
    return " ".join(words)


def _of_spl(node: Node) -> str | None:
    if isinstance(node, SplJoin):
        return _spl_join(node)
    return _spl(node) if isinstance(node, SplAggregate) else None


def _spl(node: SplAggregate) -> str:
    words = [f"spl window {node.window.text}"]
    if node.partition:
        words.append(f"partitioned by [{_items(node.partition)}]")
    words.append(f"group by [{_items(node.groups)}]" if node.groups else "")
    shown = [_items(node.aggregates), *(f"{r.name} = {r.reading}()" for r in node.readings)]
    shown += [f"sorted by {_orders(node.sort)}"] if node.sort else []
    shown += [f"{c.name} = {c.count}()" for c in node.counts]
    words.append(", ".join(s for s in shown if s))
    return " ".join(w for w in (*words, "every firing" if node.every else "") if w)


def _spl_join(node: SplJoin) -> str:
    left, right = map(_joined_window, node.windows)
    on = "" if node.condition is None else f" on {expression_text(node.condition)}"
    return f"spl {node.kind} join of {left} and {right}{on}" + ("" if node.one_order else " in order of their clocks")


def _joined_window(side: JoinedWindow) -> str:
    by = f" partitioned by {', '.join(side.partition)}" if side.partition else ""
    return f"({side.window.text}{by})"
