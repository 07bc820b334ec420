"""Batch answer of SPL windows: all rows in the order of arrival, with the same clock, in one call of the kernels.

In: a node, the clock and the bound of its event time after each epoch, a function that answers plans at an epoch. Out:
the node's rows after an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows.epoch_rows import conform
from belvedere.kernels.search import Ints
from belvedere.kernels.spl.firings import find
from belvedere.kernels.spl.panes import PaneRows, find_panes
from belvedere.kernels.spl.window_rows import NEVER, Firings, Found, Partitions
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.nodes import Node
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_windows import Interval
from belvedere.rules.spl.contents import CONTENTS, contents, contents_plan, last_firings, ordered
from belvedere.rules.spl.kernel_rows import ArrivedRows, micros, present, sorted_rows, whole, window_rows
from belvedere.rules.spl.sorting import RANKED, ranks, ranks_plan

Answer = Callable[[Node, int, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class SplReplay:
    """A node over the rows of a log, with the clock and the bound of its event time after each epoch."""

    node: SplAggregate
    clocks: tuple[int, ...]
    bounds: tuple[int, ...]
    answer: Answer
    ends: bool = False
    """Whether the input ends. `flushOnFinal` has an effect only then."""

    def after(self, epoch: int) -> pa.Table:
        """Return the node's rows after an epoch (counted from 0)."""
        rows = self._sorted(self.answer(self.node.input, epoch, {}))
        firings, members = (
            self._panes(rows, epoch) if isinstance(self.node.window.kind, Interval) else self._windows(rows, epoch)
        )
        numbers = np.arange(1, len(firings) + 1)
        if not self.node.every:
            chosen = last_firings(firings)
            firings, numbers = firings.take(chosen), numbers[chosen]
        return self._made(list(self._aggregated(rows.table, firings, numbers, members, epoch)))

    def _sorted(self, table: pa.Table) -> ArrivedRows:
        table = present(self.node, table)
        codes = partition_codes(table.select([i.expr.name for i in self.node.partition]), table.num_rows)
        return sorted_rows(self.node, table, codes, np.ones(table.num_rows, np.bool_))

    def _windows(self, rows: ArrivedRows, epoch: int) -> tuple[Firings, Ints | None]:
        known = Partitions.fresh(int(rows.partition.max(initial=-1)) + 1)
        given = window_rows(self.node, rows)
        if self.node.progressive:
            table = rows.table.select(self.node.input.schema.names)
            given.ranks = ranks(self.answer(ranks_plan(self.node), epoch, {RANKED: table}), given.number)
        found = find(self.node.window, given, known, NEVER, self.clocks[epoch])
        flushes = self.node.window.final or self.node.progressive
        if not (self.ends and flushes) or not found.kept.any():
            return found.firings, found.members
        return at_the_end(rows, found, self.node.order, self.clocks[epoch])

    def _panes(self, rows: ArrivedRows, epoch: int) -> tuple[Firings, Ints]:
        kind, node = self.node.window.kind, self.node
        assert isinstance(kind, Interval)
        assert node.time is not None
        number = whole(rows.table[node.order])
        bounds = np.maximum.accumulate(np.array((NEVER, *self.bounds[: epoch + 1]), np.int64))
        under = np.full(len(number), NEVER, np.int64)
        before = -1
        for n in range(epoch + 1):
            last = pc.max(self.answer(node.input, n, {})[node.order]).as_py()
            if last is not None:
                under[(number > before) & (number <= last)] = bounds[n]
                before = last
        given = PaneRows(rows.partition, number, micros(rows.table[node.time]), under)
        found = find_panes(kind, given, NEVER, np.unique(bounds[bounds > NEVER]))
        return found.firings, found.members

    def _aggregated(
        self, rows: pa.Table, firings: Firings, numbers: Ints, members: Ints | None, epoch: int
    ) -> Iterator[pa.Table]:
        plan = contents_plan(self.node)
        if len(firings):
            for piece in contents(self.node, rows, firings, numbers, members):
                yield ordered(self.answer(plan, epoch, {CONTENTS: piece}))

    def _made(self, tables: list[pa.Table]) -> pa.Table:
        schema = self.node.schema.arrow
        if not tables:
            return schema.empty_table()
        table = pa.concat_tables(tables)
        if self.node.every:
            table = table.append_column(SEQUENCE, pa.array(np.arange(1, table.num_rows + 1), pa.int64()))
        return conform(table, schema)


def at_the_end(rows: ArrivedRows, found: Found, order: str, now: int) -> tuple[Firings, Ints]:
    """Return the firings, then one more for each partition that still holds rows."""
    members = np.arange(len(rows.partition)) if found.members is None else found.members
    kept = np.flatnonzero(found.kept)
    begin = np.flatnonzero(np.append(True, np.diff(rows.partition[kept]) != 0))
    last = np.append(begin[1:], len(kept)) - 1
    number = whole(rows.table[order])[kept[begin]]
    partition, by_row = rows.partition[kept[begin]], np.zeros(len(begin), np.bool_)
    at = np.full(len(begin), now)
    added = Firings(partition, at, begin + len(members), last + len(members), by_row, number).take(np.argsort(number))
    names = ("partition", "at", "first", "last", "by_row", "tie")
    both = Firings(*(np.concatenate([getattr(found.firings, n), getattr(added, n)]) for n in names))
    return both, np.concatenate([members, kept])


def partition_codes(keys: pa.Table, rows: int) -> Ints:
    """Number the partition of each row. Rows have equal numbers if GROUP BY treats them as equal."""
    codes: dict[Any, int] = {}
    if not keys.num_columns:
        return np.zeros(rows, np.int64)
    values = zip(*(c.to_pylist() for c in keys.columns), strict=True)
    return np.array([codes.setdefault(repr([_plain(v) for v in row]), len(codes)) for row in values], np.int64)


def _plain(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value
