"""Checks the queries of every stage with Spark's own analyzer, before any row is computed.

In: a catalog and its pipeline. Out: a diagnostic for each view that Spark rejects, at the rejected expression. Queries
are analysed over relations without rows: no job is started, nothing is read and nothing is stored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation
from belvedere.engine.sql.plan_sql import CLOCK_COLUMN, SPARK_SQL, print_expression, render
from belvedere.engine.sql.row_identity import identity_columns
from belvedere.engine.stage import Stage
from belvedere.errors import Diagnostic, Span
from belvedere.functions.spark_types import quote
from belvedere.plan.operators.nodes import (
    Expr,
    Node,
    Scan,
    Values,
)
from belvedere.schema import Column
from belvedere.spark.project_functions import register_functions
from belvedere.spark.spark_failures import CONDITION

THREADS = 4


def analyze(
    spark: SparkSession, catalog: Catalog, pipeline: Pipeline, fresh: Collection[str] | None = None
) -> list[Diagnostic]:
    """Return Spark's errors for the stages' queries, one per view; only for the stages of the `fresh` relations, if
    given.
    """
    stages = [s for s in pipeline.stages if (fresh is None or s.output in fresh) and not isinstance(s.plan, Scan)]
    register_functions(spark, catalog.functions)
    asking = _Asking(spark)

    def ask(stage: Stage) -> Diagnostic | None:
        return asking.about(stage, pipeline.relations[stage.output], _span_of(stage.owner, catalog))

    try:
        with ThreadPoolExecutor(THREADS) as threads:
            refusals = list(threads.map(ask, stages))
    finally:
        asking.end()
    found: dict[str, Diagnostic] = {}
    for stage, refusal in zip(stages, refusals, strict=True):
        if refusal is not None:
            found.setdefault(stage.owner, _named(refusal, stage.owner, catalog))
    return list(found.values())


def _span_of(owner: str, catalog: Catalog) -> Span | None:
    view = catalog.views.get(owner)
    return view.span if view is not None else None


def _named(refusal: Diagnostic, owner: str, catalog: Catalog) -> Diagnostic:
    kind, name = ("view", catalog.name_of(owner)) if owner in catalog.views else ("input", owner)
    return replace(refusal, message=f'{refusal.message} in {kind} "{name}"')


class _Asking:
    """Requests to one session's analyzer."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._clock = f"belvedere_analysis_clock_{os.getpid()}"
        spark.sql(f"SELECT timestamp_micros(0L) AS `{CLOCK_COLUMN}`").createOrReplaceTempView(self._clock)

    def end(self) -> None:
        self._spark.catalog.dropTempView(self._clock)

    def about(self, stage: Stage, output: Relation, span: Span | None) -> Diagnostic | None:
        """Return the error of a stage: the operator and the expression at fault, or its keys."""
        parts = list(_queries(stage.plan))
        columns = ", ".join(quote(c.name) for c in output.schema)
        made = parts[0].schema.names == output.schema.names
        first = self._text(parts[0] if made else _empty(output.schema.columns))
        keyed = f"SELECT {columns}, {identity_columns(output)} FROM ({first}) AS o" if columns else first
        queries = [keyed, *map(self._text, parts[made:])]
        refused = next(filter(None, map(self._refusal, queries)), None)
        if refused is None:
            return None
        for part in parts:
            for node in reversed(list(part.walk())):
                alone = node.with_inputs(tuple(_empty(i.schema.columns) for i in node.inputs))
                found = self._refusal(self._text(alone))
                if found is not None:
                    return _diagnostic(found, self._place(alone, span))
        return _diagnostic(refused, span)

    def _text(self, plan: Node) -> str:
        return render(plan, str, self._clock)

    def _refusal(self, sql: str) -> tuple[str, str] | None:
        """Return the name and the text of the analyzer's error for a query, or None."""
        try:
            self._spark.sql(sql)
        except PySparkException as error:
            text = str(error)
            found = CONDITION.search(text)
            if found is None:
                return type(error).__name__, " ".join(text.split())
            return found.group().partition("]")[0].lstrip("["), " ".join(found.group(2).split())
        return None

    def _place(self, node: Node, span: Span | None) -> Span | None:
        """Return the place of the smallest expression of an operator that is rejected by itself, within the view's own
        statement."""
        for expr in node.expressions:
            found = self._least(expr, node)
            if found is not None and span is not None:
                return _within(found, span)
        return span

    def _least(self, expr: Expr, node: Node) -> Expr | None:
        refused = self._refusal(self._alone(expr, node))
        if refused is None:
            return None
        for part in reversed(list(expr.bfs())):  # the deepest first
            if isinstance(part, exp.Condition) and self._same(refused, self._refusal(self._alone(part, node))):
                return part
        return expr

    @staticmethod
    def _same(one: tuple[str, str], other: tuple[str, str] | None) -> bool:
        return other is not None and one[0] == other[0]

    def _alone(self, expr: Expr, node: Node) -> str:
        """Return a query of one expression over the inputs of its operator."""
        sources = [f"({self._text(i)}) AS i{n}" for n, i in enumerate(node.inputs)]
        return f"SELECT {print_expression(expr)} AS v FROM {' CROSS JOIN '.join([*sources, quote(self._clock)])}"


def _queries(plan: Node) -> Iterator[Node]:
    """Yield the parts of a plan that are Spark SQL, over relations without rows."""
    waiting: list[Node] = []

    def cut(node: Node) -> Node:
        if isinstance(node, Scan):
            return _empty(node.schema.columns)
        if type(node) not in SPARK_SQL:
            waiting.extend((*node.inputs, *(plan for _, plan in node.inner_plans)))
            return _empty(node.schema.columns)
        return node.with_inputs(tuple(map(cut, node.inputs)))

    yield cut(plan)
    while waiting:
        yield cut(waiting.pop())


def _empty(columns: tuple[Column, ...]) -> Values:
    return Values(columns, ())


def _within(expr: Expr, span: Span) -> Span:
    """Return the position of an expression; the view's statement for expressions of rewrites, and for expressions of
    other statements.
    """
    found: Expr | None = expr
    while found is not None and "start" not in found.meta:
        found = found.parent
    if found is None:
        return span
    start, end = found.meta["start"], found.meta["end"]
    return Span(span.file, start, end) if start < end else span


def _diagnostic(refused: tuple[str, str], span: Span | None) -> Diagnostic:
    condition, words = refused
    short = condition.lower().replace("_", " ").replace(".", ": ")
    hint = "write it with other functions, or CAST to the types that it takes"
    return Diagnostic("B3070", f"Spark refuses this ({short})", span=span, detail=words, hint=hint)
