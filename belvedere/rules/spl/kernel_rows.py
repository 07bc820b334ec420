"""Rows in the form that the kernels of SPL windows take.

In: an Arrow table of a window's input, the partition of each row. Out: `WindowRows` and `PaneRows`, and the tables
whose rows they number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows.epoch_rows import combined
from belvedere.kernels.spl.window_rows import Steps, WindowRows, steps
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_windows import Delta, Policy, Punctuation, Sliding, Tumbling
from belvedere.schema import TIMESTAMP

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ArrivedRows:
    """Rows sorted by partition (codes from 0 on) and arrival."""

    table: pa.Table
    partition: Numbers
    is_new: npt.NDArray[np.bool_]


def sorted_rows(node: SplAggregate, table: pa.Table, partition: Numbers, is_new: npt.NDArray[np.bool_]) -> ArrivedRows:
    """Sort rows by partition and arrival.

    The rows of several inputs in one epoch are ordered by the clock at which they arrived.
    """
    order = np.lexsort((whole(table[node.order]), micros(table[node.clock]), partition))
    return ArrivedRows(table.take(pa.array(order)).combine_chunks(), partition[order], is_new[order])


def present(node: SplAggregate, table: pa.Table) -> pa.Table:
    """Drop the rows without a value for a policy, or without event time: they are in no window."""
    return with_values(table, node.window.columns | ({node.time} if node.time is not None else set()))


def with_values(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Drop the rows without a value in one of these columns."""
    for name in sorted(names):
        known = pc.is_valid(table[name])
        if pa.types.is_floating(table[name].type):
            known = pc.and_(known, pc.invert(pc.fill_null(pc.is_nan(table[name]), True)))
        table = table.filter(known)
    return table


def window_rows(node: SplAggregate, rows: ArrivedRows) -> WindowRows:
    """Return the rows of a tumbling or sliding window."""
    kind = node.window.kind
    assert isinstance(kind, Tumbling | Sliding)
    eviction = kind.eviction if isinstance(kind, Sliding) else None
    trigger = kind.trigger if isinstance(kind, Sliding) else kind.eviction
    return WindowRows(
        rows.partition,
        whole(rows.table[node.order]),
        micros(rows.table[node.clock]),
        rows.is_new,
        steps_of(eviction, rows.table),
        steps_of(trigger, rows.table),
        None if node.punctuation is None else whole(rows.table[node.punctuation]),
    )


def steps_of(policy: Policy | Punctuation | None, table: pa.Table) -> Steps | None:
    """Return the column of a `delta` for the kernels, or None for other policies."""
    if not isinstance(policy, Delta):
        return None
    column = combined(table[policy.column])
    if pa.types.is_decimal(column.type):
        return steps(_unscaled(column), math.floor(policy.step * 10**column.type.scale))
    return steps(_numbers(column), policy.step if isinstance(policy.step, int) else float(policy.step))


def _numbers(column: pa.Array) -> Any:
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return micros(column) if pa.types.is_timestamp(column.type) else whole(column)


def _unscaled(column: pa.Array) -> Numbers:
    """Return the unscaled integers of decimals with at most 18 digits."""
    words = np.frombuffer(column.buffers()[1], np.int64)
    return words[2 * column.offset : 2 * (column.offset + len(column)) : 2].copy()


def micros(column: Any) -> Numbers:
    """Return times in microseconds."""
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        return whole(column.cast(pa.timestamp("us")).cast(pa.int64()))
    return whole(column.cast(TIMESTAMP).cast(pa.int64()))


def whole(column: Any) -> Numbers:
    """Return integers without NULLs."""
    return np.asarray(combined(column).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
