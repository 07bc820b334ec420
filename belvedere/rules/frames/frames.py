"""Reach of the frames of window functions: the rows of a partition that a change can affect.

In: a `Window` node. Out: its `Frames`, or the reason why it has none: a function reads all rows after its own, or all
rows of the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.arrival_order import unwrapped
from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.nodes import Expr, Window
from belvedere.schema import Column

DAY = 86_400_000_000

RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
UNBOUNDED = (
    *RANKS,
    exp.Count,
    exp.CountIf,
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.First,
    exp.FirstValue,
    exp.Last,
    exp.LastValue,
)
"""Functions that can continue from row to row if their frames begin with the partition."""


@dataclass(frozen=True)
class Frames:
    """Reach of frames: each result depends on rows of its partition, from a number of rows or a distance below its
    position in `order` to one above it.

    Below means lesser `order`, regardless of the window's direction. Distances are microseconds for timestamps, days
    for dates.
    """

    partition: tuple[str, ...]
    order: str
    rows_below: int = 0
    rows_above: int = 0
    least_below: int = 0
    least_above: int = 0
    grows: int = 0
    """1: a change affects all rows above it, -1: all rows below it, since frames grow that way; 0: frames end on both
    sides."""


def frames_of(node: Window, unbounded: bool = True) -> Frames | str:
    """Return the smallest frame that covers the frames of all functions of the node, or the reason why there is none.

    `unbounded`: whether frames can begin with their partition.
    """
    found = [_frame(i.expr, node, unbounded) for i in node.items]
    if not found:
        return "no window function"
    first = found[0]
    for other in found:
        if isinstance(first, str) or isinstance(other, str):
            return other if isinstance(other, str) else str(first)
        if (other.partition, other.order) != (first.partition, first.order) or other.grows * first.grows < 0:
            return "its functions differ in PARTITION BY or ORDER BY"
        first = replace(
            first,
            grows=first.grows or other.grows,
            rows_below=max(first.rows_below, other.rows_below),
            rows_above=max(first.rows_above, other.rows_above),
            least_below=max(first.least_below, other.least_below),
            least_above=max(first.least_above, other.least_above),
        )
    return first


def _frame(window: Expr, node: Window, unbounded: bool) -> Frames | str:
    if not isinstance(window, exp.Window):
        return "a function is composed of several"
    order, partition = window.args.get("order"), window.args.get("partition_by") or []
    name = name_of(unwrapped(window.this)[0])
    first = order.expressions[0] if order is not None else None
    if not isinstance(first, exp.Ordered):
        return f"{name} has no ORDER BY"
    if not all(isinstance(e, exp.Column) for e in (first.this, *partition)):
        return "PARTITION BY or ORDER BY are not columns"
    by = node.input.schema[first.this.name]
    descends = bool(first.args.get("desc"))
    if not _is_placed(by.type):
        return "the order is not by a whole number, a date or a time"
    if by.nullable and bool(first.args.get("nulls_first")) == descends:
        return "NULLs are sorted beside the greatest values"
    end = running_frame_end(window) if unbounded else None
    reach = (
        (_span([end]), (0, 0))
        if end is not None
        else _reach(window, by, len(order.expressions) if order is not None else 0)
    )
    if reach is None:
        return f"the frame of {name} has no end" if not unbounded else f"{name} is computed from all rows of its frame"
    rows, least = (r[::-1] if descends else r for r in reach)
    grows = 0 if end is None else -1 if descends else 1
    return Frames(tuple(e.name for e in partition), by.name, *rows, *least, grows)


def name_of(call: Expr) -> str:
    """Return the name of a function for messages."""
    made: dict[type[Expr], str] = {exp.ArgMax: "max_by", exp.ArgMin: "min_by"}
    return made.get(type(call)) or (call.sql_name() if isinstance(call, exp.Func) else call.key).lower()


def running_frame_end(window: exp.Window) -> int | None:
    """Return how many rows after its own row a frame ends that begins with the partition.

    Return None for other frames or functions.
    """
    spec = window.args.get("spec")
    if not isinstance(unwrapped(window.this)[0], UNBOUNDED) or window.args.get("order") is None:
        return None
    if spec is None or isinstance(unwrapped(window.this)[0], RANKS):
        return 0
    start, end = (_end(spec, n) for n in ("start", "end"))
    if str(start[0]).upper() != "UNBOUNDED" or start[1] != "PRECEDING" or spec.args.get("exclude"):
        return None
    if isinstance(end[0], str) and end[0].upper() == "CURRENT ROW":
        return 0
    return _distance(*end, None, 1) if spec.args["kind"].upper() == "ROWS" else None


def _is_placed(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_timestamp(type_) or pa.types.is_date32(type_))


FrameReach = tuple[int, int]
"""Reach before and after the row itself, in the direction of the window."""


def _reach(window: Expr, by: Column, keys: int) -> tuple[FrameReach, FrameReach] | None:
    """Return the reach in rows and in values of the sort key."""
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


def _span(distances: Sequence[int]) -> FrameReach:
    return max(0, -min(distances)), max(0, *distances)


def _end(spec: Expr, name: str) -> tuple[object, str]:
    return spec.args.get(name) or "CURRENT ROW", str(spec.args.get(f"{name}_side") or "").upper()


def _distance(value: object, side: str, by: Column | None, keys: int) -> int | None:
    """Return how far after the row itself an end of the frame is.

    None = unbounded, or not a whole number of rows or key units.
    """
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
