"""Batch answer of joined SPL windows: all rows of both sides in the order of arrival, in one call of the kernel.

In: a node, the clock after each epoch, a function that answers plans at an epoch. Out: the node's rows after an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from belvedere.kernels.search import Ints
from belvedere.kernels.spl.join import places
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.rules.spl.kernel_rows import micros, whole, with_values
from belvedere.rules.spl.pairs import SIDES, given, pair_rows, pairs_plan, result_rows, results_of, side_of
from belvedere.rules.spl.window_batch import Answer, partition_codes


@dataclass(frozen=True)
class SplJoinReplay:
    """A node over the rows of a log, with the clock after each epoch."""

    node: SplJoin
    clocks: tuple[int, ...]
    answer: Answer

    def after(self, epoch: int) -> pa.Table:
        """Return the node's rows after an epoch (counted from 0)."""
        node, now = self.node, self.clocks[epoch]
        tables = [
            with_values(self.answer(i, epoch, {}), w.window.columns)
            for i, w in zip(node.inputs, node.windows, strict=True)
        ]
        *place, clocks = self._places(tables, epoch)
        codes = [
            partition_codes(t.select(list(w.partition)), t.num_rows) for t, w in zip(tables, node.windows, strict=True)
        ]
        left, right = (side_of(node, n, tables[n], codes[n], place[n], clocks, now) for n in (0, 1))
        sides = (left, right)
        rows = {name: given(node, n, side) for n, (name, side) in enumerate(zip(SIDES, sides, strict=True))}
        pairs = pair_rows(self.answer(pairs_plan(node), epoch, rows))
        made = results_of(node, sides, pairs, (_among(pairs[0], left.table), _among(pairs[1], right.table)), clocks)
        table = result_rows(node, sides, made, made.firing + 1)
        return table.append_column(
            node.schema.arrow.field(SEQUENCE), pa.array(np.arange(1, table.num_rows + 1), pa.int64())
        )

    def _places(self, tables: list[pa.Table], epoch: int) -> tuple[Ints, Ints, Ints]:
        left, right = self.node.windows
        at = (micros(tables[0][left.clock]), micros(tables[1][right.clock]))
        number = (whole(tables[0][left.order]), whole(tables[1][right.order]))
        if self.node.one_order:
            return places(at, number)
        return places(at, number, (self._epochs(0, number[0], epoch), self._epochs(1, number[1], epoch)))

    def _epochs(self, side: int, number: Ints, epoch: int) -> Ints:
        """Return the epoch in which each row arrived."""
        order = self.node.windows[side].order
        lasts = [whole(self.answer(self.node.inputs[side], n, {})[order]).max(initial=-1) for n in range(epoch + 1)]
        return np.searchsorted(np.maximum.accumulate(np.array(lasts, np.int64)), number)


def _among(rows: Ints, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(table.num_rows, np.bool_)
    found[rows] = True
    return found
