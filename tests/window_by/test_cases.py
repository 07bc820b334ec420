"""Windows of all kinds with known answers (`tests/cases/windows.json`): scripts, and rows after some events."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench

CASES = {c["name"]: c for c in json.loads((Path(__file__).parents[1] / "cases/windows.json").read_text("utf-8"))}
ON_SPARK = ("wb_over_array_in_expression",)
"""Cases with a function that Spark alone has."""
RUN = [n for n, c in CASES.items() if "events" in c and n not in ON_SPARK]


def script_of(name: str) -> str:
    return "\n".join(CASES[name]["script"])


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_accepted(name: str) -> None:
    found = compile_script(script_of(name))
    assert [d.message for d in found.diagnostics if d.severity.value in ("error", "warning")] == []


def plain(value: Any) -> Any:
    """A value as the cases have it: times as texts."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return value.isoformat() if isinstance(value, date) else value


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr({n: plain(v) for n, v in r.items()}) for r in rows)


@pytest.mark.parametrize("name", RUN)
def test_the_rows_are_the_known_ones(executor: Any, name: str) -> None:
    check(name, executor)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_the_rows_on_spark_are_the_known_ones(spark: Any, name: str) -> None:
    check(name, spark)


def check(name: str, spark: Any) -> None:
    case = CASES[name]
    wb = Workbench(script_of(name), spark=spark)
    for event in case["events"]:
        if event == "step":
            wb.step()
        elif "clock" in event:
            wb.clock(event["clock"])
        else:
            wb.insert(event["insert"], event["rows"])
    assert bag(wb.rows(case["view"])) == bag(case["rows"])
    assert bag(wb.batch(case["view"])) == bag(case["rows"])
    wb.close()
