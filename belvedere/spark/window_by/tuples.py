"""Binding tuples: expressions over them, and what one tuple after the other goes through.

In: `Bindings` and expressions. Out: `Bindings` and `Result`. What Spark SQL can say is said in Spark SQL (`native`); the rest becomes
columns that the interpreter fills in Python workers. Tables in subqueries are collected (at most `COLLECT_LIMIT` rows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from belvedere.errors import fail
from belvedere.functions.window_by import Type
from belvedere.lang.window_by.check import row_type
from belvedere.lang.window_by.expressions import VariableScope
from belvedere.lang.window_by.names import free_in
from belvedere.lang.window_by.tree import Block, Expr, Let, Select
from belvedere.lang.window_by.types import Typing
from belvedere.spark.window_by.layout import columns_of, layout_of, leaf_value, read_values
from belvedere.spark.window_by.native import translate
from belvedere.spark.window_by.relation import (
    Bindings,
    Result,
    Table,
    arrow_schema,
    fresh,
    load,
    pin,
)
from belvedere.spark.window_by.sql_values import Object, SqlValue, Untranslatable, Value, merge, name
from belvedere.spark.window_by.worker_python import in_python
from belvedere.spark.window_by.workers import (
    Computed,
    computed_fields,
    computing,
)

COLLECT_LIMIT = 1_000_000


class TablesInScope:
    """The tables and constants in scope."""

    def __init__(self, tables: Mapping[str, Result], constants: Mapping[str, Any]):
        self.tables, self.constants = tables, constants


class Spread(Enum):
    """How the partitions are spread over tasks."""

    ORDERED = "in the order of their keys, as the result shall come"
    HASHED = "by hash: the order of the result does not matter"
    SINGLE = "in one task: there are few rows"


class Tuples:
    """The tables of one run of a query, and the steps over binding tuples."""

    def __init__(
        self,
        spark: SparkSession,
        known: Mapping[str, Table],
        spread: Spread = Spread.ORDERED,
        like: Block | None = None,
    ):
        """`like`: rows that tie in ORDER BY are put in the order that they have in this block, over the same rows with the same clause."""
        self.like = like
        self.spark, self.known, self.spread = spark, known, spread
        self.limits = False  # whether some LIMIT needs the order of rule 10 as columns

    # -- names --

    def table(self, wanted: str, names: TablesInScope) -> Result | None:
        """The relation of a name in FROM; a fresh one each time."""
        for known in (wanted, *(t for t in (*names.tables, *self.known) if t.casefold() == wanted.casefold())):
            if known in names.tables:
                return self.renamed(names.tables[known])
            if known in self.known:
                return load(self.known[known])
        return None

    def renamed(self, result: Result) -> Result:
        """The same relation under fresh names, for a second use."""
        texts: dict[str, str] = {}

        def walk(value: Value) -> Value:
            missing = None if value.missing is None else texts.setdefault(value.missing, name(fresh()))
            if isinstance(value, Object):
                return Object({n: walk(f) for n, f in value.fields.items()}, missing)
            return SqlValue(texts.setdefault(value.sql, name(fresh())), value.type, missing)

        value = walk(result.value)
        return Result(result.frame.selectExpr(*(f"{text} AS {column}" for text, column in texts.items())), value)

    def scope(self, variables: Mapping[str, Value], names: TablesInScope) -> VariableScope:
        """The static scope of an expression here."""
        tables: dict[str, Type] = {n: row_type(t.schema) for n, t in self.known.items()}
        tables |= {n: r.value.type for n, r in names.tables.items()}
        return VariableScope({n: v.type for n, v in variables.items()}, tables)

    # -- expressions --

    def values(self, bindings: Bindings, exprs: Sequence[Expr], names: TablesInScope) -> tuple[Bindings, list[Value]]:
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

    def interpreted(self, bindings: Bindings, exprs: Sequence[Expr], names: TablesInScope) -> tuple[Bindings, list[Value]]:
        """The expressions as columns filled by the interpreter."""
        scope = self.scope(bindings.variables, names)
        columns = [Computed(e, Typing().of(e, scope) or pa.null(), fresh("p"), fresh("m")) for e in exprs]
        used = sorted({n for e in exprs for n in free_in(e)} & set(bindings.variables))
        frame, pinned = pin(bindings.frame, [bindings.variables[n] for n in used])
        variables = {**bindings.variables, **dict(zip(used, pinned, strict=True))}
        layouts = {n: layout_of(variables[n]) for n in used}
        schema = arrow_schema(frame)
        whole = pa.schema([*schema, *computed_fields(columns)])
        function = computing(columns, layouts, self.constants(exprs, names))
        frame = in_python(frame, function, whole)
        values: list[Value] = [leaf_value(c.column, c.type, c.missing) for c in columns]
        return replace(bindings, frame=frame, variables=variables), values

    def constants(self, exprs: Sequence[Expr], names: TablesInScope) -> dict[str, Any]:
        """The values of the tables that stand in subqueries of the expressions."""
        found = dict(names.constants)
        for wanted in {n for e in exprs for n in free_in(e)}:
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

    # -- steps --

    def filtered(self, bindings: Bindings, condition: Expr, names: TablesInScope) -> Bindings:
        """The tuples for which the condition is TRUE."""
        bindings, (value,) = self.values(bindings, [condition], names)
        text = merge(value).sql if pa.types.is_boolean(value.type) else "FALSE"
        return replace(bindings, frame=bindings.frame.filter(text))

    def lets(self, bindings: Bindings, lets: Sequence[Let], names: TablesInScope) -> Bindings:
        for let in lets:
            bindings, (value,) = self.values(bindings, [let.value], names)
            frame, (pinned,) = pin(bindings.frame, [value])
            bindings = replace(bindings, frame=frame, variables={**bindings.variables, let.name.text: pinned})
        return bindings

    def selected(self, bindings: Bindings, select: Select, names: TablesInScope) -> Result:
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
                fields |= {f.name: SqlValue(f"{value.sql}.{name(f.name)}", f.type, value.missing) for f in value.type}
        return self.result(bindings, Object(fields))

    def result(self, bindings: Bindings, value: Value) -> Result:
        frame, (pinned,) = pin(bindings.frame, [value])
        return Result(frame, pinned, bindings.order, bindings.sorted, bindings.identity)
