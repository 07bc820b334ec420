"""All fifty statements about rowtime bounds: each has a test, and those that no other file plays are played here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.plan.bounds import bounds_of
from belvedere.time.event_time import Clocks, admit, bounds_by_input, log_points, send_bound
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import FOLDER, at
from tests.event_time.test_producers import rows

PLAYED = {
    "test_rows_come_out_in_order_once_no_earlier_one_can_come": """union_waits union_bound_releases
    union_earlier_row_goes_first
        union_pauses_first_set union_bound_1ms_short union_equal_rowtimes bound_never_goes_back named_two_producers
        named_slowest_producer_bound named_p2_late_row_rejected named_p1_closes named_newcomer_barges_in
        named_newcomer_out_of_sequence producer_breaks_own_bound""",
    "test_a_sort_waits_for_greater_times_and_drops_what_comes_after": "tsort_basic tsort_late_dropped tsort_null_ts",
    "test_a_group_comes_out_when_a_row_or_bound_reaches_its_end": """groupby_row_triggers groupby_bound_triggers
        weather_groupby_day weather_groupby_day_bound weather_groupby_city_bound""",
    "test_a_window_over_rowtime_is_closed_at_both_ends_and_comes_out_at_once": "window_sum_with_bounds "
    "weather_over_day_city",
    "test_windows_count_both_ends_and_readers_see_rows_and_bounds": "noon_trade_in_two_windows sliding5s_counts "
    "api_reader",
    "test_streams_meet_within_their_windows": """join2_inner_both_windows join3_right_one_window join5_left_one_window
        join6_left_both_windows""",
    "test_bounds_let_batches_unmatched_rows_and_closed_windows_out": """join_bound_closes_outer join_no_bound_holds
    orderby_batch
        stagger_window closed_window_needs_strict""",
    "test_bounds_epochs_and_restarts_never_change_results": "results_never_change",
    "test_row_operators_pass_bounds_on": "filter_passes_bounds project_passes_bounds implicit_bound split_train",
    "test_late_rows_are_judged_by_the_clock_and_told_at_powers_of_ten": "late_rows_discarded late_row_logging",
    "test_what_no_stream_can_do_is_an_error": """nonmonotonic_rowtime_expr groupby_nonmonotonic_rejected
    tsort_requires_alias
        tsort_type orderby_nonmonotonic union_only""",
    "test_sorted_streams_that_have_an_order_are_fine": "api_sql_cannot",
}
"""Which test plays which statements."""

CASES = {c["name"]: c for c in json.loads((FOLDER / "rowtime_bounds.json").read_text())}


def test_every_statement_is_played() -> None:
    assert len(CASES) == 50
    assert sorted(name for names in PLAYED.values() for name in names.split()) == sorted(CASES)
    texts = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert [test for test in PLAYED if f"def {test}(" not in texts] == []


# -- bounds through row operators, without any engine -----------------------------------------------------------------

ORDERS = """CREATE STREAM Orders (ticker STRING, x INT, y INT);
filter_passes_bounds := SELECT STREAM * FROM Orders WHERE ticker = 'ORCL';
project_passes_bounds := SELECT STREAM rowtime, x + y AS z FROM Orders;
implicit_bound := SELECT STREAM * FROM Orders;
split_train := SELECT STREAM * FROM Orders;
pump := SELECT STREAM * FROM implicit_bound;
"""


def outgoing(catalog: Catalog, view: str, clocks: Clocks) -> int:
    known = bounds_by_input(catalog, clocks)

    def of(relation: str) -> Any:
        return known[relation] if relation in known else bounds_of(catalog.views[relation].plan, of)

    return bounds_of(catalog.views[view].plan, of)["rowtime"]


@pytest.mark.parametrize("name", ["filter_passes_bounds", "project_passes_bounds", "implicit_bound", "split_train"])
def test_row_operators_pass_bounds_on(name: str) -> None:
    catalog, case, clocks = compile_script(ORDERS).catalog, CASES[name], Clocks()
    orders, seen = catalog.inputs["Orders"], []
    for text in case["input"]:
        time = text.split()[-1]
        if text.startswith("bound"):
            clocks = send_bound(clocks, orders, "rowtime", microseconds(at(time)), 0, None, strict=False)
        else:
            clocks = admit(clocks, orders, rows(time), 0).clocks
        seen.append(outgoing(catalog, name, clocks))
        assert outgoing(catalog, "pump", clocks) == seen[-1]
    for text in case["expected"]:
        assert microseconds(at(text.split()[-1])) in seen, text
    assert seen == sorted(seen)
    assert seen[-1] == microseconds(at(case["expected"][-1].split()[-1]))


def test_late_rows_are_judged_by_the_clock_and_told_at_powers_of_ten() -> None:
    catalog, (clock, *late) = compile_script(ORDERS).catalog, CASES["late_rows_discarded"]["input"]
    clocks = admit(Clocks(), catalog.inputs["Orders"], rows(clock.split()[1]), 0).clocks
    found = admit(clocks, catalog.inputs["Orders"], rows(*late), 0)
    assert [late[r.index] for r in found.late] == CASES["late_rows_discarded"]["expected"]["rejected"]
    assert {r.bound for r in found.late} == {microseconds(at("10:00"))}
    assert found.taken.num_rows == 0
    reported = [p for n in range(1000) for p in log_points(n, n + 1)]
    assert reported == CASES["late_row_logging"]["expected"]["log_entries_at"]


# -- what is refused --------------------------------------------------------------------------------------------------

REFUSED = {
    "nonmonotonic_rowtime_expr": (
        "SELECT STREAM CAST(unix_micros(rowtime) % 7 AS TIMESTAMP) AS rowtime FROM s",
        "B5019",
    ),
    "groupby_nonmonotonic_rejected": ("SELECT STREAM prodId, COUNT(*) AS n FROM Orders GROUP BY prodId", "B5011"),
    "tsort_requires_alias": ("SELECT STREAM v FROM s ORDER BY s.ts WITHIN INTERVAL '2' SECOND", "B5016"),
    "tsort_type": ("SELECT STREAM s.n AS ROWTIME FROM s ORDER BY s.n WITHIN INTERVAL '2' SECOND", "B5018"),
    "orderby_nonmonotonic": ("SELECT STREAM ticker FROM trades ORDER BY ticker", "B5016"),
    "union_only": ("SELECT STREAM v FROM s UNION ALL SELECT v FROM t", None),
}
TABLES = """CREATE STREAM s (ts TIMESTAMP, n INT, v INT); CREATE STREAM Orders (prodId INT);
CREATE STREAM trades (ticker STRING); CREATE TABLE t (v INT, PRIMARY KEY (v));
"""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c["kind"] == "validation"])
def test_what_no_stream_can_do_is_an_error(name: str) -> None:
    query, code = REFUSED[name]
    found = [d.code for d in compile_script(f"{TABLES}V := {query};").diagnostics if d.severity == "error"]
    assert found
    assert code is None or found == [code]


def test_sorted_streams_that_have_an_order_are_fine() -> None:
    assert compile_script(f"{TABLES}V := SELECT STREAM ROWTIME, ticker FROM trades ORDER BY ROWTIME, ticker;").ok
    for text in (
        "ALTER STREAM s SET BOUND TIMESTAMP '2020-01-01 00:00:00'",
        "INSERT EXPEDITED INTO s VALUES (1, 2, 3)",
    ):
        assert not compile_script(TABLES + text).ok  # a script neither writes bounds nor reads them (api_sql_cannot)


# -- windows and readers ----------------------------------------------------------------------------------------------

WINDOWS = """CREATE STREAM s (name STRING);
CREATE STREAM t (name STRING);
Noon := SELECT STREAM name, COUNT(*) OVER (RANGE INTERVAL 1 HOUR PRECEDING) AS n FROM s;
Five := SELECT STREAM ROWTIME, COUNT(*) OVER (RANGE INTERVAL 5 SECOND PRECEDING) AS n FROM t;
"""


def test_windows_count_both_ends_and_readers_see_rows_and_bounds(executor: Any, store: str) -> None:
    wb, case = Workbench(WINDOWS, store, spark=executor), CASES["noon_trade_in_two_windows"]
    try:
        for text in case["input"]:
            name, time = text.split()
            wb.insert("s", [{"name": name, "rowtime": at(time)}])
        for second in (1, 2, 6, 7, 8, 8, 8):
            wb.insert("t", [{"name": "x", "rowtime": at(f"0:00:{second}")}])
        wb.step()
        assert {r["name"]: r["n"] for r in wb.rows("Noon")} == case["expected"]["counts"]
        counts = {f"t{r['rowtime'].second}": r["n"] for r in wb.rows("Five")}
        # both ends count: at t6 the row of t1 is still there, and nothing comes out when rows merely fall out
        assert counts == CASES["sliding5s_counts"]["expected"] | {"t6": 3, "t7": 3}
        seen = [reader(wb)]
        wb.bound("s", at("14:00"))
        wb.step()
        seen.append(reader(wb))
        wb.step()
        seen.append(reader(wb))
        assert seen == [
            (True, at("13:00")),
            (False, at("14:00")),
            (False, at("14:00")),
        ]  # a row, a bound, silence (api_reader)
    finally:
        wb.close()


def reader(wb: Workbench) -> tuple[bool, Any]:
    """What a reader of the stream can tell after an epoch: whether there are new rows, and the bound."""
    bound = wb.engine.last.clocks.bound("s", "rowtime")
    times = (at(f"{h}:00") for h in (11, 12, 13, 14))
    return bool(wb.changes("Noon")), next(t for t in times if microseconds(t) == bound)
