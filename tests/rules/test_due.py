"""When time alone changes a view next: before, an epoch would be for nothing; then, it is due."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.plan.clock_steps import DAY, HOUR, MINUTE, clock_step
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.values.input_rows import as_instant
from belvedere.values.instants import instant, microseconds
from belvedere.workbench.workbench import Workbench

STREAM = "CREATE STREAM S (g STRING, at TIMESTAMP) KEEP 9 DAYS;"


@pytest.mark.parametrize(
    ("condition", "step"),
    [
        ("at > date_trunc('hour', now())", HOUR),
        ("at > date_trunc('MINUTE', (now() - INTERVAL 5 MINUTES))", MINUTE),
        ("at > date_trunc('hour', now() - INTERVAL 90 MINUTES)", None),
        ("at > date_trunc('hour', now() - INTERVAL 2 HOURS + INTERVAL 1 DAY)", HOUR),
        ("at > date_trunc('month', now())", DAY),
        ("CAST(at AS DATE) = current_date()", DAY),
        ("date(at) > date_sub(current_date(), 7)", DAY),
        ("hour(at) = hour(now()) AND date(at) = current_date()", HOUR),
        ("extract(hour FROM at) = extract(hour FROM now())", HOUR),
        ("extract(second FROM at) = extract(second FROM now())", None),
        ("at > now() - INTERVAL 1 MONTH", None),
        ("at > date_trunc('hour', now()) OR at > now() - INTERVAL 1 MONTH", None),
        ("year(at) = year(now())", DAY),
        ("at IS NOT NULL", None),
    ],
)
def test_what_rounds_the_clock_changes_in_steps(condition: str, step: int | None) -> None:
    found = compile_script(f"{STREAM} Q := SELECT g FROM S WHERE {condition};")
    assert found.ok, found.diagnostics
    assert clock_step(found.catalog.views["Q"].plan.walk()) == step


SCRIPT = """
CREATE TABLE T (k INT NOT NULL, at TIMESTAMP, PRIMARY KEY (k));
Recent := SELECT k, at FROM T WHERE at > now() - INTERVAL 10 MINUTES;
Soon := SELECT k, at FROM T WHERE at BETWEEN now() AND now() + INTERVAL 1 HOUR;
Counts := SELECT count(*) AS n FROM Recent;
"""
VIEWS = ("Recent", "Soon", "Counts")


def test_an_epoch_before_its_time_changes_nothing_and_then_something(executor: Any) -> None:
    r = random.Random(3)
    wb = Workbench(SCRIPT, spark=executor)
    wb.clock("2024-01-01 12:00:00")
    assert wb.engine.is_due(as_instant("2024-01-01 12:00:00")), "there is no epoch yet"
    wb.step()
    assert not wb.engine.is_due(as_instant("9999-01-01")), "no row will ever enter or leave"
    times = [as_instant("2024-01-01 11:00:00") + timedelta(seconds=r.randint(0, 14_400)) for _ in range(12)]
    wb.insert("T", [{"k": k, "at": t} for k, t in enumerate(times)])
    wb.step()
    ends = 0
    while (due := wb.engine._next_due()) != FOREVER:
        assert due > microseconds(as_instant("2024-01-01 12:00:00"))
        wb.clock(instant(due - 1))
        assert not wb.engine.is_due(instant(due - 1))
        wb.step()
        assert [wb.changes(v) for v in VIEWS] == [[], [], []], due
        wb.clock(instant(due))
        assert wb.engine.is_due(instant(due))
        wb.step()
        assert any(wb.changes(v) for v in ("Recent", "Soon")), due
        ends += 1
        if ends == 3:
            wb.restart()
        if ends == 5:
            wb.delete("T", [{"k": k} for k in range(0, 12, 3)])
            wb.step()
    assert ends > 8
    assert wb.rows("Recent") == wb.batch("Recent") == []
    wb.close()


def test_what_any_moment_changes_is_always_due(executor: Any) -> None:
    views = (
        "Q := SELECT g FROM S WHERE at > now() - INTERVAL 1 MONTH; D := SELECT g FROM S WHERE date(at) = "
        "current_date();"
    )
    for text, expected in ((views, NEVER), (views.partition(";")[2], microseconds(as_instant("2024-01-02")))):
        wb = Workbench(STREAM + text, spark=executor)
        wb.clock("2024-01-01 12:00:00")
        wb.step()
        assert wb.engine._next_due() == expected
        wb.close()


def test_a_view_that_no_epoch_has_filled_is_due(executor: Any, tmp_path: Path) -> None:
    url, now = f"sqlite:///{tmp_path}/s.db", as_instant("2024-01-01 12:00:00")
    table = "CREATE TABLE T (k INT NOT NULL, v INT, PRIMARY KEY (k));"
    wb = Workbench(table, store=url, spark=executor)
    wb.clock(now)
    wb.insert("T", [{"k": 1, "v": None}])
    wb.step()
    wb.close()
    wb = Workbench(table + "New := SELECT k, v FROM T;", store=url, spark=executor)
    assert wb.engine.is_due(now), "no row may come for long"
    wb.step()
    assert wb.rows("New") == [{"k": 1, "v": None}]
    assert not wb.engine.is_due(as_instant("9999-01-01"))
    wb.close()
