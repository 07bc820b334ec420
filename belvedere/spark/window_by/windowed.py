"""WINDOW BY over binding tuples: by the kernels where the boundaries have a known class, else by the interpreter.

In: `Bindings` before the clause and the block. Out: the block's `Result`. The rows are laid out partition by partition first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from belvedere.kernels.specs import Gather, KernelSpec, Nth
from belvedere.lang.window_by.names import after_window
from belvedere.lang.window_by.tree import Block, OrderKey
from belvedere.lang.window_by.types import Typing
from belvedere.spark.window_by.blocks import windows_by_blocks
from belvedere.spark.window_by.cuts import cut_giant
from belvedere.spark.window_by.giant import around, is_in
from belvedere.spark.window_by.layout import columns_of, layout_of, leaf_value
from belvedere.spark.window_by.plan import BlockPlanner, WindowPlan
from belvedere.spark.window_by.plan_columns import literal_or_none
from belvedere.spark.window_by.relation import (
    Bindings,
    Result,
    arrow_schema,
    fresh,
    pin,
    sort_columns,
    sort_texts,
    spark_schema,
)
from belvedere.spark.window_by.sql_values import Object, Untranslatable, Value, merge, name
from belvedere.spark.window_by.tuples import Spread, TablesInScope, Tuples
from belvedere.spark.window_by.worker_python import check_workers, in_python
from belvedere.spark.window_by.workers import (
    OutputField,
    WindowTask,
    windows_in_batches,
    windows_of_partition,
)


def windowed(tuples: Tuples, bindings: Bindings, block: Block, names: TablesInScope) -> Result:
    """WINDOW BY and what follows, partition by partition."""
    assert block.window is not None
    bindings, partition = tuples.values(bindings, list(block.window.partition), names)
    frame, pinned = pin(bindings.frame, [*partition, *bindings.variables.values()])
    keys, variables = pinned[: len(partition)], dict(zip(bindings.variables, pinned[len(partition) :], strict=True))
    bindings = replace(bindings, frame=frame, variables=variables)
    try:
        plan = planned(tuples, bindings, keys, block, names)
    except Untranslatable:
        return by_interpreter(tuples, bindings, keys, block, names)
    return by_kernel(tuples, bindings, keys, plan, names)


def planned(tuples: Tuples, bindings: Bindings, keys: Sequence[Value], block: Block, names: TablesInScope) -> WindowPlan:
    """The plan for the kernels. Raises Untranslatable where it, or that of the block that ties are to be like, has none."""
    if any(isinstance(k, Object) or pa.types.is_nested(k.type) for k in keys):
        raise Untranslatable("PARTITION BY objects or arrays")
    planner = BlockPlanner(block, bindings.variables, keys, names.constants, bindings.identity)
    if tuples.like is not None:
        other = BlockPlanner(tuples.like, bindings.variables, keys, names.constants, bindings.identity)
        other.plan()
        planner.columns, planner.texts = dict(other.columns), dict(other.texts)
    return planner.plan()


def by_kernel(tuples: Tuples, bindings: Bindings, keys: Sequence[Value], plan: WindowPlan, names: TablesInScope) -> Result:
    """Boundaries and aggregates by kernels, the rest in Spark SQL over their output."""
    ordered = tuples.limits
    spec = plan.spec if ordered else replace(plan.spec, ordered=False)
    frame = prepared(bindings.frame, plan)
    schema = output_schema(plan, spec, arrow_schema(frame))
    found = in_blocks(tuples, frame, plan, spec, schema)
    if found is None:
        found = in_one_task(tuples, frame, plan, spec, schema)
    order = order_of(keys, plan.spec.position)
    outside = {n: literal_or_none(v) for n, v in names.constants.items()}
    variables = {**{n: v for n, v in outside.items() if v is not None}, **plan.variables}
    result = Bindings(found, variables, order, not ordered, plan.identity)
    result = tuples.lets(result, plan.block.window_lets, names)
    if plan.block.window_having is not None:
        result = tuples.filtered(result, plan.block.window_having, names)
    return tuples.selected(result, plan.block.select, names)


def prepared(frame: DataFrame, plan: WindowPlan) -> DataFrame:
    """The rows with the columns of the plan."""
    if set(frame.columns) == set(plan.columns.values()) and all(t == name(c) for t, c in plan.columns.items()):
        return frame
    return frame.selectExpr(*(f"{text} AS {name(column)}" for text, column in plan.columns.items()))


def in_one_task(tuples: Tuples, frame: DataFrame, plan: WindowPlan, spec: KernelSpec, schema: pa.Schema) -> DataFrame:
    """Each partition's windows by one task."""
    rows = laid_out(tuples, frame, spec.keys, sort_columns(plan.sort))
    return in_python(rows, windows_in_batches(spec, schema), schema)


