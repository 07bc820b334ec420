"""Stages that know what they take back look nothing up for it, and say the same as those that do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.engine.change.table_diff import looked_up_relations
from belvedere.engine.pipeline import Pipeline
from belvedere.pipeline.choose import maintain, without
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.depth import at_night

from .test_recomputation import drive

TABLES = """
CREATE TABLE Keyed (k INT PRIMARY KEY, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP);
CREATE STREAM Stream (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP);
CREATE TABLE Bag (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP);
"""
GROUPED = (
    "ByA := SELECT a, count(*) AS n, sum(b) AS total, 100 / (1 + coalesce(sum(b), 0) * 0) AS whole FROM Bag GROUP BY a;"
)
HAVING = "Some := SELECT a, 12 / (count(b) - 1) AS share FROM Bag GROUP BY a HAVING count(b) > 1;"
LATEST = """
Latest := SELECT s, k, d FROM (
    SELECT *, row_number() OVER (PARTITION BY s ORDER BY t DESC, a, b) AS place FROM Stream
) WHERE place = 1;
"""
SHOWN = "Named := SELECT a, concat('a', n) AS name FROM ByA; Twice := SELECT s, k FROM Keyed WHERE b > 0;"
MOST = """
Most := WITH counts AS (SELECT a, s, count(*) AS n FROM Stream GROUP BY a, s)
SELECT c.a, c.s, c.n FROM counts c JOIN (SELECT a, max(n) AS most FROM counts
    GROUP BY a) m ON m.a = c.a AND c.n >= m.most;
"""


def pipeline_of(script: str) -> Pipeline:
    compiled = compile_script(TABLES + script)
    assert compiled.ok, compiled.diagnostics
    return maintain(compiled.catalog)


def arranged(script: str, names: Sequence[str]) -> list[bool]:
    found = looked_up_relations(pipeline_of(script))
    return [n in found for n in names]


def test_a_view_that_knows_its_old_rows_is_served_alone() -> None:
    assert arranged(GROUPED, ["ByA"]) == [False]
    assert arranged(GROUPED + "Joined := SELECT x.a, y.k FROM ByA x JOIN Keyed y ON y.k = x.a;", ["ByA"]) == [True]
    assert arranged(HAVING, ["Some"]) == [True]  # a group may come and go without its rows


def test_columns_that_no_reader_reads_make_no_change() -> None:
    found = pipeline_of(LATEST)
    (linear,) = (s for s in found.stages if s.output == "Latest")
    source = found.relations[linear.slots[0].relation]
    assert source.internal
    assert {"s", "k", "d"}.isdisjoint(n.rpartition(".")[2] for n in source.internal)
    assert arranged(LATEST, ["Latest"]) == [False]


def test_a_view_that_may_show_what_differs_as_equal_looks_up() -> None:
    assert arranged(GROUPED + SHOWN, ["Named", "Twice"]) == [True, True]


def test_a_query_that_is_read_twice_is_maintained_once() -> None:
    assert sum(s.rule == "merge" for s in pipeline_of(MOST).stages) == 1


@pytest.mark.deep
@pytest.mark.parametrize("options", [Options(), *at_night([without("merge", "top")])], ids=["retracting", "looked up"])
def test_views_equal_their_batch_run(executor: Any, options: Options) -> None:
    wb = Workbench(TABLES + GROUPED + HAVING + LATEST + SHOWN + MOST, spark=executor, options=options)
    try:
        drive(wb, Random(11), epochs=5 if depth.quick else 8)
    finally:
        wb.close()
