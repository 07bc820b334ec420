"""EMIT in all its forms: every table of the paper at every time, and what the paper leaves open."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.event_time.bids import FORMS, INPUT, LISTINGS, QUERIES, STREAMS, SUM, feed, play, script, shown
from tests.event_time.cases import at, bid_cases

AFTER_DELAY = {
    "sum": {"8:13": [], "8:15": [["8:00", "8:10", 6]], "8:19": [["8:00", "8:10", 6], ["8:10", "8:20", 10]]},
    "q7": {
        "8:13": [],
        "8:15": [["8:00", "8:10", "8:05", 4, "C"]],
        "8:19": [["8:00", "8:10", "8:05", 4, "C"], ["8:10", "8:20", "8:17", 6, "F"]],
    },
}


def compare(wb: Workbench, time: str) -> None:
    """Every view against the recorded tables of that time, and the changelogs up to it."""
    for query in QUERIES:
        cases = bid_cases()[query]
        for form in ("table", "table_after_watermark"):
            if time in cases[form]:
                assert sorted(shown(wb.rows(f"{query}_{form}"))) == cases[form][time], (query, form, time)
        delayed = AFTER_DELAY[query] | {"8:21": cases["table"]["8:21"]}
        if time in delayed:
            assert sorted(shown(wb.rows(f"{query}_table_after_delay"))) == delayed[time], (query, time)
        if time in ("8:16", "8:21"):
            assert sorted(shown(wb.rows(f"{query}_table_after_both")))[:1] == cases["table"][time][:1]
        for form in STREAMS:
            log = [row for row in cases[form] if at(row[-2]) <= at(time)]
            assert sorted(shown(wb.rows(f"{query}_{form}")), key=place) == sorted(log, key=place), (query, form, time)


def place(row: list[Any]) -> tuple[Any, ...]:
    return (*row[:2], row[-1])


@pytest.mark.parametrize("restarts", [4, *at_night([0, 1])])
def test_every_table_of_the_paper_at_every_time(executor: Any, store: str, restarts: int) -> None:
    """A restart after each so many epochs."""
    wb = Workbench(script(), store, spark=executor)
    try:
        for epoch, time in enumerate(play(wb), 1):
            compare(wb, time)
            if restarts and epoch % restarts == 0:
                wb.restart()
        for query in QUERIES:
            for form in STREAMS:
                ptimes = [r["ptime"] for r in wb.rows(f"{query}_{form}")]
                assert ptimes == sorted(ptimes)
        for name in LISTINGS:
            assert sorted(shown(wb.rows(name)), key=repr) == sorted(bid_cases()[name], key=repr), name
        if not restarts:
            compared = ("sum_table_after_both", *(f"sum_{f}" for f in STREAMS), "q7_emit_stream_after_delay_6m")
            for view, batch in wb.batches(compared).items():
                assert batch == wb.rows(view), view
    finally:
        wb.close()


def test_a_delay_that_fell_due_between_epochs_fires_first_on_the_rows_before(executor: Any, store: str) -> None:
    wb = Workbench(f"{INPUT} D := {SUM} {FORMS['emit_stream_after_delay_6m']};", store, spark=executor)
    try:
        for time, row in (("8:08", ["8:07", 2, "A"]), ("8:12", ["8:11", 3, "B"]), ("8:30", ["8:09", 5, "D"])):
            wb.clock(at(time))
            feed(wb, "I", row)
            wb.step()
        early = [["8:00", "8:10", 2, "", "8:14", 0], ["8:10", "8:20", 3, "", "8:18", 0]]
        assert shown(wb.rows("D")) == early
        wb.clock(at("8:36"))
        wb.step()
        assert shown(wb.rows("D")) == [
            *early,
            ["8:00", "8:10", 2, "undo", "8:36", 1],
            ["8:00", "8:10", 7, "", "8:36", 2],
        ]
    finally:
        wb.close()


def test_a_row_that_goes_over_to_another_group_is_emitted_with_each_group(executor: Any, store: str) -> None:
    """Each group fires at its own time: until then the row is still shown where it was."""
    windows = "SELECT * FROM Tumble(data => TABLE(T), timecol => DESCRIPTOR(ts), dur => INTERVAL '10' MINUTES)"
    wb = Workbench(
        f"""CREATE TABLE T (id INT PRIMARY KEY, ts TIMESTAMP, v INT, WATERMARK FOR ts);
        D := {windows} EMIT AFTER DELAY INTERVAL 5 MINUTES; E := {windows} EMIT STREAM AFTER DELAY INTERVAL 5 MINUTES;
        S := {windows} EMIT STREAM;""",
        store,
        spark=executor,
    )
    steps = [("8:00", [1, "8:01", 1]), ("8:06", [2, "8:11", 1]), ("8:08", [1, "8:12", 2]), ("8:11", []), ("8:20", [])]
    emitted = {
        "8:06": ["8:00 1 1"],
        "8:08": ["8:00 1 1"],
        "8:11": ["8:00 1 1", "8:10 1 2", "8:10 2 1"],
        "8:20": ["8:10 1 2", "8:10 2 1"],
    }
    try:
        for time, row in steps:
            wb.clock(at(time))
            if row:
                wb.insert("T", [{"id": row[0], "ts": at(str(row[1])), "v": row[2]}])
            wb.step()
            found = sorted(f"{r['wstart']:%-H:%M} {r['id']} {r['v']}" for r in wb.rows("D"))
            assert found == emitted.get(time, []), time
            assert sorted(map(str, wb.batch("D"))) == sorted(map(str, wb.rows("D")))
            for name, batch in wb.batches("ES").items():
                assert batch == wb.rows(name), (name, time)
    finally:
        wb.close()
