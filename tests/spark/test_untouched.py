"""A stage whose inputs did not change costs an epoch nothing in Spark."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE STREAM Clicks (who INT);
CREATE TABLE People (id INT PRIMARY KEY, name STRING);
Counts := SELECT who, count(*) AS clicks FROM Clicks GROUP BY who;
Upper := SELECT id, upper(name) AS name FROM People WHERE id > 0;
Names := SELECT DISTINCT name FROM Upper;
"""


def test_only_stages_that_changes_reach_make_views(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    wb.insert("Clicks", [{"who": 1}])
    wb.insert("People", [{"id": 1, "name": "Zoë"}])
    wb.step()
    made: list[str] = []
    put = wb.engine.compute.put

    def noted(name: str, rows: Rows) -> None:
        made.append(name)
        put(name, rows)

    monkeypatch.setattr(wb.engine.compute, "put", noted)
    wb.insert("Clicks", [{"who": 1}])
    wb.step()
    stages = {stage.output: f"{prepared.number}_" for stage, prepared in wb.engine.stages}
    assert any(m.startswith(stages["Counts"]) for m in made)
    assert not [m for m in made if m.startswith((stages["People"], stages["Upper"], stages["Names"]))]
    assert (wb.rows("Counts"), wb.rows("Names")) == ([{"who": 1, "clicks": 2}], [{"name": "ZOË"}])
    wb.close()
