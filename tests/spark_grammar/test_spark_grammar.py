"""Random queries of Spark's grammar: rejected if Spark rejects them, no crash, and Spark's rows under changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests import depth
from tests.depth import at_night
from tests.spark_grammar.chosen import CHOSEN
from tests.spark_grammar.counts import ALL, MAX_REFUSED, counted, read_counts, write_counts
from tests.spark_grammar.extensions import is_extension
from tests.spark_grammar.queries import random_query
from tests.spark_grammar.rows import differences
from tests.spark_grammar.samples import SPARK_TYPES
from tests.spark_grammar.verdicts import CRASH, Judged, is_told_by_run, judge

VIEWS, FEW = 40, 8
"""Views of one script: an epoch costs by the number of its queries, a script some seconds."""


@pytest.fixture(scope="module")
def over_tables(spark: Any) -> Any:
    """The session, with the tables empty."""
    for name, types in SPARK_TYPES.items():
        spark.createDataFrame([], types).createOrReplaceTempView(name)
    return spark


def found(spark: Any, judged: list[Judged]) -> list[str]:
    """What may not be: a crash, and what is accepted by `check` and by `run`, refused by Spark, and no extension."""
    crashed = [f"{j.query.text}\n  {j.ours.text}" for j in judged if j.ours.refused == CRASH]
    accepted = [
        j for j in judged if j.spark.refused and not j.ours.refused and not is_extension(j.spark.refused, j.spark.text)
    ]
    return crashed + [f"{j.query.text}\n  {j.spark.text}" for j in accepted if not is_told_by_run(spark, j.query.text)]


@pytest.mark.spark
@pytest.mark.parametrize("first", [0, *at_night(range(100, ALL, 100))])
def test_what_spark_refuses_is_refused_and_rows_are_those_of_spark(over_tables: Any, first: int) -> None:
    judged = [judge(over_tables, random_query(seed)) for seed in range(first, first + (60 if depth.quick else 100))]
    assert found(over_tables, judged) == []
    assert [(j.query.text, j.ours.types, j.spark.types) for j in judged if j.has_other_types] == []
    both = {f"V{n}": j.query.text for n, j in enumerate(judged, first) if j.is_comparable}
    size = FEW if depth.quick else VIEWS
    for block in range(0, size if depth.quick else len(both), size):
        wrong, _ = differences(over_tables, dict(list(both.items())[block : block + size]), seed=first + block)
        assert wrong == {}, "\n".join(wrong.values())


@pytest.mark.spark
@pytest.mark.deep
def test_chosen_queries_have_the_rows_of_spark(over_tables: Any) -> None:
    chosen = {f"C{n}": text for n, text in enumerate(CHOSEN)}
    chosen = dict(list(chosen.items())[:: depth.PART if depth.quick else 1])
    wrong, compared = differences(over_tables, chosen, seed=1)
    assert wrong == {}, "\n".join(wrong.values())
    assert len(compared) == len(chosen)


@pytest.mark.spark
@pytest.mark.nightly
def test_few_queries_are_refused_that_spark_takes(over_tables: Any, request: pytest.FixtureRequest) -> None:
    counts = counted(judge(over_tables, random_query(seed)) for seed in range(ALL))
    if request.config.getoption("--update"):
        write_counts(counts)
    reported = read_counts()
    assert (counts.queries, counts.accepted) == (reported.queries, reported.accepted), (
        "run it with --update, and tests/docs too"
    )
    assert sum(counts.refused.values()) <= sum(reported.refused.values()), counts.refused
    assert counts.refused_share <= MAX_REFUSED
