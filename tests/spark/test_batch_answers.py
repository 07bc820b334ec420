"""Batch answers of one epoch are computed from each other, and anew for the next."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.spark import batch
from belvedere.spark.compute import SparkCompute

SCRIPT = """
CREATE STREAM Clicks (who INT);
Counts := SELECT who, count(*) AS clicks FROM Clicks GROUP BY who;
Busy := SELECT who, clicks FROM Counts WHERE clicks > 1;
Late := SELECT who, now() AS at FROM Counts;
"""


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries whose rows were brought to the driver."""
    seen: list[str] = []
    collect = SparkCompute.collect

    def noted(self: SparkCompute, sql: str, schema: pa.Schema) -> pa.Table:
        seen.append(sql)
        return collect(self, sql, schema)

    monkeypatch.setattr(SparkCompute, "collect", noted)
    return seen


@pytest.mark.spark
def test_a_view_is_computed_from_answers_of_few_rows(
    spark: Any, queries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    try:
        for minute in (1, 2):
            wb.clock(f"2024-05-01 11:0{minute}:00")
            wb.insert("Clicks", [{"who": 1}, {"who": minute}])
            wb.step()
            queries.clear()
            answers = {name: wb.batch(name) for name in ("Counts", "Busy", "Late", "Busy")}
            assert ["GROUP BY" in query for query in queries] == [True, False, False]
            assert answers == {name: wb.rows(name) for name in answers}
        assert answers["Busy"] == [{"who": 1, "clicks": 3}]
        monkeypatch.setattr(batch, "FEW", 0)
        wb.step()
        queries.clear()
        assert (wb.batch("Counts"), wb.batch("Busy")) == (wb.rows("Counts"), wb.rows("Busy"))
        assert ["GROUP BY" in query for query in queries] == [True, True]
    finally:
        wb.close()
