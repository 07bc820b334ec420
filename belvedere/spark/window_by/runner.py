"""Queries and blocks of SQL++ as Spark DataFrames.

In: a `Query` and tables. Out: its `Result`. Nothing runs before the DataFrame is used, except where a table stands in a subquery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import functions as F
from sqlglot import exp

from belvedere.errors import fail
from belvedere.functions.window_by import unify
from belvedere.lang.window_by.chain import queries_of
from belvedere.lang.window_by.tree import Block, FromTerm, Let, OrderKey, Query, QueryExpression, SourceKind
from belvedere.spark.window_by.grouped import grouped
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.layout import columns_of, layout_of
from belvedere.spark.window_by.native import boolean
from belvedere.spark.window_by.order_columns import with_order_columns, without_order_columns
from belvedere.spark.window_by.relation import (
    Bindings,
    Result,
    fresh,
    pin,
    sort_columns,
    sort_texts,
)
from belvedere.spark.window_by.sql_values import Object, SqlValue, Untranslatable, Value, converted, merge, name, with_missing
from belvedere.spark.window_by.tuples import TablesInScope, Tuples
from belvedere.spark.window_by.windowed import windowed


class QueryRunner(Tuples):
    """One run of one query."""

    def run(self, query: Query) -> Result:
        """The relation of a whole query."""
        self.limits = any(q.limit is not None or q.offset is not None for q in queries_of(query))
        return self.query(query, TablesInScope({}, {}))

    # -- queries --

    def query(self, query: Query, names: TablesInScope) -> Result:
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

    def bound(self, lets: Sequence[Let], names: TablesInScope) -> TablesInScope:
        for let in lets:
            if isinstance(let.value, QueryExpression):
                names = TablesInScope({**names.tables, let.name.text: self.query(let.value.query, names)}, names.constants)
            else:
                constant = compile_expression(let.value)(self.constants([let.value], names))
                names = TablesInScope(names.tables, {**names.constants, let.name.text: constant})
        return names

    def union(self, results: Sequence[Result]) -> Result:
        """UNION ALL: fields of the unified type, by name."""
        type_ = unify([r.value.type for r in results])
        assert type_ is not None
        texts: list[list[str]] = []
        value = aligned([r.value for r in results], type_, texts)
        parts = [
            r.frame.select(*(F.expr(own[n]).alias(f"_u{k}") for k, own in enumerate(texts))) for n, r in enumerate(results)
        ]
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        return self.renamed(Result(frame, value))

    def ordered(self, keys: Sequence[OrderKey], result: Result, names: TablesInScope) -> Result:
        fields = result.value.fields if isinstance(result.value, Object) else {}
        scope, values = self.values(Bindings(result.frame, dict(fields)), [k.expr for k in keys], names)
        frame, pinned = pin(scope.frame, values)
        texts = [t for key, value in zip(keys, pinned, strict=True) for t in sort_texts(key, merge(value))]
        return Result(frame, result.value, tuple(texts), identity=result.identity)

    def limited(self, query: Query, result: Result) -> Result:
        frame = result.frame.orderBy(*sort_columns(result.order)) if result.order and not result.sorted else result.frame
        if query.offset is not None:
            frame = frame.offset(int(compile_expression(query.offset)({})))
        if query.limit is not None:
            frame = frame.limit(int(compile_expression(query.limit)({})))
        return replace(result, frame=frame)

    # -- blocks --

    def block(self, block: Block, names: TablesInScope) -> Result:
        """A block's results."""
        bindings = self.sources(block.sources, names)
        bindings = self.lets(bindings, block.lets, names)
        if block.where is not None:
            bindings = self.filtered(bindings, block.where, names)
        if block.group is not None:
            bindings, block = grouped(self, bindings, block, names)
            bindings = self.lets(bindings, block.group_lets, names)
            if block.having is not None:
                bindings = self.filtered(bindings, block.having, names)
        if block.window is not None:
            own = {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
            result = windowed(self, replace(bindings, variables=own), block, names)
        else:
            result = self.selected(bindings, block.select, names)
        if not block.select.distinct:
            return result
        frame, (value,) = pin(result.frame, [result.value])
        return Result(frame.select(*dict.fromkeys(columns_of(layout_of(value)))).distinct(), value)

    def sources(self, sources: Sequence[FromTerm], names: TablesInScope) -> Bindings:
        if not sources:
            return Bindings(self.spark.range(1).select(F.lit(1).alias(fresh())), {})
        bindings: Bindings | None = None
        for source in sources:
            bindings = self.source(bindings, source, names)
        assert bindings is not None
        return bindings

    def source(self, left: Bindings | None, source: FromTerm, names: TablesInScope) -> Bindings:
        expr = source.expr
        own = left.variables if left is not None else {}
        relation: Result | None = None
        if isinstance(expr, QueryExpression):
            relation = self.query(expr.query, names)
        elif isinstance(expr, exp.Column) and expr.name not in own:
            relation = self.table(expr.name, names)
        if relation is None:
            return self.unnested(left or self.sources((), names), source, names)
        return self.joined(left, source, relation, names)

    def joined(self, left: Bindings | None, source: FromTerm, right: Result, names: TablesInScope) -> Bindings:
        variable = source.variable.text
        if left is None:
            return Bindings(right.frame, {variable: right.value}, right.order, right.sorted, right.identity)
        if source.kind == SourceKind.CROSS:
            return Bindings(left.frame.crossJoin(right.frame), {**left.variables, variable: right.value})
        assert source.condition is not None
        try:
            condition = boolean(source.condition, {**left.variables, variable: right.value}).sql
        except Untranslatable as reason:
            if source.kind == SourceKind.INNER:
                pairs = Bindings(left.frame.crossJoin(right.frame), {**left.variables, variable: right.value})
                return self.filtered(pairs, source.condition, names)
            hint = "write an inner join, or give both sides a column to compare"
            raise fail(
                "B3623", f"the join's condition uses {reason}", span=source.condition.meta.get("span"), hint=hint
            ) from None
        if source.kind == SourceKind.INNER:
            return Bindings(left.frame.join(right.frame, F.expr(condition)), {**left.variables, variable: right.value})
        there = fresh("there")
        frame = left.frame.join(right.frame.withColumn(there, F.lit(True)), F.expr(condition), "left")
        return Bindings(frame, {**left.variables, variable: with_missing(right.value, f"({name(there)} IS NULL)")})

    def unnested(self, left: Bindings, source: FromTerm, names: TablesInScope) -> Bindings:
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
        variables: dict[str, Value] = {**left.variables, source.variable.text: SqlValue(name(column), element, missing)}
        if source.position is not None:
            variables[source.position.text] = SqlValue(f"CAST({name(place)} + 1 AS BIGINT)", pa.int64(), missing)
        result = Bindings(frame, variables, identity=left.identity)
        if source.condition is not None:
            result = self.filtered(result, source.condition, names)
        return result


def aligned(values: Sequence[Value], type_: pa.DataType, texts: list[list[str]]) -> Value:
    """One value for those of several relations; `texts` gets a text for each relation and column, in the order of the columns `_u<n>`."""

    def column(own: list[str]) -> str:
        texts.append(own)
        return f"`_u{len(texts) - 1}`"

    missing = None if all(v.missing is None for v in values) else column([v.missing or "FALSE" for v in values])
    objects = [v for v in values if isinstance(v, Object)]
    if len(objects) == len(values):
        return Object({f.name: aligned([o.fields[f.name] for o in objects], f.type, texts) for f in type_}, missing)
    if pa.types.is_null(type_):
        return SqlValue(column(["CAST(NULL AS STRING)"] * len(values)), type_, missing)
    return SqlValue(column([converted(merge(v), type_) for v in values]), type_, missing)
