"""SELECT STREAM: the recorded cases of unions, named streams with several producers, and sorts, through scripts."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import at, rowtime_cases


class Player:
    """Drives one case: its streams in a script, an epoch per step."""

    def __init__(self, case: dict[str, Any], spark: Any, store: str):
        self.named = case["kind"] == "named_stream"
        names = ["S"] if self.named else sorted({s[1] for s in case["steps"]})
        inputs = "".join(f"CREATE STREAM {n} (ticker STRING);\n" for n in names)
        query = "\nUNION ALL ".join(f"SELECT STREAM ticker, rowtime AS rowtime FROM {n}" for n in names)
        self.wb = Workbench(f"{inputs}Out := {query};", store, spark=spark)
        self.errors: list[list[str]] = []

    def step(self, action: str, name: str, *rest: str) -> None:
        table, producer = ("S", name) if self.named else (name, None)
        match action:
            case "open":
                self.wb.open(table, producer=producer, bound=at(rest[0]) if rest else None)
            case "close":
                self.wb.close(table, producer=producer)
            case "bound":
                self.wb.bound(table, at(rest[0]), producer=producer)
            case _:
                try:
                    self.wb.insert(table, [{"ticker": rest[1], "rowtime": at(rest[0])}], producer=producer)
                except BelvedereError as error:
                    if error.diagnostics[0].code != "B5024":
                        raise
                    self.errors.append([name, *rest])
        self.wb.step()


@pytest.mark.parametrize("case", rowtime_cases("union", "named_stream"), ids=lambda c: c["name"])
def test_rows_come_out_in_order_once_no_earlier_one_can_come(executor: Any, store: str, case: dict[str, Any]) -> None:
    player = Player(case, executor, store)
    try:
        for action, name, *rest, after in case["steps"]:
            player.step(action, name, *rest)
            found = [[r["ticker"], r["rowtime"]] for r in player.wb.rows("Out")]
            assert found == [[t, at(x)] for t, x in after["output_so_far"]], (action, name, *rest)
        assert player.errors == case["expected_errors"]
        assert player.wb.batch("Out") == player.wb.rows("Out")
        player.wb.restart()
        player.wb.step()
        assert len(player.wb.rows("Out")) == len(case["expected_output"])
    finally:
        player.wb.close()


SORT = """CREATE STREAM s (ts TIMESTAMP, v STRING, WATERMARK FOR ts) LATE KEEP;
Out := SELECT STREAM s.ts AS ROWTIME, v FROM s ORDER BY s.ts WITHIN INTERVAL '2' SECOND;
"""


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("case", rowtime_cases("tsort"), ids=lambda c: c["name"])
def test_a_sort_waits_for_greater_times_and_drops_what_comes_after(
    executor: Any, store: str, case: dict[str, Any], together: bool
) -> None:
    rows = [{"ts": None if t is None else at(f"0:00:{t}"), "v": v} for t, v in case["input"]]
    expected = case["expected"]
    wb = Workbench(SORT, store, spark=executor)
    try:
        reported = 0
        for batch in [rows] if together else [[r] for r in rows]:
            wb.bound("s", at("0:30"))  # is ignored
            wb.insert("s", batch)
            wb.step()
            emitted = expected.get("emitted_after", {}).get(batch[-1]["v"])
            if emitted is not None and not together:
                assert [r["v"] for r in wb.rows("Out")][reported:] == emitted
                reported += len(emitted)
        wb.insert("s", [{"ts": at("0:01:00"), "v": "end"}])
        wb.step()
        dropped = set(expected.get("dropped", ()))
        order = expected.get("order") or sorted(r["v"] for r in rows if r["v"] not in dropped)
        assert [r["v"] for r in wb.rows("Out")] == order
        assert wb.batch("Out") == wb.rows("Out")
    finally:
        wb.close()


GROUPS = """CREATE STREAM s (a INT);
CREATE STREAM w (city STRING, temp INT);
Minutes := SELECT STREAM FLOOR(s.ROWTIME TO MINUTE) AS m, COUNT(*) AS n FROM s GROUP BY FLOOR(s.ROWTIME TO MINUTE);
Days := SELECT STREAM FLOOR(w.ROWTIME TO DAY) AS d, MIN(temp) AS lo, MAX(temp) AS hi FROM w
    GROUP BY FLOOR(w.ROWTIME TO DAY);
Cities := SELECT STREAM FLOOR(w.ROWTIME TO DAY) AS d, city, MIN(temp) AS lo, MAX(temp) AS hi
          FROM w GROUP BY FLOOR(w.ROWTIME TO DAY), city;
