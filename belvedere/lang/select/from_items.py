"""A single FROM item: a table, a subquery, VALUES, or a windowing call.

In: the item as written. Out: its plan and the names in it. `belvedere.lang.select.from_clause` joins items and handles
paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.catalog.resolved_query import ResolvedPath
from belvedere.errors import BelvedereError
from belvedere.functions import spark_types as t
from belvedere.functions.other_systems import OTHER_FUNCTIONS
from belvedere.functions.spark_types import Typed
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem, SourceColumn
from belvedere.lang.select.arrival_columns import rows_with_arrivals, with_arrivals
from belvedere.lang.select.calendar_windows import (
    MAX_BRANCHES,
    CalendarWindows,
    calendar_length,
    with_calendar_windows,
)
from belvedere.lang.select.pivoting import lower_pivots
from belvedere.lang.select.query_frame import Frame, named_source
from belvedere.lang.select.selected_rows import selected_rows
from belvedere.lang.types.form_types import is_zone
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Item, Node, Project, Values
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.schema import TIMESTAMP, Column
from belvedere.syntax.query_tree import WindowCall, is_modified, path_of
from belvedere.syntax.wording import did_you_mean, misfit

HINTS = {
    "version": "write `JOIN T FOR SYSTEM_TIME AS OF e.ts t ON t.k = e.k`",
    "over": "windows of streams need a join of two named streams: SELECT STREAM ... FROM a OVER (...) JOIN b ON ...",
}
WINDOW_TIME = "window_time"
"""Flink's name for the last millisecond of a window."""
UNSUPPORTED = {
    "sample": "TABLESAMPLE",
    "when": "time travel",
    "version": "FOR SYSTEM_TIME AS OF",
    "over": "OVER",
}


def lower_item(frame: Frame, item: exp.Expr) -> tuple[Node, list[FromItem]]:
    """Return the plan of a FROM item and the names in it."""
    if item.args.get("pivots"):
        node, source = lower_pivots(frame, item)
        return node, [renamed(frame, source, item.args["pivots"][-1])]
    if isinstance(item, exp.Table):
        if isinstance(item.this, WindowCall):
            node, source = _window_call(frame, item)
        elif isinstance(item.this, (exp.Func, exp.Anonymous)):
            name = item.this.name or item.this.sql()
            hint = "FROM allows explode, posexplode, inline, Tumble, Hop, Cumulate and Session"
            hint = OTHER_FUNCTIONS.get(name.upper(), hint)
            raise frame.fail("B3023", f"table function `{name}` is not known", item, hint)
        else:
            refuse_options(frame, item)
            node, source = _table(frame, item)
        return node, [renamed(frame, source, item)]
    if isinstance(item, exp.Values):
        return _values(frame, item)
    if isinstance(item, exp.Query):
        return _derived(frame, item)
    raise frame.fail("B3023", f"`{item.sql('spark')}` is not allowed in FROM", item, _window_of_now(item))


def _window_of_now(item: exp.Expr) -> str | None:
    """Return a hint for the window `t [NOW]` of CQL: it contains the rows of one instant."""
    parts = item.expressions if isinstance(item, exp.Bracket) else []
    if [p.name.upper() for p in parts] != ["NOW"]:
        return None
    return "write FROM t without a window; in a join, compare the times of the rows: a.ts = b.ts"


def _derived(frame: Frame, item: exp.Query) -> tuple[Node, list[FromItem]]:
    query = item.this if isinstance(item, exp.Subquery) and not is_modified(item) else item
    refuse_options(frame, item)
    if isinstance(query, exp.Table):
        raise frame.fail("B3023", "write the table without parentheses", item)
    node = with_arrivals(
        frame.context.definitions, frame.context.lower_query(query, replace(frame.context, repeats=True)), _said(item)
    )
    node, source = selected_rows(frame, node, item, item.alias or "subquery")
    source = replace(source, alias=item.alias)
    return node, [renamed(frame, source, item)]


def _values(frame: Frame, item: exp.Values) -> tuple[Node, list[FromItem]]:
    rows: list[tuple[Expr, ...]] = []
    empty = Frame(frame.context)
    lower = Resolver(empty)
    for row in item.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        rows.append(tuple(lower.resolve(p) for p in parts))
    if len({len(r) for r in rows}) != 1:
        raise frame.fail("B3024", "the rows of VALUES have different numbers of columns", item)
    alias = item.args.get("alias")
    names = (
        [c.name for c in alias.columns]
        if alias is not None and alias.columns
        else [f"col{n + 1}" for n in range(len(rows[0]))]
    )
    inference = empty.inference()
    typed = [inference.common(values) for values in zip(*rows, strict=True)]
    columns = [Column(name, common.type, common.nullable) for name, common in zip(names, typed, strict=False)]
    node, source = named_source(Values(tuple(columns), tuple(rows)), item.alias or "values", frame.context.names)
    return node, [replace(source, alias=item.alias)]


