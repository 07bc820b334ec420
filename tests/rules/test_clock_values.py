"""Rows of VALUES that read now() are those of every epoch's clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE T (k INT PRIMARY KEY);
Now := SELECT x FROM VALUES (now()), (TIMESTAMP '2020-01-01 00:00:00') AS t(x);
Passed := SELECT x FROM VALUES (1, now() > TIMESTAMP '2024-01-02 00:00:00'), (2, false) AS t(x, has) WHERE has;
Fixed := SELECT x FROM VALUES (1), (2) AS t(x);
"""


def test_values_that_read_the_clock_follow_it(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    for day in (1, 2, 3):
        now = datetime(2024, 1, day, 12, tzinfo=UTC)
        wb.clock(now)
        wb.step()
        assert max(r["x"] for r in wb.rows("Now")) == now
        assert [r["x"] for r in wb.rows("Passed")] == ([1] if day > 1 else [])
        for view, batch in wb.batches(("Now", "Passed", "Fixed")).items():
            assert sorted(map(repr, wb.rows(view))) == sorted(map(repr, batch)), (view, day)
        assert len(wb.changes("Fixed")) == (2 if day == 1 else 0)
    wb.close()