Ends := SELECT d, rowtime AS t FROM Days;
"""


def weather(name: str) -> Any:
    return next(c for c in rowtime_cases("groupby") if c["name"] == name)


def test_a_group_comes_out_when_a_row_or_bound_reaches_its_end(executor: Any, store: str) -> None:
    wb = Workbench(GROUPS, store, spark=executor)
    try:
        wb.insert("s", [{"a": 1, "rowtime": at("9:59:30")}])
        wb.insert(
            "w", [{"city": c, "temp": n, "rowtime": at(t)} for t, c, n in weather("weather_groupby_day")["input"]]
        )
        wb.step()
        assert wb.rows("Minutes") == []
        days = [[at(d + " 00:00"), lo, hi] for d, lo, hi in weather("weather_groupby_day_bound")["expected"]]
        assert [list(r.values()) for r in wb.rows("Days")] == days[:2]
        cities = [list(r.values()) for r in wb.rows("Cities")]
        assert [r[1] for r in cities] == ["Anchorage", "Denver", "Miami", "Anchorage", "Denver"]
        wb.insert("s", [{"a": 1, "rowtime": at("10:00:00")}])
        wb.bound("w", at("2018-11-04 00:00"))
        wb.step()
        assert wb.rows("Minutes") == [{"m": at("9:59"), "n": 1}]
        assert [list(r.values()) for r in wb.rows("Days")] == days
        last = [[at(f"{r[0]} 00:00"), *r[1:4]] for r in weather("weather_groupby_city_bound")["expected"]]
        assert [list(r.values()) for r in wb.rows("Cities")] == [*cities, *last]
        assert wb.rows("Ends")[-1] == {"d": at("2018-11-03 00:00"), "t": at("2018-11-04 00:00")}
        wb.bound("s", at("10:01"))
        wb.step()
        assert wb.rows("Minutes")[1:] == [{"m": at("10:00"), "n": 1}]
        for view, batch in wb.batches(("Minutes", "Days", "Ends")).items():
            assert batch == wb.rows(view)
    finally:
        wb.close()


WINDOWS = """CREATE STREAM Trades (ticker STRING, amount INT);
CREATE STREAM w (city STRING, temp INT);
Hours := SELECT STREAM ROWTIME, ticker, amount,
                SUM(amount) OVER (PARTITION BY ticker RANGE INTERVAL 1 HOUR PRECEDING) AS total FROM Trades;
Counts := SELECT STREAM ticker, COUNT(*) OVER (RANGE INTERVAL 1 HOUR PRECEDING) AS n FROM Trades;
Days := SELECT STREAM ROWTIME, city, temp, MIN(temp) OVER d AS lo, MAX(temp) OVER d AS hi, AVG(temp) OVER d AS mean
        FROM w WINDOW d AS (PARTITION BY city RANGE INTERVAL 1 DAY PRECEDING);
"""


def test_a_window_over_rowtime_is_closed_at_both_ends_and_comes_out_at_once(executor: Any, store: str) -> None:
    windows = {c["name"]: c for c in rowtime_cases("window")}
    wb = Workbench(WINDOWS, store, spark=executor)
    try:
        for n, text in enumerate(windows["window_sum_with_bounds"]["input"]):
            first, *rest = text.split()
            if first == "bound":
                wb.bound("Trades", at(rest[0]))
            else:
                wb.insert("Trades", [{"ticker": first, "amount": int(rest[0]), "rowtime": at(rest[1])}])
            if n == 0:
                wb.insert(
                    "w",
                    [{"city": c, "temp": d, "rowtime": at(t)} for t, c, d in weather("weather_groupby_day")["input"]],
                )
            wb.step()
        expected = [t.split() for t in windows["window_sum_with_bounds"]["expected"] if not t.startswith("bound")]
        rows = [[r["ticker"], str(r["amount"]), str(r["total"])] for r in wb.rows("Hours")]
        assert rows == [e[:3] for e in expected]
        days = [[at(t), c, *v] for t, c, *v in windows["weather_over_day_city"]["expected"]]
        assert sorted([t, c, lo, hi, int(m)] for t, c, _, lo, hi, m in (r.values() for r in wb.rows("Days"))) == sorted(
            days
        )
        for view, batch in wb.batches(("Hours", "Counts", "Days")).items():
            assert batch == wb.rows(view)
        before = wb.rows("Counts")
        wb.open("Trades", producer="slow")
        wb.insert("Trades", [{"ticker": t, "amount": 1, "rowtime": at(x)} for t, x in (("a", "12:00"), ("b", "13:00"))])
        wb.step()
        assert wb.rows("Counts") == before  # another producer may still send earlier rows
        wb.insert("Trades", [{"ticker": "c", "amount": 1, "rowtime": at("12:30")}], producer="slow")
        wb.step()
        wb.close("Trades", producer="slow")
        wb.step()
        assert wb.rows("Counts")[len(before) :] == [
            {"ticker": "a", "n": 2},
            {"ticker": "c", "n": 2},
            {"ticker": "b", "n": 3},
        ]
        assert wb.batch("Counts") == wb.rows("Counts")
    finally:
        wb.close()
