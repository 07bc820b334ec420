"""Windows with LABEL and START UNBOUNDED in blocks: running values, from the sequence's first row to an END near the label.

In: a block's sorted rows with some rows around it, a `KernelSpec`, and what the rows before the block add up to (`Heads`). Out: the
kernels' output. END moves on with the labels (`running_end`), so it lies in the block of its label or in the rows behind it that are
known. Nothing is run on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from belvedere.spark.window_by import states
from belvedere.spark.window_by.ends_beyond import Beyond, only_where, pairs, together
from belvedere.spark.window_by.kernel import Finder, label_columns
from belvedere.spark.window_by.margins import Ends, Margin, is_settled
from belvedere.spark.window_by.output import Writer
from belvedere.spark.window_by.ranges import Bools, Ints
from belvedere.spark.window_by.rows import Rows, Windows
from belvedere.spark.window_by.specs import Aggregate, KernelSpec, Length, Nth


@dataclass(frozen=True)
class Heads:
    """For each block what all rows before it add up to (nothing, for the first), and the sequence's first values (`w[0]`)."""

    before: Beyond


def running_begin(margin: Margin, spec: KernelSpec, ends: Ends, near: int) -> int | None:
    """The row behind the cut, where the margin has the ENDs of all labels before it and none of those behind it; else None.

    None also where an END of a label behind the cut lies before it: no longer margin helps.
    """
    if not margin.first and margin.cut < near:
        return None
    rows = Rows(margin.table, (), margin.position)
    if not margin.last and margin.cut and not is_settled(margin, rows, spec, ends):
        return None
    if margin.cut == rows.count or not margin.cut:
        return margin.cut
    label, yes = np.array([margin.cut], np.int64), np.ones(1, np.bool_)
    assert spec.end is not None
    bounds = replace(spec.end, search=tuple(replace(c, local=()) for c in spec.end.search or ()))
    far, end = (
        int(Finder(rows, spec).found(b, "end", Windows(label, label, label, yes, yes), np.zeros(1, np.int64))[0])
        for b in (bounds, spec.end)
    )
    known = far != 0 or margin.first  # no row before the margin is far enough for END
    return margin.cut if known and (end >= margin.cut or (end < 0 and margin.last)) else None


def head_of(own: pa.Table, spec: KernelSpec) -> Beyond:
    """What the rows of one block add up to, and its first values."""
    rows = Rows(own, ())
    first, last = np.zeros(1, np.int64), np.full(1, rows.count - 1, np.int64)
    folded = {o.output: states.state_of(o, rows, first, last) for o in spec.outputs if isinstance(o, Aggregate)}
    columns = {}
    for output in spec.outputs:
        if isinstance(output, Nth) and output.index >= 0:
            there = output.index < rows.count
            columns[output.output] = rows.column(output.column).take(pa.array([output.index if there else None], pa.int64()))
    return Beyond(folded, columns)


def heads_of(spec: KernelSpec, blocks: Sequence[Beyond]) -> Heads:
    """The heads of all blocks, given what each adds up to."""
    told, count = together(blocks), len(blocks)
    last = np.maximum(np.arange(count, dtype=np.int64) - 1, 0)
    merged = {
        o.output: states.merged(o, told.states[o.output], np.zeros(count, np.int64), last)
        for o in spec.outputs
        if isinstance(o, Aggregate)
    }
    return Heads(Beyond(merged, told.take(np.zeros(count, np.int64)).columns))


def running_windows(
    piece: pa.Table, spec: KernelSpec, own: tuple[int, int], before: int, last: bool, number: int, heads: Heads
) -> pa.Table:
    """The windows whose labels lie in rows [own[0], own[1]) of a piece of the sequence, `before` rows of which lie before the piece.

    `number` is the block's, and no rows lie behind the piece if `last`. Raises `ValueError` where a window may end behind the piece.
    """
    rows = Rows(piece, (), before)
    assert spec.label is not None
    assert spec.end is not None
    labels = np.flatnonzero(rows.mask(spec.label.local)).astype(np.int64)
    labels = labels[(labels >= own[0]) & (labels < own[1])]
    first, yes = np.full(len(labels), own[0], np.int64), np.ones(len(labels), np.bool_)
    found = Windows(labels, first, first, yes, yes)
    ends = Finder(rows, spec).found(spec.end, "end", found, first)
    found.closed = ends >= 0
    found.end = np.where(found.closed, ends, rows.count - 1)
    if not last and not (found.closed & (found.end < rows.count - 1)).all():
        raise ValueError("a window ends behind the rows that its block knows")
    if spec.only:
        found = found.take(found.closed)
    writer, columns = Writer(rows, found), label_columns(rows, found, spec)
    told = heads.before.take(np.full(len(found), number, np.int64))
    place = found.end + before
    for output in spec.outputs:
        if isinstance(output, Aggregate):
            near = states.state_of(output, rows, found.start, found.end)
            state = pairs(
                output, told.states[output.output], near, np.full(len(found), number > 0), np.ones(len(found), np.bool_)
            )
            extra = (~found.closed).astype(np.int64) if output.extra else np.zeros(len(found), np.int64)
            columns[output.output] = states.finished(output, state, extra)
        elif isinstance(output, Length):
            columns[output.output] = pa.array(place + 1 + ~found.closed, pa.int64())
        elif isinstance(output, Nth):
            columns.update(_nth(output, rows, found, before, told))
        else:
            columns.update(writer.write(output))
    return pa.table(columns)


def _nth(output: Nth, rows: Rows, found: Windows, before: int, told: Beyond) -> dict[str, pa.Array]:
    """`w[n]`: from the sequence's first rows, or near the end."""
    there: Bools
    if output.index >= 0:
        there = output.index <= found.end + before
        return {output.output: only_where(told.columns[output.output], there), output.flag: pa.array(~there)}
    place: Ints = found.end + ~found.closed + 1 + output.index
    there = (place + before >= 0) & (place <= found.end)
    value = rows.column(output.column).take(pa.array(np.where(there, place, 0), mask=~there))
    return {output.output: value, output.flag: pa.array(~there)}
