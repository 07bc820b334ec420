"""Relations that Spark needs for an answer are read from the store in batches, and spilled to files if large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.plan.operators.nodes import Node
from belvedere.provenance import plan_queries
from belvedere.provenance.plan_queries import BySpark, QueryRunner

SCRIPT = """
CREATE TABLE T (k INT, at TIMESTAMP, `größe x` STRING, d DOUBLE, money DECIMAL(20, 3), tags ARRAY<STRING>,
    PRIMARY KEY (k));
CREATE TABLE Empty (k INT, at TIMESTAMP, PRIMARY KEY (k));
Days := SELECT CAST(at AS DATE) AS day, count(*) AS n FROM T GROUP BY day;
Both := SELECT CAST(t.at AS DATE) AS day, count(*) AS n, count(e.k) AS e
        FROM T t LEFT JOIN Empty e ON CAST(e.at AS DATE) = CAST(t.at AS DATE) GROUP BY day;
"""
ROWS = 3_000


def row(k: int) -> dict[str, Any]:
    odd = bool(k % 2)
    return {
        "k": k,
        "at": datetime(2020, 1, 1 + k % 3, 12, 0, 0, k, tzinfo=UTC) if k % 10 else None,
        "größe x": f"é \U0001f600 {k}" if odd else None,
        "d": (float("nan"), -0.0, 1.5, None)[k % 4],
        "money": Decimal(k) / 8 if odd else None,
        "tags": [None, str(k)] if odd else [],
    }


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_large_relations_are_given_to_spark_in_files(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    wb.insert("T", [row(k) for k in range(ROWS)])
    wb.step()
    days = [{"day": d} for d in ("2020-01-02", None)]
    few = [wb.why(view, day, size=3) for view in ("Days", "Both") for day in days]
    given: list[dict[str, type]] = []

    def watched(by_spark: BySpark, plans: Sequence[Node], rows: Mapping[str, Any], now: datetime) -> list[pa.Table]:
        given.append({i: type(r) for i, r in rows.items()})
        return by_spark(plans, rows, now)

    made = QueryRunner.__init__

    def init(self: QueryRunner, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        if self.spark is not None and not isinstance(self.spark, partial):
            object.__setattr__(self, "spark", partial(watched, self.spark))

    monkeypatch.setattr(QueryRunner, "__init__", init)
    monkeypatch.setattr(plan_queries, "Scratch", partial(Scratch, few=1_000))
    many = [wb.why(view, day, size=3) for view in ("Days", "Both") for day in days]
    assert any(g.get("T") is Rows for g in given), "more than the bound lies in a file"
    assert all(g.get("Empty", pa.Table) is pa.Table for g in given)
    assert [repr(m) for m in many] == [repr(f) for f in few]
    reads = {r.relation: r for r in many[0].reads}
    want = [row(k) for k in range(ROWS) if k % 10 and k % 3 == 1]
    assert reads["T"].count == len(want)
    assert [(r["k"], r["größe x"], r["money"], r["tags"], repr(r["d"])) for r in reads["T"].rows] == [
        (r["k"], r["größe x"], r["money"] and r["money"].quantize(Decimal("0.001")), r["tags"], repr(r["d"]))
        for r in want[:3]
    ]
    assert replace(many[0], since=None).view == "Days"
    wb.close()
