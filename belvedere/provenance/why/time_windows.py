"""The range of time of an event-time window, if tests fix the window.

In: the operator and the requested predicate on its rows. Out: tests of its input's time column. They are literals, so a
database finds the rows by its index on the time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.provenance.constants import constant, fixed_columns
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.schema import TIMESTAMP
from belvedere.values.instants import instant, microseconds


def in_window(node: TimeWindow, requested: RowPredicate) -> RowPredicate | None:
    """Return the predicate on the rows in the one requested window; None if the tests do not fix a window."""
    fixed = fixed_columns(requested.tests)
    start, end = literal_time(fixed.get(node.start)), literal_time(fixed.get(node.end))
    if node.kind is TimeWindowKind.SESSION:
        if start is None or end is None or any(p not in fixed for p in node.partition):
            return None
    elif node.kind is TimeWindowKind.CUMULATE:
        if end is None:
            return None
        start = node.first_start(end - 1)
    elif start is not None:
        end = start + node.size
    elif end is not None:
        start = end - node.size
    if start is None or end is None:
        return None
    return between(node.time, start, end, node.input.schema[node.time].type)


def between(name: str, start: int, end: int, type_: pa.DataType = TIMESTAMP) -> RowPredicate:
    """Return the predicate on rows with a time in [start, end), in microseconds."""
    low, high = (constant(instant(t), type_) for t in (start, end))
    return RowPredicate((exp.GTE(this=column(name), expression=low), exp.LT(this=column(name), expression=high)))


def literal_time(expr: Expr | None) -> int | None:
    """Return the microseconds of a literal in the form of `constant`; None for anything else."""
    while isinstance(expr, exp.Cast | exp.Paren):
        expr = expr.this
    if not isinstance(expr, exp.Literal) or not expr.is_string:
        return None
    try:
        return microseconds(datetime.fromisoformat(expr.this + "+00:00"))
    except ValueError:
        return None


def earlier(expr: Expr, micros: int) -> Expr | None:
    """Return the literal of a time that is `micros` before another."""
    time = literal_time(expr)
    return None if time is None else constant(instant(time) - timedelta(microseconds=micros), TIMESTAMP)
