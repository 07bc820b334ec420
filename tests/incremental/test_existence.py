"""NOT IN with NULLs, and EXISTS without a link to the outer row: kept by changes, equal to the batch answer and to the plain rule."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.incremental import Options, maintain
from belvedere.incremental.pipeline import Rule
from belvedere.workbench import Workbench

from .test_recomputation import same_rows

SCRIPT = """
CREATE TABLE A (k INT PRIMARY KEY, g INT);
CREATE TABLE B (k INT PRIMARY KEY, g INT);
NotIn := SELECT k FROM A WHERE g NOT IN (SELECT g FROM B);
NotInSome := SELECT k, g FROM A WHERE g NOT IN (SELECT g FROM B WHERE k > 1) AND k > 0;
Any := SELECT k FROM A WHERE EXISTS (SELECT 1 FROM B WHERE g = 2);
None := SELECT k FROM A WHERE NOT EXISTS (SELECT 1 FROM B WHERE g = 2);
"""


def test_changed_rows_alone_are_looked_at() -> None:
    catalog = compile_script(SCRIPT).catalog
    assert not [s.output for s in maintain(catalog).stages if s.rule is Rule.WHOLE]
    plain = maintain(catalog, Options(join=False))
    assert {s.owner for s in plain.stages if s.rule is Rule.WHOLE} == {"NotIn", "NotInSome", "Any", "None"}


@pytest.mark.spark
@pytest.mark.parametrize("options", [Options(cost=False), Options(join=False)], ids=["changes", "plain"])
def test_nulls_come_and_go(spark: Any, options: Options) -> None:
    random = Random(11)
    wb = Workbench(SCRIPT, spark=spark, options=options)
    try:
        for epoch in range(7):
            wb.insert("A", [{"k": random.randrange(6), "g": random.choice([None, 1, 2, 3])} for _ in range(3)])
            if epoch:
                wb.insert("B", [{"k": random.randrange(3), "g": random.choice([None, 1, 2])}])
                wb.delete("B", [{"k": random.randrange(3)}])
                wb.delete("A", [{"k": random.randrange(6)}])
            if epoch == 4:
                wb.delete("B", [{"k": n} for n in range(3)])  # nothing: NOT IN is true, for NULL too
            wb.step()
            for name in wb.catalog.views:
                assert same_rows(wb.rows(name), wb.batch(name)), (epoch, name)
    finally:
        wb.close()
