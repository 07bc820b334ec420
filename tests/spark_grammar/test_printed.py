"""Queries that Belvedere gives to Spark keep the user's meaning: the same analyzed plan, or the same values.

In: every function of the samples with all its arguments, and random expressions. A comparison only analyzes; values are
asked for, over rows with NULLs, of those whose plans differ in form: a text that is made valid, LIKE ANY as OR, decode
as CASE.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.engine.sql.plan_sql import print_expression
from belvedere.functions.spark_types import type_text
from belvedere.plan.operators.nodes import Project
from tests.depth import at_night
from tests.spark_grammar import samples as given
from tests.spark_grammar.expressions import Expressions
from tests.spark_grammar.rows import Rows, SparkAnswers

SCOPE = tuple(given.TABLES["T"].items())
OTHER = tuple(f"{name}(" for name in "second minute hour day week month quarter year".split())
"""Functions that mean something else on purpose (`extensions.OTHERWISE`)."""


class Right(Expressions):
    """Expressions without mistakes and without subqueries."""

    wrong = 0.0

    def subquery(self, kind: str, scope: Any, depth: int) -> str:
        return self.literal(kind, scope, depth)

    def quantified(self, scope: Any, depth: int) -> str:
        return self.condition(scope, 0)


def calls() -> Iterator[str]:
    """Every function of the samples once."""
    made = Right(Random(1))
    for options in given.FUNCTIONS.values():
        for name, arguments in options:
            if name != "div":
                yield f"{name}({', '.join(made.argument(a, SCOPE, 0) for a in arguments)})"


def randoms(first: int, number: int) -> Iterator[str]:
    for seed in range(first, first + number):
        made = Right(Random(seed))
        kind = made.pick(*given.KINDS)
        text = made.value(kind, SCOPE) if seed % 3 else f"({made.condition(SCOPE)})"
        if made.exact and "(SELECT" not in text:
            yield text


def printed(text: str) -> tuple[str, str] | None:
    """What Spark is given for an expression, and its type; None where it is refused, or is no expression of the row
    alone."""
    compiled = compile_script(f"{given.SCRIPT}SELECT {text} AS v FROM T;")
    if not compiled.ok:
        return None
    plan = compiled.catalog.templates["query1"].plan
    if not isinstance(plan, Project) or any(name.endswith("`") for name in plan.schema.names):
        return None
    item = next(i for i in plan.items if i.name == "v")
    return print_expression(item.expr), type_text(item.type)


@pytest.fixture(scope="module")
def rows_of_t(spark: Any) -> Any:
    """Spark's answers over a few rows."""
    return SparkAnswers(spark, Rows(5, 3).epochs[-1][2])


def _answer(spark: Any, query: str) -> list[str] | Exception:
    """The rows of a query as texts; the error where it fails on them."""
    try:
        return sorted(map(repr, spark.sql(query).collect()))
    except Exception as error:
        return error


def _is_named(theirs: str, ours: str) -> bool:
    """Whether Spark's name of a type means ours; all intervals of days and times are one type here."""
    if (
        ours == "INTERVAL DAY TO SECOND"
        and theirs.startswith("interval")
        and "month" not in theirs
        and "year" not in theirs
    ):
        return True
    return theirs.upper() == ours.upper().replace("`", "").replace(", ", ",").replace(": ", ":")


def differing(answers: Any, texts: Iterator[str]) -> tuple[int, list[str]]:
    """How many expressions were compared; those whose types or values differ."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    spark = answers.spark
    count, wrong = 0, []
    for text in texts:
        ours = printed(text) if not any(name in text.lower() for name in OTHER) else None
        if ours is None:
            continue
        try:
            theirs = spark.sql(f"SELECT {text} AS v FROM T")
        except (PySparkException, Py4JError):
            continue  # extensions have tests of their own
        made = spark.sql(f"SELECT {ours[0]} AS v FROM T")
        count += 1
        types = [f.schema["v"].dataType.simpleString() for f in (theirs, made)]
        if types[0] != types[1] or not _is_named(types[0], ours[1]):
            wrong.append(f"{text}\n  {ours[0]}\n  Spark {types[0]}, printed {types[1]}, told {ours[1]}")
        elif not theirs._jdf.queryExecution().analyzed().sameResult(made._jdf.queryExecution().analyzed()):
            one, other = (_answer(spark, f"SELECT id, {t} AS v FROM T") for t in (text, ours[0]))
            failed = [isinstance(a, Exception) for a in (one, other)]
            if failed[0] != failed[1] or (not failed[0] and one != other):
                wrong.append(f"{text}\n  {ours[0]}\n  {one}\n  {other}")
    return count, wrong


@pytest.mark.spark
@pytest.mark.parametrize("part", [0, *at_night(range(1, 6))])
def test_functions_are_printed_as_they_are_written(rows_of_t: Any, part: int) -> None:
    count, wrong = differing(rows_of_t, iter(list(calls())[part::6]))
    assert wrong == []
    assert count > 30


NUMBERS = """
-3.25 + 7S; n + 7S; -7L * n; 2.5 - (-7S); - -7S + 1.5; 1.5 + -(7L); 1.5 + 7Y; 1.5 + CAST(7 AS SMALLINT)
7S::BIGINT + 1.5; 1.5 % 0L; -32768S; -9223372036854775808L; pmod(1.5, 7S); try_add(1.5, 7s)
coalesce(n, 7S); CASE WHEN b THEN n ELSE 70L END; n = 7S; 1.5BD + 7S; 1.5 + 7L IN (8.5); round(n, 1S)
round(n, 2 - 3); round(n, '1'); round(n, 1.9); bround(n, CAST(1 AS INT)); round(n, -(1)); round(n, NULL)
ceil(n, 0 + 1); floor(d, 2)
"""
"""Numbers whose digits decide a type."""


@pytest.mark.spark
def test_digits_of_numbers_count_as_in_spark(rows_of_t: Any) -> None:
    texts = [text.strip() for text in NUMBERS.replace("\n", ";").split(";") if text.strip()]
    assert differing(rows_of_t, iter(texts)) == (len(texts), [])


@pytest.mark.spark
@pytest.mark.parametrize("first", [0, *at_night(range(100, 3000, 100))])
def test_random_expressions_are_printed_as_they_are_written(rows_of_t: Any, first: int) -> None:
    count, wrong = differing(rows_of_t, randoms(first, 60 if first == 0 else 100))
    assert wrong == []
    assert count > 20
