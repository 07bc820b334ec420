"""Sessions that have ended below the bound leave the store; the others, and all views, are as if they were there."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import explain
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.event_time.cases import at

START = at("8:00")
BID = "CREATE STREAM {} (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime){};\n"
RUNS = (
    "Runs := SELECT item, wstart, wend FROM Session(data => TABLE({}), timecol => DESCRIPTOR(bidtime), {}gap => "
    "INTERVAL '4' MINUTES);\n"
)
KEY = "key => DESCRIPTOR(item), "


def rules(script: str, options: Options | None = None) -> list[str]:
    return [s.rule for s in maintain(compile_script(script).catalog, options).stages if s.owner == "Runs"]


def test_sessions_are_open_where_a_bound_ends_them() -> None:
    script = BID.format("_Bid", "") + RUNS.format("_Bid", KEY)
    assert rules(script) == ["sessions", "linear"]
    assert rules(BID.format("_Bid", "") + RUNS.format("_Bid", "")) == ["sessions", "linear"]
    assert rules(script, Options(expire=False)) == ["linear", "keyed"]
    assert rules(BID.format("_Bid", " LATE KEEP") + RUNS.format("_Bid", KEY)) == ["linear", "keyed"]
    assert rules("CREATE STREAM _Bid (bidtime TIMESTAMP, item STRING);\n" + RUNS.format("_Bid", KEY)) == [
        "linear",
        "keyed",
    ]
    catalog = compile_script(script).catalog
    reported = next(e for e in explain(catalog, maintain(catalog)) if e.name == "Runs")
    assert reported.stages[0].rule == "sessions"
    assert "they leave once they end below the watermark of _Bid.bidtime" in reported.stages[0].reason
    assert reported.state[0].bound == "rows leave once session.wend is below its watermark, which follows _Bid.bidtime"


def minutes(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    def minute(time: datetime) -> int:
        return (time - START) // timedelta(minutes=1)

    return sorted((r["item"], minute(r["wstart"]), minute(r["wend"])) for r in rows)


@pytest.mark.usefixtures("each_store")
def test_a_session_is_final_at_its_end_and_not_before(executor: Any) -> None:
    wb = Workbench(BID.format("_Bid", "") + RUNS.format("_Bid", KEY), spark=executor)
    just_above = timedelta(milliseconds=1) / timedelta(minutes=1)

    def step(bids: list[tuple[str, float]], bound: float, strict: bool = False) -> int:
        wb.insert("_Bid", [{"bidtime": START + timedelta(minutes=m), "price": 1, "item": i} for i, m in bids])
        wb.bound("_Bid", START + timedelta(minutes=bound), strict=strict)
        wb.step()
        return wb.engine.counts()["Runs$1"]

    assert step([("A", 1), ("A", 3), ("B", 2)], 4) == 3
    assert step([("A", 6)], 6) == 4  # B ends at 6: a bid at 6 would still belong to it
    assert step([], 6, strict=True) == 3  # now none can come
    assert step([("B", 6 + just_above)], 6 + just_above) == 4
    assert minutes(wb.rows("Runs")) == [("A", 1, 10), ("A", 1, 10), ("A", 1, 10), ("B", 2, 6), ("B", 6, 10)]
    wb.restart()
    assert step([], 10) == 4
    assert step([("A", 10)], 10) == 5  # exactly the gap after the last: the same session
    assert step([], 10, strict=True) == 5
    assert step([], 10 + just_above, strict=True) == 4  # B ended
    assert minutes(wb.rows("Runs")) == [("A", 1, 14)] * 4 + [("B", 2, 6), ("B", 6, 10)]
    assert step([], 60) == 0
    assert step([("A", 60)], 60) == 1
    assert minutes(wb.rows("Runs")) == [("A", 1, 14)] * 4 + [("A", 60, 64), ("B", 2, 6), ("B", 6, 10)]
    assert minutes(wb.batch("Runs")) == minutes(wb.rows("Runs"))
    wb.close()


SCRIPT = f"""{BID.format("_Bid", "")}CREATE STREAM _Ask (asktime TIMESTAMP, item STRING, WATERMARK FOR asktime);
{RUNS.format("_Bid", KEY)}
All := SELECT price, bidtime, wstart, wend FROM Session(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime),
    gap => INTERVAL '1' MINUTES);
