"""SELECT STREAM over a join: `FROM a OVER (RANGE INTERVAL '1' MINUTE PRECEDING) JOIN b ON ...`: streams join within
windows of rowtime.

In: the SELECT as written. Out: a plain join with a condition on the two times, and with the rowtime of its rows. That
is the later of the two, or for an unmatched row of an outer join the end of the row's window. A stream without a window
joins only rows of its own time and of the other's window (SQLstream, 'JOIN clause').
`belvedere.lang.statements.lower_stream` decides when rows are emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.select.query_frame import StatementContext
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import ROWTIME

SIDES = ("", "LEFT", "RIGHT", "FULL")
HINT = (
    "join two streams, `FROM a OVER (RANGE INTERVAL '1' MINUTE PRECEDING) JOIN b ON ...`, or write SELECT ... EMIT "
    "STREAM"
)

TimeOf = Callable[[NamedRelation], str | None]
"""Function that returns the event-time column of a relation by its name in the script."""


@dataclass(frozen=True)
class _StreamSide:
    """One stream of a join: its time, and how long its rows wait for the other's."""

    time: Expr
    window: int

    @property
    def end(self) -> Expr:
        """Return the end of a row's window."""
        return _moved(self.time, self.window) if self.window else self.time.copy()


def joins_streams(select: exp.Select) -> bool:
    """Return whether a SELECT STREAM reads more than one FROM item."""
    return bool(select.args.get("joins"))


def windowed_join(select: exp.Select, context: StatementContext, time_of: TimeOf) -> tuple[exp.Select, bool]:
    """Return the SELECT as a plain join with an item `rowtime`, and whether unmatched rows are also emitted."""
    joined = select.copy()
    joins = joined.args["joins"]
    side = str(joins[0].args.get("side") or "").upper()
    kind = str(joins[0].args.get("kind") or "").upper()
    if len(joins) != 1 or side not in SIDES or kind in ("SEMI", "ANTI", "CROSS") or joins[0].args.get("using"):
        raise context.fail("B5011", "SELECT STREAM over this join is not supported", select, HINT)
    left, right = (_side(item, context, time_of) for item in (joined.args["from_"].this, joins[0].this))
    joins[0].set("on", exp.and_(*filter(None, (joins[0].args.get("on"), _near(left, right))), copy=False))
    if not any(
        _is_rowtime(e.this if isinstance(e, exp.Alias) else e) or e.alias_or_name.casefold() == ROWTIME
        for e in joined.expressions
    ):
        joined.append("expressions", exp.alias_(exp.column(ROWTIME), ROWTIME, quoted=True))
    expression = _rowtime(left, right, side)
    for found in [c for e in joined.expressions for c in e.find_all(exp.Column) if _is_rowtime(c)]:
        place: Any = expression.copy()
        found.replace(place if isinstance(found.parent, exp.Alias) else exp.alias_(place, ROWTIME, quoted=True))
    return joined, bool(side)


def _is_rowtime(expr: Any) -> bool:
    """Return whether an expression is `ROWTIME` without a table: that of the joined row."""
    return isinstance(expr, exp.Column) and expr.name.casefold() == ROWTIME and not expr.table


def _side(item: exp.Expr, context: StatementContext, time_of: TimeOf) -> _StreamSide:
    relation = context.definitions.find(item.name) if isinstance(item, exp.Table) and len(item.parts) == 1 else None
    time = time_of(relation) if relation is not None else None
    if time is None:
        raise context.fail("B5011", "SELECT STREAM joins only streams with an event time", item, HINT)
    window = item.args.get("over")
    message, hint = "a window of a stream takes an interval of days or less", "write INTERVAL '1' MINUTE"
    length = context.length(window, message, hint, place=item) if window is not None else 0
    item.set("over", None)
    return _StreamSide(exp.column(time, table=item.alias_or_name, quoted=True), length)


def _moved(time: Expr, length: int) -> Expr:
    step = exp.Interval(this=exp.Literal.string(str(abs(length))), unit=exp.var("MICROSECOND"))
    return (exp.Add if length >= 0 else exp.Sub)(this=time.copy(), expression=step)


def _near(left: _StreamSide, right: _StreamSide) -> Expr:
    """Return the condition that joins each row with earlier ones in the other's window, both ends included."""
    return exp.Between(this=right.time.copy(), low=_moved(left.time, -right.window), high=left.end)


def _rowtime(left: _StreamSide, right: _StreamSide, side: str) -> Expr:
    """Return the later time; for an unmatched row the end of its window.

    A NULL time matches nothing, which is explicit so that watermarks can use it.
    """
    kept = {"LEFT": (left,), "RIGHT": (right,), "FULL": (left, right)}.get(side, ())
    ifs = [
        exp.If(this=exp.Is(this=other.time.copy(), expression=exp.Null()), true=own.end if own in kept else exp.Null())
        for own, other in ((left, right), (right, left))
    ]
    return exp.Case(ifs=ifs, default=exp.Greatest(this=left.time.copy(), expressions=[right.time.copy()]))
