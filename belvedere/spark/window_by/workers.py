"""What the interpreter does inside Spark: expressions row by row, and whole windows partition by partition.

In: Arrow tables of pinned columns. Out: Arrow tables. The functions made here run in Spark's Python workers; each is a pure
function of its table, so the same partition always gives the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from belvedere.kernels.rows import group_begins
from belvedere.kernels.specs import KernelSpec
from belvedere.kernels.values import member, order_key
from belvedere.kernels.windows import window_tables
from belvedere.lang.window_by.tree import Block, Expr
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.interpret_query import WindowStage, item_of
from belvedere.spark.window_by.layout import ValueLayout, read_rows, stored_type, write_column

ROWS_AT_ONCE = 200_000  # enough that a kernel's fixed cost does not count


@dataclass(frozen=True)
class Computed:
    """An expression that the interpreter computes into a column and its flag."""

    expr: Expr
    type: pa.DataType
    column: str
    missing: str


def computed_fields(columns: Sequence[Computed]) -> list[pa.Field]:
    """The Arrow fields that `computing` adds."""
    return [f for c in columns for f in (pa.field(c.column, stored_type(c.type)), pa.field(c.missing, pa.bool_()))]


def computing(
    columns: Sequence[Computed], layouts: Mapping[str, ValueLayout], constants: Mapping[str, Any]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that adds computed columns."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        evaluators = [compile_expression(c.expr) for c in columns]
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = [{**constants, **row} for row in read_rows(layouts, table)]
            for column, evaluate in zip(columns, evaluators, strict=True):
                values, flags = write_column([evaluate(row) for row in rows], column.type)
                table = table.append_column(column.column, values).append_column(column.missing, flags)
            yield from table.combine_chunks().to_batches()

    return run


@dataclass(frozen=True)
class OutputField:
    """A column of a window block's result; `name` None stands for the whole result."""

    name: str | None
    type: pa.DataType
    column: str
    missing: str


@dataclass(frozen=True)
class WindowTask:
    """All that a worker needs to compute the windows of one partition with the interpreter."""

    block: Block
    layouts: Mapping[str, ValueLayout]
    keys: tuple[str, ...]
    outputs: tuple[OutputField, ...]
    position: str
    constants: Mapping[str, Any]
    identity: tuple[str, ...] = ()
    """Columns beside the variables that are given at each window's label or start."""

    def schema(self, table: pa.Schema) -> pa.Schema:
        """The schema of the result for input of a schema."""
        fields = [table.field(k) for k in self.keys] + [pa.field(self.position, pa.int64())]
        fields += [table.field(c) for c in self.identity]
        for o in self.outputs:
            fields += [pa.field(o.column, stored_type(o.type)), pa.field(o.missing, pa.bool_())]
        return pa.schema(fields)


def windows_of_partition(task: WindowTask, table: pa.Table) -> pa.Table:
    """The results of one partition, in the order of their windows; pure: the same rows in any order give the same result."""
    stage = WindowStage(task.block)
    items = [item_of(row) for row in read_rows(task.layouts, table)]
    ties = [tuple(map(order_key, row)) for row in zip(*(table[c].to_pylist() for c in task.identity), strict=True)]
    order = stage.order_of(items, task.constants, ties)
    found = list(stage.evaluate([items[i] for i in order], task.constants))
    results = [result for _, _, result in found]
    own = table.take(pa.array([order[bounds.label] for bounds, _, _ in found], pa.int64()))
    arrays: list[Any] = [own[k] for k in task.keys]
    arrays.append(pa.array(range(len(results)), pa.int64()))
    arrays += [own[c] for c in task.identity]
    for o in task.outputs:
        values = results if o.name is None else [member(r, o.name) for r in results]
        arrays += write_column(values, o.type)
    return pa.table(arrays, schema=task.schema(table.schema))


def windows_in_batches(
    spec: KernelSpec, schema: pa.Schema, rows: int = ROWS_AT_ONCE
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over sorted rows: many small partitions at once, a large one when it is complete."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_partitions(batches, spec.keys, rows):
            for found in window_tables(table, spec):
                yield from found.select(schema.names).cast(schema).combine_chunks().to_batches(max_chunksize=rows)

    return run


def whole_partitions(batches: Iterator[pa.RecordBatch], keys: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Tables of about `rows` rows that cut no partition in two."""
    waiting: list[pa.RecordBatch] = []
    count, limit = 0, rows
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count < limit or not keys:
            continue
        table = pa.Table.from_batches(waiting)
        cut = int(group_begins(table, keys)[-1])
        if cut == 0:  # one partition so far: look again when twice as much is there
            limit = 2 * count
            continue
        yield table.slice(0, cut)
        rest = table.slice(cut).combine_chunks()
        waiting, count, limit = rest.to_batches(), rest.num_rows, rows
    if waiting:
        yield pa.Table.from_batches(waiting)