Longest := SELECT item, wstart, wend, median(price) AS p, max(bidtime) AS last
           FROM Session(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime), key => DESCRIPTOR(item, price),
           gap => INTERVAL '6' MINUTES)
           GROUP BY item, wstart, wend;
Many := SELECT item, wend, count(*) AS n FROM Session(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime),
    key => DESCRIPTOR(item),
        gap => INTERVAL '3' MINUTES) WHERE price > 3 GROUP BY item, wend
            EMIT STREAM AFTER DELAY INTERVAL 2 MINUTES AND AFTER WATERMARK;
_Met := SELECT b.item, b.bidtime, a.asktime FROM _Bid b LEFT JOIN _Ask a
        ON a.item = b.item AND a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 3 MINUTES;
Met := SELECT item, bidtime, asktime, wstart, wend FROM Session(data => TABLE(_Met), timecol => DESCRIPTOR(bidtime),
       key => DESCRIPTOR(item, asktime), gap => INTERVAL '5' MINUTES);
"""
VIEWS = ("Runs", "All", "Longest", "Many", "Met")


@pytest.mark.parametrize(("store", "seed"), STORES_AND_SEEDS, indirect=["store"])
def test_sessions_are_the_same_with_and_without_those_that_left(executor: Any, store: str, seed: int) -> None:
    """Rows come and go too: those of a join move from a session of bids without an ask to one of bids with it."""
    random, low = Random(seed), 0
    benches = [
        Workbench(SCRIPT, store, spark=executor),
        Workbench(SCRIPT, spark=executor, options=Options(expire=False)),
    ]
    try:
        for epoch in range(4 if seed == 1 else 12):
            bids = [
                (random.choice("ABC"), random.randint(1, 6), low + random.expovariate(0.1))
                for _ in range(random.randint(0, 7))
            ]
            asks = [(random.choice("ABC"), low + random.expovariate(0.1)) for _ in range(random.randint(0, 5))]
            bound = low + random.randint(0, 8)
            for wb in benches:
                wb.clock(START + timedelta(minutes=epoch))
                wb.insert(
                    "_Bid", [{"bidtime": START + timedelta(minutes=m), "price": p, "item": i} for i, p, m in bids]
                )
                wb.insert("_Ask", [{"asktime": START + timedelta(minutes=m), "item": i} for i, m in asks])
                for table in ("_Bid", "_Ask"):
                    wb.bound(table, START + timedelta(minutes=bound))
                wb.step()
            low = bound
            if epoch == 2:
                benches[0].restart()
            for view in VIEWS:
                found, expected = (sorted(map(repr, wb.rows(view))) for wb in benches)
                assert found == expected, (view, epoch)
        sizes = benches[0].engine.counts()
        open_ones = {n: sizes[n] for n, r in benches[0].pipeline.relations.items() if "session.wend" in r.final}
        assert len(open_ones) >= len(VIEWS)
        assert sum(open_ones.values()) < sum(len(benches[1].rows(v)) for v in VIEWS)
        for view, batch in benches[0].batches(VIEWS).items():
            assert sorted(map(repr, batch)) == sorted(map(repr, benches[0].rows(view))), view
    finally:
        for wb in benches:
            wb.close()


def test_a_view_that_is_added_sees_sessions_that_had_left(executor: Any, tmp_path: Path) -> None:
    url, script = f"sqlite:///{tmp_path}/store.db", BID.format("Bid", "") + RUNS.format("Bid", KEY)
    wb = Workbench(script, url, spark=executor)
    wb.insert("Bid", [{"bidtime": START + timedelta(minutes=m), "price": m, "item": "A"} for m in (1, 3, 20)])
    wb.bound("Bid", START + timedelta(minutes=20))
    wb.step()
    assert wb.engine.counts()["Runs$1"] == 1
    wb.close()
    added = "Sums := SELECT wend, sum(price) AS p FROM Session(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), "
    wb = Workbench(script + added + KEY + "gap => INTERVAL '4' MINUTES) GROUP BY wend;\n", url, spark=executor)
    wb.insert("Bid", [{"bidtime": START + timedelta(minutes=22), "price": 5, "item": "A"}])
    wb.step()
    assert sorted((r["wend"], r["p"]) for r in wb.rows("Sums")) == [(at("8:07"), 4), (at("8:26"), 25)]
    assert minutes(wb.rows("Runs")) == [("A", 1, 7), ("A", 1, 7), ("A", 20, 26), ("A", 20, 26)]
    wb.close()