def _table(frame: Frame, item: exp.Table) -> tuple[Node, FromItem]:
    path = path_of(item)
    context = frame.context
    if len(path) == 1:
        common = context.tables.get(path[0].name.casefold())
        if common is not None:
            rows = with_arrivals(context.definitions, common, _said(item))
            return selected_rows(frame, rows, item, item.alias or path[0].name)
    relation = find_relation(frame, path)
    rows = rows_with_arrivals(context.definitions, relation, _said(item))
    node, source = named_source(rows, item.alias or path[-1].name, context.names, relation)
    return node, replace(source, is_named=True)


def _said(item: exp.Expr) -> set[str]:
    """Return the folded names of columns in the query that contains an item."""
    query = item.find_ancestor(exp.Select)
    return {c.name.casefold() for c in query.find_all(exp.Column)} if query is not None else set()


def find_relation(frame: Frame, path: Sequence[exp.Identifier]) -> NamedRelation:
    """Return the relation of a name or of a nested table's path."""
    context = frame.context
    name = ".".join(p.name for p in path)
    first = path[0]
    found = context.definitions.find(name)
    if found is not None:
        context.resolved(path, ResolvedPath(found.name, found.id))
        return found
    if first.name.casefold() in context.definitions.namespaces:
        inside = [n for n in context.definitions.names if n.casefold().startswith(f"{first.name.casefold()}.")]
        raise context.fail("B2001", f"table `{name}` is not defined", first, did_you_mean(name, inside))
    if len(path) > 1 and path[0].name.casefold() not in context.definitions.broken:
        aliases = [s.alias for s in frame.scope.sources if s.addressable]
        hint = did_you_mean(first.name, aliases) if aliases else did_you_mean(name, context.definitions.names)
        raise context.fail("B2001", f"`{first.name}` is neither a table nor an alias of this query", first, hint)
    names = list(context.definitions.names) + list(context.tables)
    if first.name.casefold() in context.definitions.broken:
        raise BelvedereError(())
    raise context.fail("B2001", f"table `{name}` is not defined", first, context.definitions.missing(name, names))


def _window_call(frame: Frame, item: exp.Table) -> tuple[Node, FromItem]:
    call: Any = item.this
    context = frame.context
    data = call.args["data"]
    alias = item.alias or call.args["function"]
    if isinstance(data, exp.Table):
        inner = Frame(context, frame.scope.outer)
        node, source = _table(inner, data)
    else:
        node, source = named_source(context.lower_query(data, context), alias, context.names)
    time = _column_of(frame, source, call.args["timecol"])
    if not t.is_time(time.typed.type):
        message = f"`{time.name}` is {t.a_type(time.typed.type)}, not a TIMESTAMP"
        raise context.fail("B5001", message, call.args["timecol"], "CAST the column to TIMESTAMP in a view first")
    kind = TimeWindowKind(call.args["function"])
    names = ("window_start", "window_end") if call.args.get("flink") else ("wstart", "wend")
    prefix = context.names.fresh(alias)
    start, end = (f"{prefix}.{n}" for n in names)
    local = time.typed.type == t.LOCAL_TIMESTAMP
    node, instant = _as_instant(node, time, prefix)
    windows = calendar_windows(frame, call, kind, local)
    if windows is not None:
        node = with_calendar_windows(node, windows, instant, start, end)
    else:
        node = _fixed_windows(frame, node, call, source, (instant, start, end))
    type_ = t.LOCAL_TIMESTAMP if local else TIMESTAMP
    if local:
        node = Project(node, tuple(_as_local(c) if c.name in (start, end) else item_of(c) for c in node.schema))
    bounds = tuple(SourceColumn(n, i, Typed(type_, False)) for n, i in zip(names, (start, end), strict=True))
    if call.args.get("flink"):
        last = f"{prefix}.{WINDOW_TIME}"
        before = exp.Sub(
            this=column(end), expression=exp.Interval(this=exp.Literal.string("0.001"), unit=exp.var("SECOND"))
        )
        node = Project(node, (*map(item_of, node.schema), Item(last, before, type_, nullable=False, hidden=True)))
        bounds += (SourceColumn(WINDOW_TIME, last, Typed(type_, False), hidden=True),)
    table = source.alias if isinstance(data, exp.Table) and not item.alias else None
    return node, FromItem(alias, bounds + source.columns, None, table=table)


def _as_instant(node: Node, time: SourceColumn, prefix: str) -> tuple[Node, str]:
    """Return the rows with the time column as a TIMESTAMP: a date is its midnight."""
    if time.typed.type == TIMESTAMP:
        return node, time.internal
    name = f"{prefix}.time"
    moment = exp.cast(column(time.internal), exp.DataType.Type.TIMESTAMPTZ)
    return Project(
        node, (*map(item_of, node.schema), Item(name, moment, TIMESTAMP, time.typed.nullable, hidden=True))
    ), name


