"""Queries over few rows are interpreted, those over many compiled; the session keeps its own settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.spark.code_generation import COMPILED, FEW, INTERPRETED, SOME, Interpreting


class Settings:
    """A session's settings, and how often they were set."""

    def __init__(self, **found: str):
        self.found, self.calls = found, 0

    def get(self, name: str, usual: str) -> str:
        return self.found.get(name, usual)

    def set(self, name: str, value: str) -> None:
        self.found[name] = value
        self.calls += 1


def test_settings_change_where_the_choice_does_and_come_back() -> None:
    own = {"spark.sql.codegen.wholeStage": "false"}
    settings = Settings(**own)
    spark: Any = SimpleNamespace(conf=settings)
    choice = Interpreting(spark)
    for few in (False, True, True):
        choice.choose(few)
    assert (settings.found, settings.calls) == (dict(INTERPRETED), 2)
    choice.restore()
    assert settings.found == {**COMPILED, **own}


def test_a_query_that_runs_on_and_on_is_compiled() -> None:
    settings = Settings()
    spark: Any = SimpleNamespace(conf=settings)
    choice = Interpreting(spark)
    for _ in range(SOME):
        choice.choose(True, "SELECT 1")
        assert settings.found == dict(INTERPRETED)
    choice.choose(True, "SELECT 1")
    assert settings.found == dict(COMPILED)
    choice.choose(True, "SELECT 2")
    assert settings.found == dict(INTERPRETED)


@pytest.mark.spark
def test_a_query_is_interpreted_where_all_its_inputs_are_few(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.spark.compute import SparkCompute

    chosen: list[bool] = []
    monkeypatch.setattr(Interpreting, "choose", lambda self, few, sql="": chosen.append(few))
    exchange = SparkCompute(spark, "interpreting")
    schema = pa.schema([pa.field("a", pa.int64())])
    for name, count in (("some", FEW), ("many", FEW + 1), ("framed", 1)):
        rows = Rows(pa.table({"a": range(count)}, schema))
        exchange.put(name, rows if name != "framed" else Rows(frame=spark.range(1).toDF("a"), schema=schema))
        table = exchange.collect(f"SELECT max(a) AS a FROM `{exchange.view_name(name)}`", schema)
        assert table.to_pylist() == [{"a": count - 1}]
    assert chosen == [True, False, False]
    exchange.put("many", Rows(pa.table({"a": [1]}, schema)))
    exchange.collect(f"SELECT a FROM `{exchange.view_name('many')}`", schema)
    exchange.sweep()
    assert chosen[3:] == [True, False]
    exchange.close()


@pytest.mark.spark
def test_a_batch_answer_leaves_the_session_as_it_was(spark: Any) -> None:
    from belvedere import Workbench

    own = {name: spark.conf.get(name) for name in COMPILED}
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    try:
        wb = Workbench("CREATE TABLE T (k INT PRIMARY KEY, a INT); S := SELECT sum(a) AS s FROM T;", spark=spark)
        wb.insert("T", [{"k": 1, "a": 2}])
        wb.step()
        assert wb.batch("S") == wb.rows("S") == [{"s": 2}]
        assert {name: spark.conf.get(name) for name in COMPILED} == COMPILED
        wb.close()
    finally:
        for name, value in own.items():
            spark.conf.set(name, value)
