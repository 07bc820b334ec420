"""Runs a recursion: one level after another until one has no rows.

In: its texts, and the calls of Spark. Out: the rows of all levels. Every level runs a query with the same text, so
Spark compiles it once. A recursion beyond the limits is an error.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from belvedere.engine.compute import Compute
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.recursion_sql import RecursionOperator
from belvedere.errors import BelvedereError, counted, fail
from belvedere.plan.operators import recursion

ENDLESS = "B7042"
Put = Callable[[str, Rows], None]
"""Function that creates the view behind a scan."""


def fixpoint_rows(operator: RecursionOperator, compute: Compute, put: Put) -> Rows:
    """Return the rows of all levels. Raises B7042 if there are more levels or rows than the limits allow."""
    for name, text, schema in operator.sides:
        put(name, compute.compute(text, schema))
    found = [compute.compute(operator.base, operator.schema)]
    total = found[0].num_rows
    while not found[-1].is_empty:
        if len(found) > operator.node.levels:
            raise _endless(operator, f"after {counted(operator.node.levels, 'level')}")
        put(operator.last, found[-1])
        if operator.node.distinct:
            put(operator.seen, _together(found, operator.schema, compute))
        found.append(compute.compute(operator.step, operator.schema))
        total += found[-1].num_rows
        if total > recursion.ROWS:
            raise _endless(operator, f"at {recursion.ROWS:,} rows")
    return _together(found, operator.schema, compute)


def _together(levels: list[Rows], schema: pa.Schema, compute: Compute) -> Rows:
    if len(levels) == 1:
        return levels[0]
    return compute.keep(
        pa.RecordBatchReader.from_batches(schema, (b for rows in levels for b in rows.batches() if b.num_rows))
    )


def _endless(operator: RecursionOperator, where: str) -> BelvedereError:
    node = operator.node
    cycle = "" if node.distinct else "; UNION instead of UNION ALL ends when rows repeat"
    hint = f"add a condition that ends the step, or write `{node.name} MAX RECURSION LEVEL n AS (...)`{cycle}"
    return fail(ENDLESS, f"the recursion `{node.name}` has not ended {where}", hint=hint)
