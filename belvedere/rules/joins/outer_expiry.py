"""Final rows of a join that preserves unmatched rows, or that only tests for a match.

Such a join is recomputed for whole keys, so the old rows of a key can leave only together. A result that can still
change needs all input rows from which it is computed. In: the join's plan, and the bounds of its result (no later
change affects a row below them). Out: the times below which rows of a side are no longer needed, and the final results,
which a recomputation of their key must not change. Results therefore carry the times of their input rows, in hidden
columns if the script does not select them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.selected_rows import RowTest, SelectedRows, choose
from belvedere.functions.spark_types import quote
from belvedere.plan.bound_rules import Bounds, implied_bounds
from belvedere.plan.expressions import column
from belvedere.plan.monotone import FOREVER
from belvedere.plan.operators.nodes import Item, Join, JoinKind, Node, Project
from belvedere.plan.plan_properties import is_linear
from belvedere.schema import TIMESTAMP

PRESERVED: Mapping[JoinKind, tuple[int, ...]] = {
    JoinKind.LEFT: (0,),
    JoinKind.RIGHT: (1,),
    JoinKind.FULL: (0, 1),
    JoinKind.SEMI: (0,),
    JoinKind.ANTI: (0,),
}
"""The sides (0 left, 1 right) whose rows are preserved: every result contains a row of one of them."""


def preserved(join: Join) -> tuple[int, ...]:
    """Return the preserved sides of a join. A join with versions makes at most one result per left row."""
    return (0,) if join.versions is not None else PRESERVED.get(join.kind, ())


def join_of(plan: Node) -> Join | None:
    """Return the join that is computed key by key, if these rules apply to its kind."""
    while _passes(plan):
        plan = plan.inputs[0]
    return plan if isinstance(plan, Join) and preserved(plan) else None


def times_to_carry(plan: Node, join: Join, bounds: Bounds) -> tuple[Item, ...]:
    """Return the times that results of `plan` must carry: one of each preserved side that has a bound in the join's
    result.

    `bounds` are those of the join. The result is empty if a side has no bound; then no result is known to be final.
    """
    found, shown = [], {_origin(plan, n) for n in plan.schema.names}
    for side in preserved(join):
        columns = [c for c in join.inputs[side].schema if c.name in bounds and c.type == TIMESTAMP]
        if not columns:
            return ()
        if not any(c.name in shown for c in columns):
            first = columns[0]
            found.append(
                Item(f"_time{side}", column(first.name), first.type, first.nullable or len(preserved(join)) > 1)
            )
    return tuple(found)


def final_results(plan: Node, own: Bounds) -> dict[str, int]:
    """Return columns of the result with the bounds below which results are final.

    `own` are the bounds of the result. Empty for an inner join.
    """
    return {output: bound for output, _, bound in _limits(plan, own).values()}


def needed(plan: Node, own: Bounds, side: int) -> dict[str, int]:
    """Return columns of one side with the bounds below which no result that can still change needs the side's rows."""
    join, found = join_of(plan), None
    if join is None:
        return {}
    columns = join.inputs[side].schema.names
    for made, (_, time, bound) in _limits(plan, own).items():
        implied = {time: bound} if made == side else implied_bounds({time: bound}, join.condition)
        need = {n: b for n, b in implied.items() if n in columns}
        found = need if found is None else {n: min(found[n], b) for n, b in need.items() if n in found}
    return found or {}


def _limits(plan: Node, own: Bounds) -> dict[int, tuple[str, str, int]]:
    """Return per preserved side a column of the result, the column of the side behind it, and its bound.

    Empty if a side has none.
    """
    join = join_of(plan)
    if join is None:
        return {}
    found = {}
    for side in preserved(join):
        columns = join.inputs[side].schema.names
        for name, bound in own.items():
            time = _origin(plan, name)
            if time in columns and bound != FOREVER and plan.schema[name].type == TIMESTAMP:
                found[side] = (name, time, bound)
                break
    return found if len(found) == len(preserved(join)) else {}


def _origin(node: Node, name: str) -> str:
    """Return the join's column behind a column of the result, or an empty string if it is computed."""
    while _passes(node):
        below = node.inputs[0]
        if isinstance(node, Project):
            expr = next(i.expr for i in node.items if i.name == name)
            if not isinstance(expr, exp.Column):
                return ""
            name = expr.name
        elif name not in below.schema.names:
            return ""
        node = below
    return name


def _passes(node: Node) -> bool:
    """Return whether an operator makes each of its rows from one row below it."""
    return is_linear(node) and len(node.inputs) == 1


def beside_final_results(computed: Rows, stored: Rows, limits: Mapping[str, int]) -> Sequence[SelectedRows]:
    """Return the computed rows that can still change, and the stored rows that are final.

    Bounds are in microseconds.
    """

    def is_final(batch: pa.RecordBatch) -> pa.Array:
        found = pa.array([False] * batch.num_rows, pa.bool_())
        for name, limit in limits.items():
            below = pc.less(batch.column(name).cast(pa.int64()), pa.scalar(limit, pa.int64()))
            found = pc.or_(found, pc.fill_null(below, False))
        return found

    final = " OR ".join(
        f"coalesce(unix_micros(CAST({quote(n)} AS TIMESTAMP)) < {limit}L, FALSE)" for n, limit in limits.items()
    )
    can_change = RowTest(lambda b: pc.invert(is_final(b)), f"NOT ({final})")
    names = set(computed.schema.names) - set(stored.schema.names)
    return [choose(computed, can_change, *names), choose(stored, RowTest(is_final, f"({final})"))]
