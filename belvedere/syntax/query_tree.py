"""Queries and expressions as sqlglot trees: the clauses that Belvedere adds, and accessors.

In: trees of the dialect `belvedere.syntax.dialect.Sqrl`, names unresolved. Out: answers; no tree is changed.

Every node's `meta["start"]` and `meta["end"]` are character offsets of the script, half-open; `span_of(node, file)`
converts them to a `Span`. `copy()` keeps them. Forms that the dialect has already normalized:

* `@`, `this` and `_` as the row of the enclosing table are the identifier `_` (unquoted `exp.Identifier`).
* `n UNIT`, `INTERVAL n UNITS`, `INTERVAL 'n' UNIT` are `exp.Interval(this=Literal.string(n), unit=Var(UNIT))`, UNIT
  singular, upper case (a QUARTER is three MONTHs).
* `second(t)` ... `year(t)` and `FLOOR(t TO HOUR)` are `exp.TimestampTrunc(this=t, unit=Var(HOUR))`;
  `now()` is `exp.CurrentTimestamp`.
* `EMIT ...` is `EmitClause`, at `query.args["emit"]` of its `exp.Query` (select or set operation): `emit_of(query)`.
* `GROUP BY 2` of a pipe's AGGREGATE is an `exp.Star` with `meta[PLACE]`: only the second column.
* `SELECT STREAM` sets `select.args["stream"] = True`: `is_stream(query)`.
* `ORDER BY t WITHIN INTERVAL d` sets `order.args["within"]` (an `exp.Interval`) on the `exp.Order`.
* `Tumble(...)`, `Hop(...)`, `Cumulate(...)`, `Session(...)` in FROM are `exp.Table(this=WindowCall)`, with the alias on
  the Table.
* A WHERE after GROUP BY is in `args["where"]` as usual, with `meta["after_group"]`; a diagnostic holds the notice.
* `JOIN s.readings r` without ON has no `on`; `CAST` is `exp.Cast`, only `TRY_CAST` is `exp.TryCast`.
* A path in FROM (`_.sensors.readings`, `s.readings r`) is an `exp.Table`: `path_of(table)` gives its parts in order.
* `?` is `exp.Placeholder()` with `meta["index"]` (from 0 per statement); `:name`, `@name` are
  `exp.Placeholder(this=name)`.
* SPL's window of a table is an `SplClause` (`belvedere.syntax.spl.window_tree`) at `args["spl"]` of the FROM item;
  those with a label are a list at `args["spl"]` of the select.
* A query with `WINDOW BY` is not parsed here: it is a `WindowByBlock` that holds its text.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from belvedere.errors import Span

PLACE = "place"
"""Meta key of a star that means one column: its number, from 1."""


class EmitClause(exp.Expression):
    """`EMIT [STREAM] [AFTER DELAY d] [AND] [AFTER WATERMARK]`: `stream` and `watermark` are booleans, `delay` an
    interval."""

    arg_types: ClassVar[dict[str, bool]] = {"stream": False, "delay": False, "watermark": False}


class WindowCall(exp.Expression):
    """A windowing table function in FROM.

    `function` is `tumble`, `hop`, `cumulate` or `session`. `data` is an `exp.Table` or an `exp.Query`; `timecol` and
    the elements of `keys` (session) are `exp.Column`; `dur`, `hopsize`, `offset`, `gap` are expressions or absent
    (`cumulate`: `hopsize` is the step, `dur` the maximum size). `until` is a column with the end of each row's own gap,
    in place of `gap`; `timezone` is the text of a zone. `flink` is True for
    the order and names of Calcite and Flink: then the columns that it adds are `window_start` and `window_end`, not
    `wstart` and `wend`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "function": True,
        "data": True,
        "timecol": True,
        "dur": False,
        "hopsize": False,
        "offset": False,
        "gap": False,
        "until": False,
        "timezone": False,
        "keys": False,
        "flink": False,
    }


class WindowByBlock(exp.Expression, exp.Query):
    """A query with WINDOW BY, as written: `text` (a string) and its position `start`, `end` in the script (also in
    `meta`).

    `emit` is the EMIT clause after it; the text does not include it.
    """

    arg_types: ClassVar[dict[str, bool]] = {"text": True, "start": True, "end": True, "with_": False, "emit": False}

    @property
    def text_of(self) -> str:
        """Return the query's text, exactly as in the script."""
        return str(self.args["text"])


QueryTree = exp.Query
"""A select, a set operation, a parenthesised query or a `WindowByBlock`."""


def place_of(node: exp.Expr) -> tuple[int, int]:
    """Return the position of a node: its own, or that of the nearest enclosing node that has one."""
    place: exp.Expr | None = node
    while place is not None and "start" not in place.meta:
        place = place.parent
    return (place.meta["start"], place.meta["end"]) if place is not None else (0, 0)


def span_of(node: exp.Expr, file: str) -> Span:
    """Return the position of a node as a span of its script; the empty span at 0 for a node that a rewrite created."""
    return Span(file, *place_of(node))


def emit_of(query: exp.Expr) -> EmitClause | None:
    """Return the EMIT clause of this query itself, or None."""
    found = query.args.get("emit")
    return found if isinstance(found, EmitClause) else None


def is_stream(query: exp.Expr) -> bool:
    """Return whether a select has SELECT STREAM."""
    return bool(query.args.get("stream"))


def is_modified(query: exp.Expr) -> bool:
    """Return whether clauses follow, or precede, the parentheses around a query."""
    return isinstance(query, exp.Subquery) and any(
        query.args.get(k) for k in ("with_", "order", "limit", "offset", "emit")
    )


def unwrap_query(query: exp.Expr) -> exp.Query:
    """Return the query inside parentheses."""
    while isinstance(query, (exp.Subquery, exp.Paren)) and isinstance(query.this, (exp.Query, exp.Paren, exp.Values)):
        if is_modified(query):
            break
        query = query.this
    if isinstance(query, exp.Values):
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
    assert isinstance(query, exp.Query)
    return query


def path_of(table: exp.Table) -> tuple[exp.Identifier, ...]:
    """Return the names of a table reference in order; empty for a function call."""
    return tuple(part for part in table.parts if isinstance(part, exp.Identifier))
