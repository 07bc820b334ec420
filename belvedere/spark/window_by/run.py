"""Run a SQL++ query with WINDOW BY on Spark.

In: text, tables as DataFrames. Out: a DataFrame whose rows come in the order of rule 10. What Spark SQL can say is said in
Spark SQL (`native`), the windows are found by kernels where the boundaries have a known class, and everything else is done
by the interpreter in Python workers. Nothing runs before the DataFrame is used, except where a table stands in a
subquery: it is then collected (at most `COLLECT_LIMIT` rows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from sqlglot import exp

from belvedere.errors import BelvedereError, Severity, fail
from belvedere.lang.window_by import Block, Expr, Let, OrderKey, Query, QueryExpression, Select, Selected, Source, SourceKind
from belvedere.lang.window_by_check import check_query, row_type
from belvedere.lang.window_by_functions import AGGREGATES, Type, canonical, is_number, unify, unify_numbers
from belvedere.lang.window_by_parser import mentions_window_by, parse_window_query
from belvedere.lang.window_by_types import Scope, Typing
from belvedere.spark.window_by.blocks import can_split, windows_by_blocks
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.layout import columns_of, layout_of, leaf_value, read_values
from belvedere.spark.window_by.native import (
    Object,
    Scalar,
    Untranslatable,
    Value,
    boolean,
    converted,
    merge,
    name,
    sql_type,
    translate,
    with_missing,
)
from belvedere.spark.window_by.plan import Planner, WindowPlan, literal_or_none
from belvedere.spark.window_by.relation import (
    Bindings,
    Result,
    fresh,
    load,
    output,
    pin,
    schema_of,
    sort_columns,
    sort_texts,
    spark_schema,
)
from belvedere.spark.window_by.workers import (
    Computed,
    OutputField,
    WindowTask,
    computed_fields,
    computing,
    interpreted_in_batches,
    output_schema,
    windows_in_batches,
    windows_of_partition,
)

COLLECT_LIMIT = 1_000_000
GROUP_FUNCTIONS = {
    "COUNT": "count({0})", "SUM": "sum({0})", "AVG": "avg(CAST({0} AS DOUBLE))", "MIN": "min({0})", "MAX": "max({0})",
    "MEDIAN": "median(CAST({0} AS DOUBLE))", "STDDEV": "stddev_samp({0})", "STDDEV_SAMP": "stddev_samp({0})",
    "STDDEV_POP": "stddev_pop({0})", "VARIANCE": "var_samp({0})", "VAR_SAMP": "var_samp({0})", "VAR_POP": "var_pop({0})",
    "SKEWNESS": "skewness({0})", "KURTOSIS": "kurtosis({0})",
}  # fmt: skip


def sql(spark: SparkSession, text: str, **tables: DataFrame) -> DataFrame:
    """One query of SQL++ with WINDOW BY, or of Spark SQL where there is no WINDOW BY, over DataFrames by name.

    Raises `BelvedereError` with the diagnostics of `check_window_query` where the query is wrong.
    """
    if mentions_window_by(text):
        return run_window_query(spark, text, tables)
    for table, frame in tables.items():
        frame.createOrReplaceTempView(table)
    try:
        return spark.sql(text)
    finally:
        for table in tables:
            spark.catalog.dropTempView(table)


def run_window_query(spark: SparkSession, text: str, tables: Mapping[str, DataFrame], blocks: int | None = None) -> DataFrame:
    """The query's results: the fields of objects as columns, other values as one column `value`.

    With `blocks`, SLIDING windows over one sequence (no PARTITION BY, no LABEL) are found in so many parallel blocks; Spark jobs then run
    while the DataFrame is made.
    """
    query = parse_window_query(text)
    errors = [
        d for d in check_query(query, {n: row_type(schema_of(t)) for n, t in tables.items()}) if d.severity == Severity.ERROR
    ]
    if errors:
        raise BelvedereError(errors)
    return output(Runner(spark, tables, blocks=blocks).run(query))


HIDDEN, HIDDEN_VALUE = "$order", "$value"


class Names:
    """The tables and constants in scope."""

    def __init__(self, tables: Mapping[str, Result], constants: Mapping[str, Any]):
        self.tables, self.constants = tables, constants


class Runner:
    """One run of one query: `tables` are the DataFrames by name."""

    def __init__(self, spark: SparkSession, tables: Mapping[str, DataFrame], kernels: bool = True, blocks: int | None = None):
        """`kernels` False leaves all to the interpreter; `blocks` cuts a sequence without PARTITION BY for parallel work."""
        self.spark, self.frames, self.kernels, self.blocks = spark, tables, kernels, blocks
        self.limits = False  # whether some LIMIT needs the order of rule 10 as columns

    def run(self, query: Query) -> Result:
        """The relation of a whole query."""
        self.limits = has_limit(query)
        return self.query(query, Names({}, {}))

    # -- names --

    def table(self, wanted: str, names: Names) -> Result | None:
        """The relation of a name in FROM; a fresh one each time."""
        for known in (wanted, *(t for t in (*names.tables, *self.frames) if t.casefold() == wanted.casefold())):
            if known in names.tables:
                return self.renamed(names.tables[known])
            if known in self.frames:
                return load(self.frames[known])
        return None

    def renamed(self, result: Result) -> Result:
        """The same relation under fresh names, for a second use."""
        texts: dict[str, str] = {}

        def walk(value: Value) -> Value:
            missing = None if value.missing is None else texts.setdefault(value.missing, name(fresh()))
            if isinstance(value, Object):
                return Object({n: walk(f) for n, f in value.fields.items()}, missing)
            return Scalar(texts.setdefault(value.sql, name(fresh())), value.type, missing)

        value = walk(result.value)
        columns = [F.expr(text).alias(column.strip("`")) for text, column in texts.items()]
        return Result(result.frame.select(*columns), value)

    def scope(self, variables: Mapping[str, Value], names: Names) -> Scope:
        """The static scope of an expression here."""
        tables: dict[str, Type] = {n: row_type(schema_of(t)) for n, t in self.frames.items()}
        tables |= {n: r.value.type for n, r in names.tables.items()}
        return Scope({n: v.type for n, v in variables.items()}, tables)

    # -- expressions --

    def values(self, bindings: Bindings, exprs: Sequence[Expr], names: Names) -> tuple[Bindings, list[Value]]:
        """The values of expressions; those that Spark SQL cannot say become columns that the interpreter fills."""
        found: list[Value | None] = []
        for expr in exprs:
            try:
                found.append(translate(expr, bindings.variables))
            except Untranslatable:
                found.append(None)
        rest = [e for e, v in zip(exprs, found, strict=True) if v is None]
        if not rest:
            return bindings, [v for v in found if v is not None]
        bindings, computed = self.interpreted(bindings, rest, names)
        queue = iter(computed)
        return bindings, [v if v is not None else next(queue) for v in found]

    def interpreted(self, bindings: Bindings, exprs: Sequence[Expr], names: Names) -> tuple[Bindings, list[Value]]:
        """The expressions as columns filled by the interpreter."""
        scope = self.scope(bindings.variables, names)
        columns = [Computed(e, Typing().of(e, scope) or pa.null(), fresh("p"), fresh("m")) for e in exprs]
        used = sorted({n for e in exprs for n in variables_in(e)} & set(bindings.variables))
        frame, pinned = pin(bindings.frame, [bindings.variables[n] for n in used])
        variables = {**bindings.variables, **dict(zip(used, pinned, strict=True))}
        layouts = {n: layout_of(variables[n]) for n in used}
        schema = to_arrow_schema(frame.schema)
        whole = pa.schema([*schema, *computed_fields(columns)])
        function = computing(columns, layouts, self.constants(exprs, names))
        frame = frame.mapInArrow(function, spark_schema(whole))
        values: list[Value] = [leaf_value(c.column, c.type, c.missing) for c in columns]
        return replace(bindings, frame=frame, variables=variables), values

    def constants(self, exprs: Sequence[Expr], names: Names) -> dict[str, Any]:
        """The values of the tables that stand in subqueries of the expressions."""
        found = dict(names.constants)
        for wanted in {n for e in exprs for n in variables_in(e)}:
            if wanted in found:
                continue
            result = self.table(wanted, names)
            if result is not None:
                found[wanted] = self.collected(wanted, result)
        return found

    def collected(self, table: str, result: Result) -> list[Any]:
        """All values of a relation, in Python."""
        frame, (value,) = pin(result.frame, [result.value])
        layout = layout_of(value)
        rows = frame.select(*dict.fromkeys(columns_of(layout))).limit(COLLECT_LIMIT + 1).toArrow()
        if rows.num_rows > COLLECT_LIMIT:
            hint = "join it in FROM instead"
            raise fail("B7620", f'table "{table}" in a subquery has more than {COLLECT_LIMIT} rows', hint=hint)
        return read_values(layout, rows)

    def filtered(self, bindings: Bindings, condition: Expr, names: Names) -> Bindings:
        """The tuples for which the condition is TRUE."""
        bindings, (value,) = self.values(bindings, [condition], names)
        text = merge(value).sql if pa.types.is_boolean(value.type) else "FALSE"
        return replace(bindings, frame=bindings.frame.filter(F.expr(text)))

    # -- queries --

    def query(self, query: Query, names: Names) -> Result:
        """The relation of a query's results."""
        names = self.bound(query.bindings, names)
        query, keys = with_order_columns(query)
        results = [self.block(b, names) for b in query.blocks]
        result = results[0] if len(results) == 1 else self.union(results)
        if query.order:
            result = self.ordered(query.order, result, names)
        if query.limit is not None or query.offset is not None:
            result = self.limited(query, result)
        return without_order_columns(result) if keys else result

    def bound(self, lets: Sequence[Let], names: Names) -> Names:
        for let in lets:
            if isinstance(let.value, QueryExpression):
                names = Names({**names.tables, let.name.text: self.query(let.value.query, names)}, names.constants)
            else:
                constant = compile_expression(let.value)(self.constants([let.value], names))
                names = Names(names.tables, {**names.constants, let.name.text: constant})
        return names

    def union(self, results: Sequence[Result]) -> Result:
        """UNION ALL: fields of the unified type, by name."""
        type_ = unify([r.value.type for r in results])
        assert type_ is not None
        parts = []
        for result in results:
            value = merge(result.value)
            text = converted(Scalar(value.sql, value.type), type_)
            parts.append(result.frame.select(F.expr(text).alias("_u"), F.expr(value.missing or "FALSE").alias("_um")))
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        return self.renamed(Result(frame, Scalar("`_u`", type_, "`_um`")))

    def ordered(self, keys: Sequence[OrderKey], result: Result, names: Names) -> Result:
        fields = result.value.fields if isinstance(result.value, Object) else {}
        scope, values = self.values(Bindings(result.frame, dict(fields)), [k.expr for k in keys], names)
        frame, pinned = pin(scope.frame, values)
        texts = [t for key, value in zip(keys, pinned, strict=True) for t in sort_texts(key, merge(value))]
        return Result(frame, result.value, tuple(texts))

    def limited(self, query: Query, result: Result) -> Result:
        frame = result.frame.orderBy(*sort_columns(result.order)) if result.order and not result.sorted else result.frame
        if query.offset is not None:
            frame = frame.offset(int(compile_expression(query.offset)({})))
        if query.limit is not None:
            frame = frame.limit(int(compile_expression(query.limit)({})))
        return replace(result, frame=frame)

    # -- blocks --

    def block(self, block: Block, names: Names) -> Result:
        """A block's results."""
        bindings = self.sources(block.sources, names)
        bindings = self.lets(bindings, block.lets, names)
        if block.where is not None:
            bindings = self.filtered(bindings, block.where, names)
        if block.group is not None:
            bindings, block = self.grouped(bindings, block, names)
            bindings = self.lets(bindings, block.group_lets, names)
            if block.having is not None:
                bindings = self.filtered(bindings, block.having, names)
        if block.window is not None:
            own = {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
            result = self.windowed(replace(bindings, variables=own), block, names)
        else:
            result = self.selected(bindings, block.select, names)
        if not block.select.distinct:
            return result
        frame, (value,) = pin(result.frame, [result.value])
        return Result(frame.select(*dict.fromkeys(columns_of(layout_of(value)))).distinct(), value)

    def sources(self, sources: Sequence[Source], names: Names) -> Bindings:
        if not sources:
            return Bindings(self.spark.range(1).select(F.lit(1).alias(fresh())), {})
        bindings: Bindings | None = None
        for source in sources:
            bindings = self.source(bindings, source, names)
        assert bindings is not None
        return bindings

    def source(self, left: Bindings | None, source: Source, names: Names) -> Bindings:
        expr = source.expr
        own = left.variables if left is not None else {}
        relation: Result | None = None
        if isinstance(expr, QueryExpression):
            if variables_in(expr) & set(own):
                hint = "take the correlation out: join the tables, or use the subquery in LET"
                raise fail("B3621", "a subquery in FROM uses variables of the same FROM", span=expr.meta.get("span"), hint=hint)
            relation = self.query(expr.query, names)
        elif isinstance(expr, exp.Column) and expr.name not in own:
            relation = self.table(expr.name, names)
        if relation is None:
            return self.unnested(left or self.sources((), names), source, names)
        if source.position is not None:
            raise fail("B3622", "AT needs an array: the rows of a table have no position", span=source.position.span)
        return self.joined(left, source, relation, names)

    def joined(self, left: Bindings | None, source: Source, right: Result, names: Names) -> Bindings:
        variable = source.variable.text
        if left is None:
            return Bindings(right.frame, {variable: right.value}, right.order, right.sorted)
        if source.kind == SourceKind.CROSS:
            return Bindings(left.frame.crossJoin(right.frame), {**left.variables, variable: right.value})
        assert source.condition is not None
        try:
            condition = boolean(source.condition, {**left.variables, variable: right.value}).sql
        except Untranslatable as reason:
            hint = "move it to WHERE of an inner join"
            raise fail(
                "B3623", f"the join's condition uses {reason}", span=source.condition.meta.get("span"), hint=hint
            ) from None
        if source.kind == SourceKind.INNER:
            return Bindings(left.frame.join(right.frame, F.expr(condition)), {**left.variables, variable: right.value})
        there = fresh("there")
        frame = left.frame.join(right.frame.withColumn(there, F.lit(True)), F.expr(condition), "left")
        return Bindings(frame, {**left.variables, variable: with_missing(right.value, f"({name(there)} IS NULL)")})

    def unnested(self, left: Bindings, source: Source, names: Names) -> Bindings:
        left, (value,) = self.values(left, [source.expr], names)
        array = merge(value)
        outer = source.kind in (SourceKind.LEFT, SourceKind.LEFT_UNNEST)
        text, element = array.sql, array.type
        if pa.types.is_list(array.type):
            element = array.type.value_type
        elif pa.types.is_null(array.type):
            return replace(left, frame=left.frame.filter("FALSE"), variables={**left.variables, source.variable.text: array})
        else:
            text = f"array({text})"
        place, column = fresh("at"), fresh("e")
        explode = "posexplode_outer" if outer else "posexplode"
        frame = left.frame.select("*", F.expr(f"{explode}({text})").alias(place, column))
        missing = f"({name(place)} IS NULL)" if outer else None
        variables: dict[str, Value] = {**left.variables, source.variable.text: Scalar(name(column), element, missing)}
        if source.position is not None:
            variables[source.position.text] = Scalar(f"CAST({name(place)} + 1 AS BIGINT)", pa.int64(), missing)
        result = Bindings(frame, variables)
        if source.condition is not None:
            result = self.filtered(result, source.condition, names)
        return result

    def lets(self, bindings: Bindings, lets: Sequence[Let], names: Names) -> Bindings:
        for let in lets:
            bindings, (value,) = self.values(bindings, [let.value], names)
            frame, (pinned,) = pin(bindings.frame, [value])
            bindings = replace(bindings, frame=frame, variables={**bindings.variables, let.name.text: pinned})
        return bindings

    def grouped(self, bindings: Bindings, block: Block, names: Names) -> tuple[Bindings, Block]:
        """GROUP BY in Spark; aggregates in the rest of the block become variables `$n`."""
        assert block.group is not None
        bindings, values = self.values(bindings, [k.value for k in block.group.keys], names)
        frame, keys = pin(bindings.frame, values)
        bindings = replace(bindings, frame=frame)
        rewriter = _Aggregates(self, bindings, names)
        block = rewriter.rewrite(block)
        bindings = rewriter.bindings
        columns = list(dict.fromkeys(c for k in keys for c in columns_of(layout_of(k))))
        aggregates = list(rewriter.columns)
        variables: dict[str, Value] = {k.name.text: v for k, v in zip(block.group.keys, keys, strict=True)}  # type: ignore[union-attr]
        if block.group is not None and block.group.group is not None:
            own = {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
            whole, column = merge(Object(own)), fresh("g")
            aggregates.append(F.expr(f"collect_list({whole.sql})").alias(column))
            variables[block.group.group.text] = Scalar(name(column), pa.list_(whole.type))
        if not aggregates:
            aggregates.append(F.count(F.lit(1)).alias(fresh()))
        return Bindings(bindings.frame.groupBy(*columns).agg(*aggregates), {**variables, **rewriter.variables}), block

    def selected(self, bindings: Bindings, select: Select, names: Names) -> Result:
        """SELECT over binding tuples."""
        if select.value is not None:
            bindings, (value,) = self.values(bindings, [select.value], names)
            return self.result(bindings, value)
        exprs = [i.expr for i in select.items if i.expr is not None]
        bindings, values = self.values(bindings, exprs, names)
        found = iter(values)
        fields: dict[str, Value] = {}
        for number, item in enumerate(select.items, 1):
            if item.expr is None:
                fields |= {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
                continue
            value = next(found)
            if not item.star:
                fields[item.name or f"${number}"] = value
            elif isinstance(value, Object):
                fields |= value.fields
            else:
                fields |= {f.name: Scalar(f"{value.sql}.{name(f.name)}", f.type, value.missing) for f in value.type}
        return self.result(bindings, Object(fields))

    def result(self, bindings: Bindings, value: Value) -> Result:
        frame, (pinned,) = pin(bindings.frame, [value])
        return Result(frame, pinned, bindings.order, bindings.sorted)

    # -- windows --

    def windowed(self, bindings: Bindings, block: Block, names: Names) -> Result:
        """WINDOW BY and what follows, partition by partition."""
        assert block.window is not None
        bindings, partition = self.values(bindings, list(block.window.partition), names)
        frame, pinned = pin(bindings.frame, [*partition, *bindings.variables.values()])
        keys, variables = pinned[: len(partition)], dict(zip(bindings.variables, pinned[len(partition) :], strict=True))
        bindings = replace(bindings, frame=frame, variables=variables)
        if self.kernels:
            try:
                plan = Planner(block, variables, keys, names.constants).plan()
            except Untranslatable:
                return self.by_interpreter(bindings, keys, block, names)
            return self.by_kernel(bindings, keys, plan, names)
        return self.by_interpreter(bindings, keys, block, names)

    def by_kernel(self, bindings: Bindings, keys: Sequence[Value], plan: WindowPlan, names: Names) -> Result:
        """Boundaries and aggregates by kernels, the rest in Spark SQL over their output."""
        frame = bindings.frame.select(*(F.expr(text).alias(column) for text, column in plan.columns.items()))
        split = self.blocks is not None and can_split(plan.spec)
        ordered = self.limits or split
        spec = plan.spec if ordered else replace(plan.spec, ordered=False)
        schema = output_schema(plan, spec, to_arrow_schema(frame.schema))
        if split:
            found = windows_by_blocks(frame, spec, sort_columns(plan.sort), schema, self.blocks or 1)
        else:
            frame = self.laid_out(frame, spec.keys, sort_columns(plan.sort))
            found = frame.mapInArrow(windows_in_batches(spec, schema), spark_schema(schema))
        order = order_of(keys, plan.spec.position)
        outside = {n: literal_or_none(v) for n, v in names.constants.items()}
        variables = {**{n: v for n, v in outside.items() if v is not None}, **plan.variables}
        result = Bindings(found, variables, order, not ordered)
        result = self.lets(result, plan.block.window_lets, names)
        if plan.block.window_having is not None:
            result = self.filtered(result, plan.block.window_having, names)
        return self.selected(result, plan.block.select, names)

    def by_interpreter(self, bindings: Bindings, keys: Sequence[Value], block: Block, names: Names) -> Result:
        """All windows by the interpreter: one Python call per partition."""
        columns = list(dict.fromkeys(c for k in keys for c in columns_of(layout_of(k))))
        layouts = {n: layout_of(v) for n, v in bindings.variables.items()}
        task = WindowTask(
            block,
            layouts,
            tuple(columns),
            self.output_fields(bindings, block, names),
            fresh("pos"),
            self.window_constants(block, names),
        )
        needed = list(dict.fromkeys([*columns, *(c for layout in layouts.values() for c in columns_of(layout))]))
        frame = bindings.frame.select(*needed)
        rows = to_arrow_schema(frame.schema)
        schema = task.schema(rows)
        order = order_of(keys, task.position)
        if any(pa.types.is_nested(rows.field(c).type) for c in columns):
            result = frame.groupBy(*columns).applyInArrow(lambda table: windows_of_partition(task, table), spark_schema(schema))
            return Result(result, task_value(task), order)
        frame = self.laid_out(frame, columns, [])
        result = frame.mapInArrow(interpreted_in_batches(task, schema), spark_schema(schema))
        return Result(result, task_value(task), order, not self.limits)

    def laid_out(self, frame: DataFrame, keys: Sequence[str], sort: Sequence[Any]) -> DataFrame:
        """The rows partition by partition, each sorted; the partitions in order too, unless a later sort does it."""
        columns = [F.col(k).asc_nulls_first() for k in keys]
        if not keys:
            frame = frame.repartition(1)  # not coalesce: what comes before keeps its parallelism
            return frame.sortWithinPartitions(*sort) if sort else frame
        frame = frame.repartition(*keys) if self.limits else frame.repartitionByRange(*columns)
        return frame.sortWithinPartitions(*columns, *sort)

    def output_fields(self, bindings: Bindings, block: Block, names: Names) -> tuple[OutputField, ...]:
        found = Typing().after_window(block, self.scope({}, names), {n: v.type for n, v in bindings.variables.items()})
        members = block.select.value is None or isinstance(block.select.value, exp.Struct)
        if members and found is not None:
            return tuple(OutputField(f.name, f.type, fresh("o"), fresh("m")) for f in found)
        return (OutputField(None, found or pa.null(), fresh("o"), fresh("m")),)

    def window_constants(self, block: Block, names: Names) -> dict[str, Any]:
        assert block.window is not None
        exprs = [b.when for _, b in block.window.boundaries if b.when is not None]
        exprs += [k.expr for k in block.window.order]
        exprs += [let.value for let in block.window_lets]
        exprs += [block.window_having] if block.window_having is not None else []
        exprs += [block.select.value] if block.select.value is not None else []
        exprs += [s.expr for s in block.select.items if s.expr is not None]
        own = set(block.window.variables) | {block.window.name.text}
        return {n: v for n, v in self.constants(exprs, names).items() if n not in own}


def task_value(task: WindowTask) -> Value:
    """The value of a window task's output columns."""
    leaves = [leaf_value(o.column, o.type, o.missing) for o in task.outputs]
    if task.outputs and task.outputs[0].name is None:
        return leaves[0]
    return Object({str(o.name): leaf for o, leaf in zip(task.outputs, leaves, strict=True)})


def has_limit(query: Query) -> bool:
    """Whether LIMIT or OFFSET stands in the query or in one within its FROM or WITH."""
    nested = [let.value for let in query.bindings] + [x.expr for b in query.blocks for x in b.sources]
    own = query.limit is not None or query.offset is not None
    return own or any(isinstance(e, QueryExpression) and has_limit(e.query) for e in nested)


def order_of(keys: Sequence[Value], position: str) -> tuple[str, ...]:
    """Rule 10: by partition, then by the position of the label or start."""
    return (*(t for k in keys for t in sort_texts(OrderKey(exp.null()), merge(k))), f"{name(position)} ASC")


def with_order_columns(query: Query) -> tuple[Query, bool]:
    """The query with ORDER BY's keys as columns of their own where they are not columns of the result."""
    block = query.blocks[0]
    if not query.order or len(query.blocks) > 1 or block.select.distinct:
        return query, False
    select = block.select
    columns = {s.name for s in select.items if not s.star}
    if select.value is None and all(variables_in(k.expr) <= columns for k in query.order):
        return query, False
    known = {s.name: s.expr for s in select.items if s.name is not None and s.expr is not None}
    items = select.items if select.value is None else (Selected(select.value, HIDDEN_VALUE),)
    added, keys = [], []
    for number, key in enumerate(query.order):
        label = f"{HIDDEN}{number}"
        own = key.expr.transform(lambda n: known[n.name].copy() if isinstance(n, exp.Column) and n.name in known else n)
        added.append(Selected(own, label))
        keys.append(replace(key, expr=exp.Column(this=exp.to_identifier(label))))
    block = replace(block, select=Select(items=(*items, *added)))
    return replace(query, blocks=(block,), order=tuple(keys)), True


def without_order_columns(result: Result) -> Result:
    """The result without the columns that ORDER BY added."""
    assert isinstance(result.value, Object)
    fields = {n: v for n, v in result.value.fields.items() if not n.startswith(HIDDEN)}
    value: Value = fields[HIDDEN_VALUE] if HIDDEN_VALUE in fields else Object(fields)
    return replace(result, value=value)


class _Aggregates:
    """Replaces SUM(x) and the like after GROUP BY by variables, and collects their columns."""

    def __init__(self, runner: Runner, bindings: Bindings, names: Names):
        self.runner, self.bindings, self.names = runner, bindings, names
        self.columns: list[Any] = []
        self.variables: dict[str, Value] = {}

    def rewrite(self, block: Block) -> Block:
        lets = tuple(replace(let, value=self.expression(let.value)) for let in block.group_lets)
        having = None if block.having is None else self.expression(block.having)
        select = block.select
        if block.window is None:
            value = None if select.value is None else self.expression(select.value)
            items = tuple(replace(s, expr=None if s.expr is None else self.expression(s.expr)) for s in select.items)
            select = replace(select, value=value, items=items)
        return replace(block, group_lets=lets, having=having, select=select)

    def expression(self, expr: Expr) -> Expr:
        def change(node: Any) -> Any:
            if isinstance(node, exp.Anonymous) and canonical(node.name) in AGGREGATES:
                return exp.Column(this=exp.to_identifier(self.variable(canonical(node.name), node.expressions[0])))
            return node

        found: Expr = expr.transform(change)
        return found

    def variable(self, function: str, argument: Expr) -> str:
        label, column = f"${len(self.variables)}", fresh("a")
        if isinstance(argument, exp.Star):
            text, type_ = "count(1)", pa.int64()
        else:
            self.bindings, (value,) = self.runner.values(self.bindings, [argument], self.names)
            text, type_ = self.text(function, merge(value))
        self.columns.append(F.expr(text).alias(column))
        self.variables[label] = Scalar(name(column), type_)
        return label

    def text(self, function: str, value: Scalar) -> tuple[str, pa.DataType]:
        if function == "COUNT":
            return f"count({value.sql})", pa.int64()
        if function in ("MIN", "MAX"):
            return GROUP_FUNCTIONS[function].format(value.sql), value.type
        if not is_number(value.type):
            return (
                "CAST(NULL AS DOUBLE)" if function != "SUM" else "CAST(NULL AS BIGINT)",
                pa.float64() if function != "SUM" else pa.int64(),
            )
        if function == "SUM":
            type_ = unify_numbers([value.type])
            return f"CAST(sum({converted(value, type_)}) AS {sql_type(type_)})", type_
        return GROUP_FUNCTIONS[function].format(value.sql), pa.float64()


def variables_in(expr: Expr) -> set[str]:
    """The names that an expression may use, those inside its subqueries too."""
    found = {c.name for c in expr.find_all(exp.Column)}
    for node in expr.find_all(QueryExpression):
        found |= _query_variables(node.query)
    return found


def _query_variables(query: Query) -> set[str]:
    exprs: list[Any] = [let.value for let in query.bindings] + [k.expr for k in query.order] + [query.limit, query.offset]
    for block in query.blocks:
        exprs += [s.expr for s in block.sources] + [s.condition for s in block.sources]
        exprs += [let.value for let in (*block.lets, *block.group_lets, *block.window_lets)]
        exprs += [block.where, block.having, block.window_having, block.select.value]
        exprs += [i.expr for i in block.select.items]
        exprs += [k.value for k in block.group.keys] if block.group is not None else []
        if block.window is not None:
            exprs += [*block.window.partition, *(k.expr for k in block.window.order)]
            exprs += [b.when for _, b in block.window.boundaries]
    return {n for e in exprs if e is not None for n in variables_in(e)}
