"""Views that differ in a filter on now() share the join below it, and say the same as with joins of their own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
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
LONG = "Long := SELECT l.k, r.a, count(*) AS n FROM Keyed l JOIN Stream r ON r.k = l.k GROUP BY l.k, r.a;"
SHORT = """
Short := SELECT keyed.k, count(*) AS n, max(y.d) AS d FROM Keyed keyed JOIN Stream y ON keyed.k = y.k
WHERE y.t + 5 MINUTE >= now() GROUP BY keyed.k;
Shorter := SELECT l.k, r.a, l.t FROM Keyed l JOIN Stream r ON r.k = l.k WHERE r.t + 1 MINUTE >= now() AND l.t < now();
"""


FILTERED = """
Filtered := SELECT l.k, max(r.d) AS d FROM Keyed l JOIN Stream r ON r.k = l.k WHERE r.b > 1 AND r.t + 5 MINUTE >= now()
    GROUP BY l.k;
"""

THREE = """
OfThree := SELECT l.m, r.d, z.s FROM Keyed l JOIN Stream r ON r.k = l.k JOIN Bag z ON z.a = r.a;
Again := SELECT r.b, count(*) AS n FROM Keyed l JOIN Stream r ON r.k = l.k GROUP BY r.b;
"""


def joins(script: str, options: Options) -> int:
    compiled = compile_script(script)
    assert compiled.ok, compiled.diagnostics
    return sum(s.rule == "join" for s in maintain(compiled.catalog, options).stages)


def test_one_join_serves_all_where_one_view_needs_all_rows() -> None:
    assert joins(TABLES + LONG + SHORT, Options()) == 1
    assert joins(TABLES + LONG + SHORT, Options(share=False)) == 3
    assert joins(TABLES + LONG + FILTERED, Options()) == 2
    assert joins(TABLES + LONG + THREE, Options()) < joins(TABLES + LONG + THREE, Options(share=False))


@pytest.mark.parametrize("other", ["", "All := SELECT l.k, r.a, l.t FROM Keyed l JOIN Stream r ON r.k = l.k;"])
def test_a_join_whose_rows_nobody_else_keeps_stays_small(other: str) -> None:
    compiled = compile_script(TABLES + SHORT + other)
    assert compiled.ok, compiled.diagnostics
    assert maintain(compiled.catalog, Options()).stages == maintain(compiled.catalog, Options(share=False)).stages


@pytest.mark.deep
@pytest.mark.parametrize("share", [True, *at_night([False])], ids=["shared", "apart"])
def test_shared_joins_equal_their_batch_run(executor: Any, share: bool) -> None:
    wb = Workbench(TABLES + LONG + SHORT + FILTERED + THREE, spark=executor, options=Options(share=share))
    try:
        drive(wb, Random(5), epochs=4 if depth.quick else 6)
    finally:
        wb.close()


def test_a_chain_of_views_of_which_each_reads_the_last_one_twice_is_planned_at_once() -> None:
    """Its definitions in place of their names would be 2^40 plans."""
    chain = [f"_V{n} := SELECT a.id, b.x FROM _V{n - 1} a JOIN _V{n - 1} b ON a.id = b.id;" for n in range(1, 40)]
    start = "CREATE TABLE T (id INT PRIMARY KEY, x INT);\n_V0 := SELECT id, x FROM T WHERE x > 0;\n"
    catalog = compile_script("\n".join([start, *chain, "Last := SELECT id, x FROM _V39;"])).catalog
    stages = maintain(catalog).stages
    assert 40 <= len(stages) <= 80
