"""How far the frames of window functions reach: which rows of a partition a change can touch.

In: a `Window` node. Out: its `Frames`, or None where some function sees all rows before or behind its own (a rank, a growing frame).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.monotone import interval_length
from belvedere.plan.nodes import Expr, Window
from belvedere.schema import Column

DAY = 86_400_000_000


@dataclass(frozen=True)
class Frames:
    """Each result depends on the rows of its partition from so many rows, or so much, below its own place in `order` to so many above.

    Below is what has the lesser `order`, whichever way the window sorts. Distances are microseconds for timestamps, days for dates.
    """

    partition: tuple[str, ...]
    order: str
    rows_below: int = 0
    rows_above: int = 0
    least_below: int = 0
    least_above: int = 0


def frames_of(node: Window) -> Frames | None:
    """What all functions of the node have in common, the widest reach each way."""
    found = [_frame(i.expr, node) for i in node.items]
    first = found[0] if found else None
    if first is None:
        return None
    for other in found[1:]:
        if other is None or (other.partition, other.order) != (first.partition, first.order):
            return None
        first = replace(
            first,
            rows_below=max(first.rows_below, other.rows_below),
            rows_above=max(first.rows_above, other.rows_above),
            least_below=max(first.least_below, other.least_below),
            least_above=max(first.least_above, other.least_above),
        )
    return first


def _frame(window: Expr, node: Window) -> Frames | None:
    order = window.args.get("order") if isinstance(window, exp.Window) else None
    partition = window.args.get("partition_by") or []
    first = order.expressions[0] if order is not None else None
    if not isinstance(first, exp.Ordered) or not all(isinstance(e, exp.Column) for e in (first.this, *partition)):
        return None
    by = node.input.schema[first.this.name]
    descends = bool(first.args.get("desc"))
    if not _is_placed(by.type) or (by.nullable and bool(first.args.get("nulls_first")) == descends):
        return None
    reach = _reach(window, by, len(order.expressions) if order is not None else 0)
    if reach is None:
        return None
    rows, least = (r[::-1] if descends else r for r in reach)
    return Frames(tuple(e.name for e in partition), by.name, *rows, *least)


def _is_placed(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_timestamp(type_) or pa.types.is_date32(type_))


Span = tuple[int, int]
"""How far before and after the own row, in the direction of the window."""


def _reach(window: Expr, by: Column, keys: int) -> tuple[Span, Span] | None:
    """In rows and in values of the sort key."""
    call, spec = window.this, window.args.get("spec")
    if isinstance(call, exp.Lag | exp.Lead):
        offset = _whole(call.args.get("offset") or exp.Literal.number(1))
        if offset is None:
            return None
        return _span([offset if isinstance(call, exp.Lead) else -offset]), (0, 0)
    if spec is None or (isinstance(call, exp.IgnoreNulls) and isinstance(call.this, exp.Lag | exp.Lead)):
        return None
    by_rows = spec.args["kind"].upper() == "ROWS"
    ends = [_end(spec, "start"), _end(spec, "end")]
    distances = [_distance(value, side, None if by_rows else by, keys) for value, side in ends]
    if any(d is None for d in distances):
        return None
    span = _span([d for d in distances if d is not None])
    return (span, (0, 0)) if by_rows else ((0, 0), span)


def _span(distances: Sequence[int]) -> Span:
    return max(0, -min(distances)), max(0, *distances)


def _end(spec: Expr, name: str) -> tuple[object, str]:
    return spec.args.get(name) or "CURRENT ROW", str(spec.args.get(f"{name}_side") or "").upper()


def _distance(value: object, side: str, by: Column | None, keys: int) -> int | None:
    """How far after the own row an end of the frame is; None = without end, or in no whole numbers of rows or of the sort key."""
    if isinstance(value, str):
        return 0 if value.upper() == "CURRENT ROW" else None
    if not isinstance(value, exp.Expr) or (by is not None and keys != 1):
        return None
    found = _whole(value) if by is None or pa.types.is_integer(by.type) else interval_length(value)
    if found is not None and by is not None and pa.types.is_date32(by.type):
        whole = _whole(value)
        found = whole if whole is not None else -(-found // DAY)
    return found if found is None or side == "FOLLOWING" else -found


def _whole(value: Expr) -> int | None:
    inner = value.unnest()
    if isinstance(inner, exp.Neg):
        found = _whole(inner.this)
        return None if found is None else -found
    return int(inner.name) if isinstance(inner, exp.Literal) and inner.is_int else None
