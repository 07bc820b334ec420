"""FOR SYSTEM_TIME AS OF: the version valid at the event's time, as a join that is cut to the last version per row."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.lang.select.standard_sql import expand
from belvedere.plan.operators.nodes import Join, JoinKind, TopK
from belvedere.plan.plan_text import plan_text
from belvedere.workbench.workbench import Workbench

BASE = """
CREATE STREAM Orders (id INT, cur STRING, ts TIMESTAMP, amount INT, WATERMARK FOR ts AS ts - INTERVAL 1 DAY);
CREATE STREAM Changes (cur STRING, c TIMESTAMP, rate INT, WATERMARK FOR c AS c - INTERVAL 1 DAY);
CREATE TABLE Now (cur STRING, rate INT, PRIMARY KEY (cur));
CREATE TABLE Dated (cur STRING, d TIMESTAMP, rate INT, PRIMARY KEY (cur, d), WATERMARK FOR d);
Rates := DISTINCT Changes ON cur ORDER BY c DESC;
Firsts := DISTINCT Changes ON cur ORDER BY c;
Rates.double := rate * 2;
Small := SELECT cur, rate, c FROM Rates WHERE rate < 10;
"""
AS_OF = "FOR SYSTEM_TIME AS OF o.ts"


def test_the_clock_of_arrival_is_a_time_as_any_other() -> None:
    compiled = compile_script(
        """
        CREATE STREAM O (id INT, cur STRING, p TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR p);
        CREATE STREAM Changed (cur STRING, rate DOUBLE, p TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR p);
        Valid := DISTINCT Changed ON cur ORDER BY p DESC;
        V := SELECT o.id, r.rate FROM O o LEFT JOIN Valid FOR SYSTEM_TIME AS OF o.p r ON r.cur = o.cur;
        """
    )
    assert compiled.ok, compiled.diagnostics
    assert any(isinstance(n, TopK) for n in compiled.catalog.views["V"].plan.walk())
    (refused,) = compile_script("CREATE STREAM O (id INT, p AS PROCTIME());").diagnostics
    assert (refused.code, "METADATA FROM 'timestamp'" in (refused.hint or "")) == ("B3005", True)


@pytest.mark.parametrize("end", ["", " ON o.cur = r.cur", ";\nX := SELECT 1 AS a"])
def test_a_time_that_is_missing(end: str) -> None:
    compiled = compile_script(f"{BASE}V := SELECT o.id FROM Orders o JOIN Rates FOR SYSTEM_TIME AS OF{end}")
    assert [d.code for d in compiled.diagnostics if d.severity == "error"] == ["B1001"]


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
@pytest.mark.parametrize("table", ["Rates", "Changes", "Dated"])
def test_it_is_a_join_with_the_last_version(kind: JoinKind, table: str) -> None:
    word = "LEFT JOIN" if kind is JoinKind.LEFT else "JOIN"
    compiled = compile_script(
        BASE + f"V := SELECT o.id, r.rate FROM Orders o {word} {table} {AS_OF} r ON r.cur = o.cur"
    )
    assert compiled.ok, compiled.diagnostics
    view = compiled.catalog.views["V"]
    (join,) = (n for n in view.plan.walk() if isinstance(n, Join))
    (top,) = (n for n in view.plan.walk() if isinstance(n, TopK))
    assert join.kind is kind
    assert (top.limit, top.partition) == (1, ("o._uid",))
    assert view.schema.key == ("_uid",)
    assert f"scan {'Dated' if table == 'Dated' else 'Changes'}" in plan_text(view.plan)


@pytest.mark.parametrize(
    ("query", "code", "hint"),
    [
        (f"JOIN Now {AS_OF} r ON r.cur = o.cur", "B5030", "DISTINCT U ON cur ORDER BY c DESC"),
        (f"JOIN Firsts {AS_OF} r ON r.cur = o.cur", "B5030", "ORDER BY c DESC"),
        (f"JOIN Small {AS_OF} r ON r.cur = o.cur", "B5030", "ORDER BY c DESC"),
        (f"JOIN Rates {AS_OF} r ON r.rate = o.id", "B5031", "r.cur = ..."),
        (f"JOIN Rates {AS_OF} r ON r.cur = o.id", "B5031", "same type"),
        (f", Rates {AS_OF} r WHERE r.cur = o.cur", "B5031", "r.cur = ..."),
        (f"RIGHT JOIN Rates {AS_OF} r ON r.cur = o.cur", "B5032", "LEFT JOIN"),
        ("JOIN Rates FOR SYSTEM_TIME AS OF now() r ON r.cur = o.cur", "B5032", "present rows"),
        ("JOIN Rates FOR SYSTEM_TIME AS OF o.id r ON r.cur = o.cur", "B5001", "CAST"),
        ("JOIN Rates FOR VERSION AS OF 3 r ON r.cur = o.cur", "B3027", "SYSTEM_TIME"),
        (f"JOIN Rates {AS_OF} r USING (cur)", "B3027", "SYSTEM_TIME"),
        (f"JOIN Rates {AS_OF} o ON o.cur = o.cur", "B2005", "another alias"),
    ],
)
def test_what_has_no_answer_is_refused(query: str, code: str, hint: str) -> None:
    compiled = compile_script(BASE + "V := SELECT o.id FROM Orders o " + query)
    (found,) = (d for d in compiled.diagnostics if d.severity == "error")
    assert found.code == code
    assert hint in (found.hint or "")


def test_standard_sql_says_system_time() -> None:
    compiled = compile_script(BASE + f"V := SELECT o.id FROM Orders o JOIN Rates {AS_OF} r ON r.cur = o.cur")
    assert compiled.ok
    assert "Rates FOR SYSTEM_TIME AS OF o.ts AS r" in expand(compiled.catalog, "V")


VIEWS = f"""
Priced := SELECT o.id, o.amount * r.rate AS price, r.double FROM Orders o JOIN Rates {AS_OF} r ON r.cur = o.cur;
Maybe := SELECT o.id, r.rate FROM Orders o LEFT JOIN Changes {AS_OF} r ON r.cur = o.cur AND r.rate < 10;
Total := SELECT sum(price) AS total, count(*) AS n FROM Priced;
"""


def _at(minute: int) -> str:
    return f"2026-01-01 00:{minute:02}:00"


def test_a_late_version_corrects_the_result(executor: Any) -> None:
    wb = Workbench(BASE + VIEWS, spark=executor)

    def state() -> dict[int, tuple[Any, Any]]:
        for name, batch in wb.batches(("Priced", "Maybe", "Total")).items():
            assert sorted(map(repr, wb.rows(name))) == sorted(map(repr, batch))
        assert wb.rows("Total")[0]["n"] == len(wb.rows("Priced"))
        prices = {r["id"]: r["price"] for r in wb.rows("Priced")}
        return {r["id"]: (prices.get(r["id"]), r["rate"]) for r in wb.rows("Maybe")}

    wb.insert("Changes", [{"cur": "€", "c": _at(10), "rate": 2}, {"cur": "€", "c": _at(30), "rate": 20}])
    rows = [(1, "€", 5), (2, "€", 10), (3, "€", 29), (4, "€", 40), (5, "$", 40), (6, None, 40)]
    wb.insert("Orders", [{"id": i, "cur": c, "ts": _at(t), "amount": 100} for i, c, t in rows])
    wb.step()
    before = {1: (None, None), 2: (200, 2), 3: (200, 2), 4: (2000, None), 5: (None, None), 6: (None, None)}
    assert state() == before
    wb.insert("Changes", [{"cur": "€", "c": _at(20), "rate": 3}, {"cur": "€", "c": _at(1), "rate": 1}])
    wb.insert("Changes", [{"cur": "$", "c": _at(50), "rate": 9}, {"cur": "€", "c": _at(10), "rate": 4}])
    wb.step()
    after = {1: (100, 1), 2: (400, 4), 3: (300, 3), 4: (2000, None), 5: (None, None), 6: (None, None)}
    assert state() == after
    wb.close()
