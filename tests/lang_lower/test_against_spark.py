"""Lowered plans give Spark's own answers and types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from belvedere.compiler import compile_script
from belvedere.functions.function_table import ARITY
from belvedere.functions.spark_types import type_text
from belvedere.schema import Schema
from tests import depth
from tests.spark_answers import TOGETHER, Answer, answers

from .spark_queries import AGGREGATES, EXPRESSIONS, QUERIES, ROWS, TABLES

pytestmark = pytest.mark.spark


def compiled_schema(query: str) -> tuple[Schema | None, str]:
    result = compile_script(f"{TABLES}\n{query};")  # a template: it may give what no view may keep
    if not result.ok:
        return None, "; ".join(d.message for d in result.diagnostics)
    return result.catalog.templates["query1"].schema, ""


def spark_types(spark: Any, query: str) -> list[pa.DataType]:
    from pyspark.sql.pandas.types import to_arrow_type

    def arrow(type_: Any) -> pa.DataType:
        name = type_.typeName()
        if name.startswith("interval") and ("year" in name or "month" in name):
            return pa.month_day_nano_interval()
        return to_arrow_type(type_, timezone="UTC")

    return [arrow(f.dataType) for f in spark.sql(query).schema]


def plain(type_: pa.DataType) -> str:
    return type_text(type_).casefold()


@pytest.fixture(scope="module")
def tables(spark: Any) -> Any:
    from belvedere.functions.spark_types import type_text

    catalog = compile_script(TABLES).catalog
    for name, rows in ROWS.items():
        schema = catalog.inputs[name].schema
        visible = [c for c in schema if not c.name.startswith("_")]
        casts = ", ".join(f"CAST(col{n + 1} AS {type_text(c.type)}) AS `{c.name}`" for n, c in enumerate(visible))
        spark.sql(f"SELECT {casts} FROM {rows}").createOrReplaceTempView(name)
        spark.sql(
            f"SELECT *, row_number() OVER (ORDER BY {visible[0].name}) AS _uid, current_timestamp() AS _ingest_time "
            f"FROM {name}"
        ).createOrReplaceTempView(f"{name}_kept")
    spark.sql("SELECT current_timestamp() AS _now").createOrReplaceTempView("clock")
    return spark


@pytest.mark.parametrize("expressions", [EXPRESSIONS, AGGREGATES], ids=["expressions", "aggregates"])
def test_types(tables: Any, expressions: list[str]) -> None:
    """All in one query; where that fails, or some type differs, one by one, which says which."""
    from pyspark.errors import PySparkException

    query = "SELECT {} FROM a CROSS JOIN (SELECT y, e, day FROM b) CROSS JOIN c"
    together = query.format(", ".join(f"{e} AS v{n}" for n, e in enumerate(expressions)))
    try:
        schema, _ = compiled_schema(together)
        types = list(map(plain, spark_types(tables, together)))
    except (PySparkException, ValueError, KeyError, TypeError):
        schema, types = None, []
    wrong: list[str] = []
    if schema is None or [plain(schema[f"v{n}"].type) for n in range(len(expressions))] != types:
        for expression in expressions:
            check_type(tables, expression, query.format(f"{expression} AS v"), wrong)
    assert not wrong, "\n".join(wrong)


def check_type(spark: Any, expression: str, query: str, wrong: list[str]) -> None:
    from pyspark.errors import PySparkException

    try:
        schema, problem = compiled_schema(query)
        expected = plain(spark_types(spark, query)[0])
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        wrong.append(f"{expression}: {str(error).splitlines()[0]}")
        return
    if schema is None:
        wrong.append(f"{expression}: {problem} (Spark: {expected})")
    elif plain(schema["v"].type) != expected:
        wrong.append(f"{expression}: {plain(schema['v'].type)}, Spark says {expected}")


@dataclass(frozen=True)
class Compared:
    """A query as Spark answers it, and its plan: `mine` has the visible columns and, behind them, those of the key."""

    names: list[str]
    mine: Answer | Exception
    theirs: Answer | Exception


@pytest.fixture(scope="module")
def compared(tables: Any) -> Callable[[str], Compared | list[str]]:
    """The answers to a query; those of its neighbours are asked for in the same jobs. Or what is wrong with it."""
    found: dict[str, Compared | list[str]] = {}

    def ask(query: str) -> Compared | list[str]:
        if query not in found:
            first = QUERIES.index(query) // TOGETHER * TOGETHER
            found.update(compare(tables, QUERIES[first : first + TOGETHER]))
        return found[query]

    return ask


def compare(spark: Any, queries: list[str]) -> dict[str, Compared | list[str]]:
    from belvedere.engine.sql.plan_sql import render

    found: dict[str, Compared | list[str]] = {}
    names, texts = {}, {}
    for query in queries:
        result = compile_script(f"{TABLES}\nv := {query};")
        if not result.ok:
            found[query] = [f"{d.code} {d.message}" for d in result.diagnostics]
            continue
        view = result.catalog.views["v"]
        assert view.schema.key is not None
        names[query] = [c.name for c in view.schema.visible]
        columns = ", ".join(f"`{c}`" for c in (*names[query], *view.schema.key))
        texts[query] = f"SELECT {columns} FROM ({render(view.plan, lambda relation: f'{relation}_kept')})"
    mine, theirs = answers(spark, texts), answers(spark, {q: q for q in texts})
    return found | {query: Compared(names[query], mine[query], theirs[query]) for query in texts}


@pytest.mark.parametrize("query", QUERIES)
def test_plan_answers_like_spark(compared: Callable[[str], Compared | list[str]], query: str) -> None:
    found = compared(query)
    assert isinstance(found, Compared), found
    names, mine, theirs = found.names, found.mine, found.theirs
    assert isinstance(mine, Answer), mine
    assert isinstance(theirs, Answer), theirs
    assert names == theirs.names
    assert mine.bag(len(names)) == theirs.bag()
    keys = [row[len(names) :] for row in mine.rows]
    assert len(set(keys)) == len(keys), "the key is not unique"


VALUES = (
    "CAST(1 AS INT)",
    "'1'",
    "true",
    "date'2020-01-01'",
    "timestamp'2020-01-01'",
    "array(1)",
    "map('a', 1)",
    "X'00'",
)


@pytest.mark.deep
def test_spark_refuses_what_is_refused_for_its_arguments(spark: Any) -> None:
    """One argument of each type for functions that take one, and too few or many arguments."""
    names = [n for n in sorted(ARITY)[:: 12 if depth.quick else 4] if n not in OURS]
    calls = [
        f"{n}({', '.join(['NULL'] * k)})" for n in names for k in (ARITY[n][0] - 1, ARITY[n][1] + 1) if 0 <= k < 20
    ]
    calls += [f"{n}({v})" for n in ONE_ARGUMENT for v in VALUES][:: 3 if depth.quick else 1]
    answered = []
    for call in calls:
        if compile_script(f"CREATE TABLE T (k INT PRIMARY KEY); SELECT {call} AS x FROM T;").ok:
            continue
        try:
            spark.sql(f"SELECT {call}").schema  # noqa: B018
        except AnalysisException:
            continue
        answered.append(call)
    assert answered == []


OURS = (
    "hour minute second percentile now localtimestamp any hash date_trunc from_json rank dense_rank percent_rank"
).split()
ONE_ARGUMENT = (
    "abs sqrt median stddev bin upper trim hex length last_day weekday array_max bit_or timestamp_millis bool_and md5 "
    "crc32 soundex unix_micros max hash dayname isnan url_decode".split()
)
