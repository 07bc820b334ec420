"""Expressions as Spark SQL text give what the interpreter gives, value and MISSING alike."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

import tests.window_by.interpreter.interpret_query  # noqa: F401
from belvedere.errors import BelvedereError
from belvedere.sqlpp.expression_types import VariableScope
from belvedere.sqlpp.parser import parse_window_query
from belvedere.sqlpp.query_tree import Expr
from belvedere.sqlpp.query_types import Typing
from belvedere.sqlpp.spark_text.native import translate
from belvedere.sqlpp.spark_text.sql_values import SqlValue, Untranslatable, merge
from tests.window_by.interpreter.interpret import compile_expression
from tests.window_by.interpreter.layout import conform
from tests.window_by.interpreter.values import MISSING
from tests.window_by.random_expressions import Expressions, rows, variables

SEEDS = [pytest.param(0), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 21))]


def parsed(text: str) -> Expr:
    return parse_window_query(f"FROM [1] AS zz LET yy = {text} SELECT VALUE yy").blocks[0].lets[0].value


def well_typed(node: Expr) -> bool:
    typing = Typing()
    found = typing.of(node, VariableScope({n: v.type for n, v in variables().items()}))
    return found is not None and not any(d.severity == "error" for d in typing.diagnostics)


def same(found: Any, requested: Any) -> bool:
    if isinstance(found, dict) and isinstance(requested, dict):
        return found.keys() == requested.keys() and all(same(found[k], requested[k]) for k in requested)
    if isinstance(found, list) and isinstance(requested, list):
        return len(found) == len(requested) and all(map(same, found, requested))
    if isinstance(found, float) and isinstance(requested, float):
        return (
            (math.isnan(found) and math.isnan(requested))
            or found == requested
            or math.isclose(found, requested, rel_tol=1e-9, abs_tol=1e-12)
        )
    return (
        bool(found == requested)
        and (found is None) == (requested is None)
        and isinstance(found, bool) == isinstance(requested, bool)
    )


def expressions(random: Random, number: int) -> list[tuple[str, Expr]]:
    found: list[tuple[str, Expr]] = []
    while len(found) < number:
        text = Expressions(random).any(random.randint(1, 4))
        if len(text) > 250:
            continue
        try:
            node = parsed(text)
        except BelvedereError:  # IN takes no path behind an array
            continue
        if well_typed(node):
            found.append((text, node))
    return found


def wanted_of(node: Expr, environments: list[dict[str, Any]], type_: pa.DataType) -> list[Any] | None:
    """None where a number leaves its range."""
    evaluate = compile_expression(node)
    try:
        found = [evaluate(e) for e in environments]
        return [(conform(v, type_), v is MISSING) for v in found]
    except (OverflowError, ValueError):
        return None


@pytest.mark.spark
@pytest.mark.parametrize("seed", SEEDS)
def test_as_the_interpreter(spark: Any, seed: int) -> None:
    random = Random(seed)
    table, environments = rows(random, 40)
    frame = spark.createDataFrame(table).cache()
    cases: list[tuple[str, SqlValue, list[Any]]] = []
    for text, node in expressions(random, 60):
        try:
            value = merge(translate(node, variables()))
        except Untranslatable as reason:
            raise AssertionError(f"{text}: {reason}") from reason
        requested = wanted_of(node, environments, value.type)
        if requested is not None:
            cases.append((text, value, requested))
    texts = [t for _, v, _ in cases for t in (v.sql, v.missing or "FALSE")]
    found = frame.selectExpr(*(f"{t} AS c{n}" for n, t in enumerate(texts))).toArrow().to_pylist()
    wrong = []
    for number, (text, value, requested) in enumerate(cases):
        for n, (row, (expected, missing)) in enumerate(zip(found, requested, strict=True)):
            got, flag = row[f"c{2 * number}"], row[f"c{2 * number + 1}"]
            if not same(got, expected) or flag is not missing:
                wrong.append((text, value.sql, environments[n], got, flag, expected, missing))
                break
    assert wrong == []


def test_the_text_is_what_sqlglot_prints() -> None:
    random = Random(7)
    for _, node in expressions(random, 100):
        value = merge(translate(node, variables()))
        for text in (value.sql, value.missing or "TRUE"):
            printed = sqlglot.parse_one(text, read="spark").sql("spark")
            assert sqlglot.parse_one(printed, read="spark").sql("spark") == printed
