"""END on aggregates over the window up to its tuple: exact numbers, classes, decimals in views."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from belvedere.schema import Column, Schema
from belvedere.sqlpp.lower import explain_window_query
from belvedere.sqlpp.parser import parse_window_query
from belvedere.workbench.workbench import Workbench
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.without_spark import TYPES, run

HEAD = "FROM rows AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE "


def rows_of(values: list[int | None], reals: list[float | None] | None = None) -> list[dict[str, Any]]:
    xs = reals or [None] * len(values)
    return [
        {"id": n, "k": 0, "o": n, "v": v, "x": x, "s": None} for n, (v, x) in enumerate(zip(values, xs, strict=True))
    ]


def test_sums_of_all_rows_before_may_exceed_64_bits() -> None:
    rows = rows_of([2**62, 2**62, 2**62, -(2**62), -(2**62), None, -(2**61), 5])
    for when in ("SUM(w.v) < 0", "SUM(w.v) > 4611686018427387904 * 2", "SUM(w.v) = 5", "AVG(w.v) < 0 OR SUM(w.v) = 5"):
        text = f"{HEAD}SLIDING START AS s END AS e WHEN {when} SELECT s.id AS a, e.id AS b"
        expected = compile_query(parse_window_query(text))({"rows": rows})
        assert run(text, rows) == [{n: row.get(n) for n in ("a", "b")} for row in expected], when


def test_a_sum_of_doubles_does_not_depend_on_rows_before_the_window() -> None:
    rows = rows_of([0] * 12, [1e16, *[0.1] * 10, None])
    text = f"{HEAD}SLIDING START AS s END AS e WHEN SUM(w.x) >= 0.8 SELECT e.id AS e"
    found = [row["e"] for row in run(text, rows)]
    assert found == [
        0,
        9,
        10,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    ]  # 0.1 added eight times is below 0.8


@pytest.mark.parametrize(
    ("when", "class_", "blocks"),
    [
        ("COUNT(*) = 20", "b", True),
        ("COUNT(w.v) >= 20", "b", True),
        ("COUNT(w.v) = 20", "b", False),
        ("SUM(w.v) > 100", "c1", False),
        ("SUM(w.v) - e.v > s.v", "c1", False),
        ("SUM(w.v) = 100", "c2", False),
        ("SUM(w.v) > 100 OR COUNT(*) = 20", "c1 or class b", True),
        ("AVG(w.v) > 100", "d", False),
        ("SUM(w.x) > 100", "d", False),
        ("MAX(w.v) > 100", "d", False),
    ],
)
def test_classes(when: str, class_: str, blocks: bool) -> None:
    text = f"{HEAD}SLIDING START AS s END AS e WHEN {when} SELECT s.id"
    found = explain_window_query(text, {"rows": Schema(tuple(Column(n, t) for n, t in TYPES.items()))})
    assert f"END: class {class_}:" in found
    assert ("most of the rows: in blocks" in found) == blocks


def test_decimals_and_times_in_a_view(executor: Any) -> None:
    script = """
    CREATE TABLE Sale (id BIGINT PRIMARY KEY, amount DECIMAL(8, 2), at TIMESTAMP NOT NULL);
    Full := FROM Sale AS s WINDOW BY w ORDER BY s.id TYPE TUMBLING START AS a ONLY END AS e WHEN SUM(w.amount) >= 10.5
      SELECT a.id AS first, e.id AS last, SUM(w.amount) AS total;
    Long := FROM Sale AS s WINDOW BY w ORDER BY s.id TYPE SLIDING START AS a
      ONLY END AS e WHEN MAX(w.at) - MIN(w.at) > duration('PT1H') AND AVG(w.amount) > a.amount
      SELECT a.id AS first, e.id AS last;
    """
    bench = Workbench(script)
    try:
        amounts = [Decimal("4.25"), Decimal("6.24"), Decimal("0.01"), None, Decimal("10.50"), Decimal("3.00")]
        rows = [{"id": n, "amount": a, "at": f"2020-01-01 08:{20 * n % 60:02}:00"} for n, a in enumerate(amounts)]
        rows[4]["at"] = "2020-01-01 09:30:00"
        bench.insert("Sale", rows)
        bench.step()
        assert [(r["first"], r["last"]) for r in bench.rows("Full")] == [(0, 2), (3, 4)]
        bench.insert("Sale", [{**rows[1], "amount": Decimal("6.25")}])
        bench.step()
        bench.restart()
        assert [(r["first"], r["last"], r["total"]) for r in bench.rows("Full")] == [
            (0, 1, Decimal("10.50")),
            (2, 4, Decimal("10.51")),
        ]
        assert [(r["first"], r["last"]) for r in bench.rows("Long")] == [(0, 4), (2, 4)]
        for view in ("Full", "Long"):
            assert sorted(map(str, bench.rows(view))) == sorted(map(str, bench.batch(view)))
    finally:
        bench.close()
