"""SELECT STREAM over joins of two streams within windows, and ORDER BY in batches: recorded cases with and without
bounds."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.event_time.cases import at, rowtime_cases

INPUTS = "CREATE STREAM _o (orderid INT);\nCREATE STREAM _s (orderid INT);\n"
WINDOW = "OVER (RANGE INTERVAL '1' MINUTE PRECEDING)"
O_TIME, S_TIME = "o.rowtime AS ordertime", "s.rowtime AS shiptime"
QUERIES = {
    "join2_inner_both_windows": f"ROWTIME, s.orderid, {S_TIME}, {O_TIME} FROM _o {WINDOW} AS o JOIN _s {WINDOW} AS s",
    "join3_right_one_window": f"ROWTIME, s.orderid, {O_TIME} FROM _o {WINDOW} AS o RIGHT JOIN _s AS s",
    "join5_left_one_window": f"ROWTIME, o.orderid, {O_TIME} FROM _o {WINDOW} AS o LEFT JOIN _s AS s",
    "join6_left_both_windows": f"ROWTIME, o.orderid, {S_TIME}, {O_TIME} FROM _o {WINDOW} AS o LEFT JOIN _s {WINDOW} "
    "AS s",
    "full": f"o.orderid, s.orderid AS shipment FROM _o {WINDOW} AS o FULL JOIN _s {WINDOW} AS s",
}
VIEWS = {name: f"V{n}" for n, name in enumerate(QUERIES)}
SCRIPT = INPUTS + "".join(f"{VIEWS[n]} := SELECT STREAM {q} ON o.orderid = s.orderid;\n" for n, q in QUERIES.items())
TABLES = {"orders": "_o", "shipments": "_s"}


def rows_of(case: dict[str, Any]) -> list[tuple[Any, str, int]]:
    """The rows of a case in the order of their time: time, table, order."""
    return sorted((at(t), TABLES[name], n) for name, rows in case["input"].items() for t, n in rows)


def shown(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [list(r.values()) for r in rows]


@pytest.mark.parametrize("together", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_streams_meet_within_their_windows(executor: Any, store: str, together: bool) -> None:
    cases = {c["name"]: c for c in rowtime_cases("join") if isinstance(c["input"], dict)}
    given = rows_of(next(iter(cases.values())))
    assert all(rows_of(c) == given for c in cases.values())
    wb = Workbench(SCRIPT, store, spark=executor)
    try:
        for n, (time, table, order) in enumerate(given, 1):
            wb.insert(table, [{"orderid": order, "rowtime": time}])
            if not together and n % 4 == 0:
                wb.step()
        for table in ("_o", "_s"):
            wb.bound(table, at("10:03"))
        wb.step()
        for name, case in cases.items():
            times = [i for i, v in enumerate(case["expected"][0]) if isinstance(v, str)] + [2, 3]
            expected = [
                [at(v) if isinstance(v, str) and i in times else v for i, v in enumerate(row)]
                for row in case["expected"]
            ]
            found = shown(wb.rows(VIEWS[name]))
            assert sorted(found, key=repr) == sorted(expected, key=repr), name
            assert [r[0] for r in found] == sorted(r[0] for r in found), name
            assert wb.batch(VIEWS[name]) == wb.rows(VIEWS[name]), name
        full = {tuple(r.values()) for r in wb.rows(VIEWS["full"])}
        assert full == {(104, 104), (100, 100), (101, None), (102, None), (103, None), (None, 105)}
    finally:
        wb.close()


BATCHES = """CREATE STREAM s (v INT, name STRING);
CREATE STREAM _o (orderid INT);
CREATE STREAM _s (orderid INT);
Sorted := SELECT STREAM v, name FROM s ORDER BY FLOOR(s.ROWTIME TO MINUTE), v, name DESC;
Ties := SELECT STREAM ROWTIME, v FROM s ORDER BY ROWTIME, v DESC;
Pairs := SELECT STREAM o.orderid FROM _o OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS o
         JOIN _s OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS s ON o.orderid = s.orderid;
Alone := SELECT STREAM ROWTIME, o.orderid, s.orderid AS other FROM _o OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS o
         LEFT JOIN _s OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS s ON o.orderid = s.orderid;
CREATE STREAM Trades (amount INT);
_Hours := SELECT DISTINCT FLOOR(rowtime TO HOUR) + INTERVAL 1 HOUR AS ends FROM Trades;
Closed := SELECT h.ends, count(*) AS n FROM _Hours h JOIN Trades t ON t.rowtime BETWEEN h.ends - INTERVAL 1 HOUR
    AND h.ends
          GROUP BY h.ends EMIT STREAM AFTER WATERMARK;
CREATE STREAM Events (event_time TIMESTAMP, ticker STRING, WATERMARK FOR event_time) LATE KEEP;
Stagger := SELECT FLOOR(event_time TO MINUTE) AS m, ticker, count(*) AS n FROM Events
    GROUP BY FLOOR(event_time TO MINUTE), ticker
           EMIT STREAM AFTER DELAY INTERVAL 1 MINUTE;
