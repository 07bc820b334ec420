"""Random SQL text, maintained over epochs with restarts: the store equals DuckDB's answers and Spark's batch."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, plain
from belvedere.rules.options import Options
from tests.depth import at_night, examples
from tests.random_sql.forms import form_queries
from tests.random_sql.queries import SCRIPT, Query, chosen_queries, random_query
from tests.random_sql.runs import Run

WITHOUT_MEMORY = [
    *(("sqlite", first) for first in range(3_800, 3_840, 20)),
    *(pytest.param("postgres", first, marks=pytest.mark.postgres) for first in range(3_900, 3_940, 20)),
]


@pytest.mark.deep
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_query_compiles_and_has_stages(first: int) -> None:
    for seed in range(first, first + examples(50)):
        text = random_query(seed).ours
        compiled = compile_script(f"{SCRIPT}V := {text};")
        assert compiled.ok, (seed, text, [d.message for d in compiled.diagnostics])
        assert any(stage.output == "V" for stage in maintain(compiled.catalog).stages), (seed, text)


def check(spark: Any, first: int, views: int, epochs: int, options: Options | None = None) -> None:
    """Every tenth script has the chosen queries too: they are the same each time, and cost a third of it."""
    queries = {f"V{seed}": random_query(seed) for seed in range(first, first + views)}
    if first % 200 == 0:
        queries |= {f"Chosen{n}": query for n, query in enumerate(chosen_queries())}
    check_queries(spark, queries, first, epochs, options)


def check_queries(
    spark: Any, queries: dict[str, Query], first: int, epochs: int, options: Options | None = None
) -> None:
    """The views after each epoch, with restarts between."""
    run = Run(queries, first, spark, options)
    try:
        for number in range(epochs):
            if number % 2 == 0 and number:
                run.wb.restart()
            run.epoch()
            found = run.differences(batch=number == epochs - 1)
            assert found == [], f"epoch {number}: " + "\n".join(found)
    finally:
        run.wb.close()


@pytest.mark.spark
def test_random_views_equal_duckdb_and_batch(spark: Any) -> None:
    check(spark, first=0, views=6, epochs=3)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [2, *at_night([1, 3, 4])])
def test_rewritten_forms_equal_duckdb_and_batch(spark: Any, seed: int) -> None:
    check_queries(spark, form_queries(), seed, epochs=3)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1_000, 1_240, 20))
def test_many_random_views(spark: Any, first: int) -> None:
    check(spark, first, views=20, epochs=5, options=plain() if first % 60 == 0 else None)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.postgres
@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize("first", range(3_000, 3_080, 20))
def test_many_random_views_in_postgres(spark: Any, first: int) -> None:
    check(spark, first, views=20, epochs=5)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store", "tiny_memory")
@pytest.mark.parametrize(("each_store", "first"), WITHOUT_MEMORY, indirect=["each_store"])
def test_random_views_without_memory(spark: Any, first: int) -> None:
    check(spark, first, views=20, epochs=4)
