"""Names, keys and orders at their edges: every view is still its batch answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.rules.clock import ENTER, LEAVE
from belvedere.rules.joins.inner_join import NEW
from belvedere.rules.top_k.first import PLACE as RANK
from belvedere.schema import ENGINE_COLUMNS, KEY, PLACE, WEIGHT
from belvedere.workbench.workbench import Workbench
from tests.rules.test_recomputation import same_rows

START = datetime(2024, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

DECIMALS = """
CREATE STREAM S (k INT, a DECIMAL(26,4), b DECIMAL(38,10), c DECIMAL(38,18), d DECIMAL(18,2), e DECIMAL(38,36),
    f DECIMAL(38,8));
Wide := SELECT k, avg(a) AS a, avg(b) AS b, avg(c) AS c, avg(e) AS e FROM S GROUP BY k;
Long := SELECT k, sum(f) AS f FROM S GROUP BY k;
Narrow := SELECT k, avg(d) AS d, sum(d) AS s FROM S GROUP BY k;
"""
EDGES = """
CREATE TABLE T (id INT PRIMARY KEY, a INT, b INT, at TIMESTAMP, s STRUCT<t: TIMESTAMP, d: DATE>, m MAP<STRING, INT>);
Objects := SELECT DISTINCT s FROM T;
Arrays := SELECT array(s.t) AS t, count(*) AS n FROM T GROUP BY array(s.t);
Maps := SELECT m, count(*) AS n FROM T GROUP BY m;
Later := SELECT id, sum(CASE WHEN at > now() THEN 1 END) OVER (PARTITION BY a) AS n FROM T;
Rolled := SELECT a, b, count(*) FILTER (WHERE at > now()) AS n FROM T GROUP BY ROLLUP (a, b);
Placed := SELECT id, row_number() OVER (PARTITION BY a ORDER BY b DESC) AS n, lag(id) OVER (PARTITION BY a
    ORDER BY b) AS l,
          sum(id) OVER (PARTITION BY a ORDER BY b rows BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
          rank() OVER (PARTITION BY a ORDER BY b) AS r, sum(id) OVER (PARTITION BY a ORDER BY b) AS e FROM T;
"""
NAMES = """
CREATE TABLE T ({name} INT PRIMARY KEY, b INT, s STRING, at TIMESTAMP);
Shown := SELECT s FROM T;
Passed := SELECT s FROM T WHERE at <= now() AND at + INTERVAL 3 HOURS > now();
Joined := SELECT T.s, u.s AS u FROM T JOIN T AS u ON T.b = u.b;
First := SELECT s FROM T ORDER BY s LIMIT 2;
"""


def same_views(wb: Workbench) -> None:
    for view, batch in wb.batches(v for v in wb.catalog.views if v in wb.catalog.public).items():
        assert same_rows(wb.rows(view), batch), (view, wb.rows(view), batch)


def test_sums_and_averages_of_wide_decimals_are_exact(executor: Any) -> None:
    pipeline = maintain(compile_script(DECIMALS).catalog)
    assert {s.output: s.rule for s in pipeline.stages if s.rule != "ingest"} == {
        "Wide": "keyed",
        "Long": "keyed",
        "Narrow": "merge",
    }
    wb = Workbench(DECIMALS, spark=executor)
    for values in ((1, 2, 2), (4, 5, 3, 8)):
        wb.insert("S", [{"k": 1, **dict.fromkeys("abcd", n), "e": Decimal(n) / 7} for n in values])
        wb.step()
        same_views(wb)
    assert wb.rows("Wide")[0]["a"] == Decimal("3.57142857")
    wb.insert("S", [{"k": 2, "f": "12345678901234567890123456789.01234567"}])
    wb.step()
    same_views(wb)
    assert {r["k"]: r["f"] for r in wb.rows("Long")}[2] == Decimal("12345678901234567890123456789.01234567")
    wb.close()


def row(number: int, a: int, hours: int, **more: Any) -> dict[str, Any]:
    time = START + number * MICROSECOND
    return {
        "id": number,
        "a": a,
        "b": 1,
        "at": START + timedelta(hours=hours),
        "s": {"t": time, "d": time.date()},
    } | more


@pytest.mark.spark
def test_keys_in_objects_and_maps_the_clock_and_ties() -> None:
    wb = Workbench(EDGES)
    steps = (
        [row(5, 1, 1, m={"a": 1, "b": 2}), row(3, 1, 2, m={"b": 2, "a": 1}), row(4, 2, 3)],
        [row(5, 1, 1, m={"c": 1}), row(2, 1, 4), row(9, 2, 4, b=0)],
        [row(3, 2, 1), row(4, 1, 3, b=2)],
        [],
    )
    for number, rows in enumerate(steps):
        wb.clock(START + timedelta(hours=number, minutes=30))
        wb.insert("T", rows)
        wb.step()
        same_views(wb)
    assert len(wb.rows("Objects")) == 5
    wb.restart()
    wb.delete("T", [{"id": 2}])
    wb.step()
    same_views(wb)
    wb.close()


@pytest.mark.usefixtures("executor")
def test_rows_without_a_key_are_deleted_by_equality() -> None:
    wb = Workbench("CREATE TABLE Bag (d DOUBLE, s STRING);\nV := SELECT d, s, count(*) AS n FROM Bag GROUP BY d, s;")
    wb.insert("Bag", [{"d": d, "s": "a"} for d in (0.0, -0.0, float("nan"), float("nan"), None)])
    wb.step()
    wb.delete("Bag", [{"d": -0.0, "s": "a"}, {"d": float("nan"), "s": "a"}, {"d": None, "s": "a"}])
    wb.insert("Bag", [{"d": None, "s": "a"}])
    wb.step()
    same_views(wb)
    assert sorted(repr(r["d"]).lstrip("-") for r in wb.rows("V")) == ["0.0", "None", "nan"]
    assert {r["n"] for r in wb.rows("V")} == {1}
    wb.close()


def test_the_engines_names_are_known() -> None:
    assert {KEY, WEIGHT, NEW, RANK, PLACE, ENTER, LEAVE} == ENGINE_COLUMNS


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["key", "new"])
def test_key_columns_have_any_name(executor: Any, name: str) -> None:
    """Where a view does not show its key, it has it as a hidden column with a name of its own."""
    wb = Workbench(NAMES.format(name=name), spark=executor)
    wb.clock(START)
    wb.insert("T", [{name: n, "b": 1, "s": f"s{n}", "at": START} for n in (1, 2, 3)])
    wb.step()
    same_views(wb)
    wb.clock(START + timedelta(hours=1))
    wb.insert("T", [{name: 1, "b": 2, "s": "x", "at": START + timedelta(hours=2)}])
    wb.step()
    same_views(wb)
    wb.restart()
    wb.clock(START + timedelta(hours=3))
    wb.delete("T", [{name: 2}])
    wb.step()
    same_views(wb)
    wb.close()