"""


def case(name: str, kind: str) -> Any:
    return next(c for c in rowtime_cases(kind) if c["name"] == name)


def test_bounds_let_batches_unmatched_rows_and_closed_windows_out(executor: Any, store: str) -> None:
    wb = Workbench(BATCHES, store, spark=executor)
    try:
        wb.clock(at("11:00:20"))
        for text in case("orderby_batch", "orderby")["input"][:2]:
            time, value = text.split(" v=")
            wb.insert("s", [{"v": int(value), "name": n, "rowtime": at(time)} for n in ("a", "b")])
        wb.insert("_o", [{"orderid": 101, "rowtime": at("10:00:00")}])
        wb.insert("Trades", [{"amount": 1, "rowtime": at("11:30")}])
        events = case("stagger_window", "groupby")["input"]
        wb.insert("Events", [{"event_time": at(events[0][1]), "ticker": "X"}])
        wb.step()
        assert wb.rows("Sorted") == []
        assert [r["v"] for r in wb.rows("Ties")] == [3, 3]  # the later time may still get rows
        wb.bound("_s", at("10:01:00"))  # the window is closed at both ends: a shipment at 10:01:00 would still match
        wb.bound("_o", at("10:01:00.001"))
        wb.bound("s", at("10:01:00"))
        wb.bound("Trades", at("12:00"))
        wb.clock(at("11:00:30"))
        wb.insert("Events", [{"event_time": at(events[1][1]), "ticker": "X"}])
        wb.step()
        expected = [int(v.removeprefix("v=")) for v in case("orderby_batch", "orderby")["expected"]]
        assert shown(wb.rows("Sorted")) == [[v, n] for v in expected for n in ("b", "a")]
        assert wb.rows("Alone") == []
        assert wb.rows("Closed") == []  # a trade at 12:00:00.000 would count
        wb.bound("_s", at("10:01:00"), strict=True)
        wb.bound("Trades", at("12:00"), strict=True)
        for time, event in events[2:]:
            wb.clock(at(time))
            wb.insert("Events", [{"event_time": at(event), "ticker": "X"}])
            wb.step()
        assert wb.rows("Alone") == [{"rowtime": at("10:01:00"), "orderid": 101, "other": None}]
        assert [[r["ends"], r["n"]] for r in wb.rows("Closed")] == [[at("12:00"), 1]]
        wb.insert("_o", [{"orderid": 102, "rowtime": at("10:05:00")}])
        wb.clock(at("11:03"))
        wb.step()
        assert wb.rows("Pairs") == []  # the silent side holds
        stagger = [[r["ptime"], r["m"], r["n"]] for r in wb.rows("Stagger")]
        assert stagger == [[at(t), at(m), n] for t, m, n in case("stagger_window", "groupby")["expected"]]
        for view, batch in wb.batches(("Sorted", "Ties", "Alone", "Closed", "Pairs", "Stagger")).items():
            assert batch == wb.rows(view), view
    finally:
        wb.close()


@pytest.mark.parametrize("seed", [1, *at_night([2, 3, 4])])
def test_bounds_and_epochs_never_change_what_meets(executor: Any, seed: int) -> None:
    random = Random(seed)
    times = sorted(random.randint(0, 400) for _ in range(24))
    made = [(t, random.choice(("_o", "_s")), random.randint(1, 4)) for t in times]
    script = (
        SCRIPT if seed > 1 else INPUTS + f"V0 := SELECT STREAM ROWTIME, {QUERIES['full']} ON o.orderid = s.orderid;"
    )
    benches = [Workbench(script, spark=executor) for _ in range(2)]
    try:
        for wb, every, bounds in zip(benches, (4, 24), (True, False), strict=True):
            for n, (second, table, order) in enumerate(made, 1):
                wb.insert(table, [{"orderid": order, "rowtime": at("10:00") + timedelta(seconds=second)}])
                if bounds and random.random() < 0.4:
                    wb.bound(random.choice(("_o", "_s")), at("10:00") + timedelta(seconds=second))
                if n % every == 0:
                    wb.step()
            for table in ("_o", "_s"):
                wb.bound(table, at("12:00"))
            wb.step()
        for view in VIEWS.values() if seed > 1 else ("V0",):
            found, expected = (sorted(map(repr, wb.rows(view))) for wb in benches)
            assert found == expected, view
            assert wb_times(benches[0], view) == sorted(wb_times(benches[0], view))
    finally:
        for wb in benches:
            wb.close()


def wb_times(wb: Workbench, view: str) -> list[Any]:
    return [r["rowtime"] for r in wb.rows(view) if "rowtime" in r]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT STREAM o.orderid FROM _o OVER (ROWS 3 PRECEDING) AS o JOIN _s AS s ON o.orderid = s.orderid", "B5105"),
        (
            "SELECT o.orderid FROM _o OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS o JOIN _s AS s ON o.orderid = "
            "s.orderid",
            "B3027",
        ),
        ("SELECT STREAM o.orderid FROM _o AS o JOIN _s AS s ON o.orderid = s.orderid JOIN _s AS r ON TRUE", "B5011"),
        ("SELECT STREAM o.orderid FROM _o AS o JOIN T ON o.orderid = T.a", "B5011"),
        ("SELECT STREAM o.orderid FROM _o OVER (RANGE INTERVAL 1 MONTH PRECEDING) AS o JOIN _s AS s ON TRUE", "B5002"),
        ("SELECT STREAM orderid FROM _o ORDER BY orderid", "B5016"),
        ("SELECT STREAM orderid FROM _o ORDER BY FLOOR(ROWTIME TO MINUTE) DESC", "B5016"),
        ("SELECT STREAM DISTINCT orderid FROM _o ORDER BY orderid", "B5011"),
    ],
)
def test_what_no_stream_can_be_is_refused(query: str, code: str) -> None:
    text = f"{INPUTS}CREATE TABLE T (a INT, PRIMARY KEY (a));\nV := {query};"
    assert [d.code for d in compile_script(text).diagnostics if d.severity == "error"] == [code]