def in_blocks(tuples: Tuples, frame: DataFrame, plan: WindowPlan, spec: KernelSpec, schema: pa.Schema) -> DataFrame | None:
    """The windows where one partition is done by many tasks; None where none is."""
    if tuples.spread is Spread.SINGLE:
        return None
    parts = cut_giant(tuples.spark, frame, plan, spec)
    if parts is None:
        return None
    giant, lead, cuts = parts
    rows = frame.where(is_in(spec.keys, giant)) if spec.keys else frame
    found = windows_by_blocks(rows, spec, lead, sort_columns(plan.sort), schema, cuts)
    if not spec.keys:
        return found
    if tuples.spread is Spread.HASHED or tuples.limits:
        rest = in_one_task(tuples, frame.where(~is_in(spec.keys, giant)), plan, spec, schema)
        return found.unionAll(rest.select(*schema.names))
    before, behind = (frame.where(c) for c in around(spec.keys, giant))  # in the order of the partitions
    around_it = (in_one_task(tuples, f, plan, spec, schema).select(*schema.names) for f in (before, behind))
    return next(around_it).unionAll(found).unionAll(next(around_it))


def by_interpreter(tuples: Tuples, bindings: Bindings, keys: Sequence[Value], block: Block, names: TablesInScope) -> Result:
    """All windows by the interpreter: one Python call per partition."""
    columns = list(dict.fromkeys(c for k in keys for c in columns_of(layout_of(k))))
    layouts = {n: layout_of(v) for n, v in bindings.variables.items()}
    task = WindowTask(
        block,
        layouts,
        tuple(columns),
        output_fields(tuples, bindings, block, names),
        fresh("pos"),
        window_constants(tuples, block, names),
        bindings.identity,
    )
    needed = list(dict.fromkeys([*columns, *(c for layout in layouts.values() for c in columns_of(layout)), *task.identity]))
    frame = bindings.frame.select(*needed)
    rows = arrow_schema(frame)
    schema = task.schema(rows)
    order = order_of(keys, task.position)
    check_workers(frame.sparkSession)
    frame = frame.coalesce(1) if tuples.spread is Spread.SINGLE else frame
    result = frame.groupBy(*columns).applyInArrow(lambda table: windows_of_partition(task, table), spark_schema(schema))
    return Result(result, task_value(task), order, identity=task.identity)


def laid_out(tuples: Tuples, frame: DataFrame, keys: Sequence[str], sort: Sequence[Any]) -> DataFrame:
    """The rows partition by partition, each sorted and in one task; the partitions in order too, unless a later sort does it."""
    columns = [F.col(k).asc_nulls_first() for k in keys]
    if tuples.spread is Spread.SINGLE:
        frame = frame.coalesce(1)
    elif not keys:
        frame = frame.repartition(1)  # not coalesce: what comes before keeps its parallelism
    elif tuples.limits or tuples.spread is Spread.HASHED:
        frame = frame.repartition(*keys)
    else:
        frame = frame.repartitionByRange(*columns)
    return frame.sortWithinPartitions(*columns, *sort) if columns or sort else frame


def output_fields(tuples: Tuples, bindings: Bindings, block: Block, names: TablesInScope) -> tuple[OutputField, ...]:
    found = Typing().after_window(block, tuples.scope({}, names), {n: v.type for n, v in bindings.variables.items()})
    members = block.select.value is None or isinstance(block.select.value, exp.Struct)
    if members and found is not None:
        return tuple(OutputField(f.name, f.type, fresh("o"), fresh("m")) for f in found)
    return (OutputField(None, found or pa.null(), fresh("o"), fresh("m")),)


def window_constants(tuples: Tuples, block: Block, names: TablesInScope) -> dict[str, Any]:
    assert block.window is not None
    exprs = [*after_window(block), *(k.expr for k in block.window.order)]
    own = set(block.window.variables) | {block.window.name.text}
    return {n: v for n, v in tuples.constants(exprs, names).items() if n not in own}


def output_schema(plan: WindowPlan, spec: KernelSpec, rows: pa.Schema) -> pa.Schema:
    """The schema of what the kernels give for rows of a schema."""
    fields: list[pa.Field] = []
    if spec.ordered or not spec.outputs:
        fields = [rows.field(k) for k in spec.keys] + [pa.field(spec.position, pa.int64())]
    for output in spec.outputs:
        if output.output in plan.identity and isinstance(output, Gather):
            fields.append(rows.field(output.column).with_name(output.output))
            continue
        names = [output.output, output.flag] if isinstance(output, Nth) else [output.output]
        fields += [pa.field(n, plan.types[n]) for n in names]
    return pa.schema(fields)


def task_value(task: WindowTask) -> Value:
    """The value of a window task's output columns."""
    leaves = [leaf_value(o.column, o.type, o.missing) for o in task.outputs]
    if task.outputs and task.outputs[0].name is None:
        return leaves[0]
    return Object({str(o.name): leaf for o, leaf in zip(task.outputs, leaves, strict=True)})


def order_of(keys: Sequence[Value], position: str) -> tuple[str, ...]:
    """Rule 10: by partition, then by the position of the label or start."""
    return (*(t for k in keys for t in sort_texts(OrderKey(exp.null()), merge(k))), f"{name(position)} ASC")