def _as_local(end: Column) -> Item:
    return Item(end.name, exp.cast(column(end.name), exp.DataType.Type.TIMESTAMPNTZ), t.LOCAL_TIMESTAMP, nullable=False)


def calendar_windows(frame: Frame, call: Any, kind: TimeWindowKind, local: bool) -> CalendarWindows | None:
    """Return windows of months, and of days with a time zone; None for those of a fixed length."""
    zone = _zone(frame, call, local)
    written = [call.args[n] for n in ("dur", "hopsize") if call.args.get(n) is not None]
    lengths = [calendar_length(w) for w in written]
    known = [n for n in lengths if n is not None]
    if kind is TimeWindowKind.SESSION or (zone is None and not any(n.in_months for n in known)):
        return None
    if len(known) != len(lengths) or len({n.in_months for n in known}) > 1 or call.args.get("offset") is not None:
        message = "windows of the calendar are of months, or of days, all of one kind and without offset"
        hint = "write INTERVAL '1' MONTH; or INTERVAL '1' DAY and timezone => 'Europe/Berlin'"
        raise frame.fail("B5002", message, call, hint)
    windows = CalendarWindows(kind, known[0], known[-1], zone)
    if kind is TimeWindowKind.CUMULATE and known[0].count % known[-1].count:
        raise frame.fail(
            "B5002", "`dur` must be a multiple of `hopsize`", call.args["dur"], "windows grow by hopsize up to dur"
        )
    if windows.branches > MAX_BRANCHES:
        message = f"a row is in {windows.branches} windows: {MAX_BRANCHES} at most"
        raise frame.fail("B5002", message, call.args["dur"], "take a greater hopsize")
    return windows


def _zone(frame: Frame, call: Any, local: bool) -> str | None:
    written = call.args.get("timezone")
    if written is None:
        return None
    if not isinstance(written, exp.Literal) or not written.is_string or not is_zone(written.name):
        raise frame.fail(
            "B3002", "`timezone` is no time zone", written, "write a region as 'Europe/Berlin', or '+02:00'"
        )
    if local:
        raise frame.fail("B5002", "a TIMESTAMP_NTZ is local already", written, "leave `timezone` out")
    return str(written.name)


def _fixed_windows(frame: Frame, node: Node, call: Any, source: FromItem, columns: tuple[str, str, str]) -> Node:
    """Return windows of a fixed length over a time column, with the names of their ends."""
    kind = TimeWindowKind(call.args["function"])
    lengths = {n: _length(frame, call, n) for n in ("dur", "hopsize", "offset", "gap") if call.args.get(n) is not None}
    if kind is TimeWindowKind.CUMULATE and lengths["dur"] % lengths["hopsize"]:
        raise frame.fail(
            "B5002", "`dur` must be a multiple of `hopsize`", call.args["dur"], "windows grow by hopsize up to dur"
        )
    keys = tuple(_column_of(frame, source, k).internal for k in call.args.get("keys") or ())
    written = call.args.get("until")
    until = None if written is None else _column_of(frame, source, written).internal
    size = 0 if until is not None else lengths["gap"] if "gap" in lengths else lengths["dur"]
    time, start, end = columns
    step, offset = lengths.get("hopsize", 0), lengths.get("offset", 0)
    return TimeWindow(node, kind, time, size, step, offset, keys, start, end, until)


def _length(frame: Frame, call: Any, name: str) -> int:
    message = f"`{name}` must be a positive interval of fixed length"
    return frame.context.length(
        call.args[name], message, "write INTERVAL '10' MINUTES", None if name == "offset" else 1
    )


def _column_of(frame: Frame, source: FromItem, written: exp.Expr) -> SourceColumn:
    found = source.find(written.name)
    if found is None:
        raise frame.fail(
            "B2002", f"column `{written.name}` is not defined", written, did_you_mean(written.name, source.names)
        )
    return found


def refuse_options(frame: Frame, item: exp.Expr) -> None:
    """Reject TABLESAMPLE and other clauses of a table that would have no effect."""
    for key, word in UNSUPPORTED.items():
        if item.args.get(key):
            raise frame.fail("B3027", f"{word} is not supported here", item, HINTS.get(key))


def renamed(frame: Frame, source: FromItem, item: exp.Expr) -> FromItem:
    """Rename columns as in `FROM t AS x (a, b)`."""
    alias = item.args.get("alias")
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return source
    visible = [c for c in source.columns if not c.hidden]
    if len(names) != len(visible):
        raise frame.fail("B3025", misfit(source.alias, visible, names), item)
    renamed = {c.internal: n for c, n in zip(visible, names, strict=True)}
    return replace(source, columns=tuple(replace(c, name=renamed.get(c.internal, c.name)) for c in source.columns))
