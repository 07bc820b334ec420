"""Random queries: each compiles or is refused, keys are carried, and Spark answers the plan as it answers the query."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from belvedere.compiler import compile_script
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.rewrites.keys import carry_keys
from tests.depth import examples
from tests.spark_answers import Answer, answers

from .random_queries import query
from .spark_queries import ROWS, TABLES


@pytest.mark.deep
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(query())
def test_every_query_has_a_plan_with_a_key(text: str) -> None:
    compiled = compile_script(f"{TABLES}\nv := {text};")
    assert compiled.ok, (text, [d.message for d in compiled.diagnostics])
    view = compiled.catalog.views["v"]
    assert view.schema.key is not None
    assert set(view.schema.key) <= set(view.schema.names)
    for node in view.plan.walk():
        assert len(set(node.schema.names)) == len(node.schema.names)
    assert carry_keys(view.plan).schema.visible == view.schema.visible
    scanned = {n.relation for n in view.plan.walk() if isinstance(n, Scan)}
    assert scanned <= {"a", "b", "c"}


@pytest.mark.deep
@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="SELECTFROMabc.,()*=':?_ \n1", max_size=60), query())
def test_no_text_ends_in_a_traceback(noise: str, text: str) -> None:
    cut = len(noise) * len(text) // 61
    compile_script(f"{TABLES}\nv := {text[:cut]}{noise}{text[cut:]};")


@pytest.mark.spark
@seed(20)
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(query(), min_size=12, max_size=12))
def test_spark_answers_the_plan_as_the_query(spark: Any, texts: list[str]) -> None:
    from pyspark.errors import PySparkException

    from belvedere.engine.sql.plan_sql import render
    from belvedere.functions.spark_types import type_text

    catalog = compile_script(TABLES).catalog
    for name, rows in ROWS.items():
        visible = [c for c in catalog.inputs[name].schema if not c.name.startswith("_")]
        casts = ", ".join(f"CAST(col{n + 1} AS {type_text(c.type)}) AS `{c.name}`" for n, c in enumerate(visible))
        hidden = "monotonically_increasing_id() AS _uid, current_timestamp() AS _ingest_time"
        spark.sql(f"SELECT {casts}, {hidden} FROM {rows}").localCheckpoint().createOrReplaceTempView(f"{name}_random")
        spark.sql(f"SELECT * EXCEPT (_uid, _ingest_time) FROM {name}_random").createOrReplaceTempView(name)
    spark.sql("SELECT current_timestamp() AS _now").createOrReplaceTempView("clock")
    plans = {}
    for text in texts:
        view = compile_script(f"{TABLES}\nv := {text};").catalog.views["v"]
        names = ", ".join(f"`{c.name}`" for c in view.schema.visible)
        plans[text] = f"SELECT {names} FROM ({render(view.plan, lambda relation: f'{relation}_random')})"
    mine, theirs = answers(spark, plans), answers(spark, {text: text for text in plans})
    for text, found in theirs.items():
        if isinstance(found, PySparkException) and (found.getCondition() or "").startswith("UNSUPPORTED_SUBQUERY"):
            continue
        own = mine[text]
        assert isinstance(found, Answer), (text, found)
        assert isinstance(own, Answer), (text, own)
        assert own.bag() == found.bag(), text
