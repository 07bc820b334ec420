"""Random bids with random bounds, epochs and restarts: bounds change when results appear and never which."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from belvedere.rules.emit.emit import EMITTED, GROUPS
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests.depth import stores_by_turns
from tests.event_time.cases import at

START = at("8:00")
WINDOW = "Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES)"
SUMS = f"SELECT wend, item, sum(price) AS price, count(*) AS n FROM {WINDOW} GROUP BY wend, item"
SCRIPT = f"""CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);
CREATE TABLE Item (item STRING, rate INT, PRIMARY KEY (item));
Sums := {SUMS};
Log := {SUMS} EMIT STREAM;
Complete := {SUMS} EMIT AFTER WATERMARK;
Once := {SUMS} EMIT STREAM AFTER WATERMARK;
Later := {SUMS} EMIT STREAM AFTER DELAY INTERVAL '4' MINUTES;
Both := {SUMS} EMIT AFTER DELAY INTERVAL '4' MINUTES AND AFTER WATERMARK;
Rated := SELECT s.wend, s.item, s.price * i.rate AS price FROM Sums s JOIN Item i ON i.item = s.item EMIT STREAM;
Changes := SELECT undo AS taken_back, count(*) AS n FROM (SELECT wend, price FROM Sums EMIT STREAM) x GROUP BY undo
    EMIT STREAM;
Ordered := SELECT STREAM bidtime, price FROM Bid;
"""

LOGS = {"Log": "Sums", "Rated": None, "Later": None, "Once": "Complete", "Changes": None}


@dataclass(frozen=True)
class Event:
    """What happens at one time: bids, an item's rate, a bound."""

    minute: int
    bids: tuple[tuple[int, int, str | None], ...]
    rate: tuple[str, int] | None
    bound: int | None


def events(random: Random, size: int) -> list[Event]:
    """Bids never below the bound that was sent before them."""
    made, low = [], 0
    for n in range(size):
        minute = n * 3 + random.randint(0, 2)
        bids = tuple(
            (random.randint(low, low + 25), random.randint(1, 9), random.choice(["A", "B", None]))
            for _ in range(random.randint(0, 3))
        )
        bound = low = random.randint(low, low + 12) if random.random() < 0.7 else low
        rate = (random.choice("AB"), random.randint(1, 3)) if random.random() < 0.4 else None
        made.append(Event(minute, bids, rate, bound))
    return made


def time(minute: int) -> Any:
    return START + timedelta(minutes=minute)


def feed(wb: Workbench, event: Event, bounds: bool) -> None:
    wb.insert("Bid", [{"bidtime": time(t), "price": p, "item": i} for t, p, i in event.bids])
    if event.rate:
        wb.insert("Item", [{"item": event.rate[0], "rate": event.rate[1]}])
    if bounds and event.bound is not None:
        wb.bound("Bid", time(event.bound))


def run(
    spark: Any,
    made: list[Event],
    *,
    bounds: bool,
    every: int,
    restart: float,
    seed: int,
    forget: bool = True,
    url: str = "sqlite://",
) -> Workbench:
    """Play the events, an epoch after `every` of them; at the end everything is complete."""
    wb, random = Workbench(SCRIPT, url, spark=spark, options=Options(expire=forget)), Random(seed)
    for n, event in enumerate(made, 1):
        wb.clock(time(event.minute))
        feed(wb, event, bounds)
        if n % every == 0 or n == len(made):
            wb.step()
            if random.random() < restart:
                wb.restart()
    wb.clock(time(1000))
    wb.bound("Bid", time(1000))
    wb.step()
    return wb


def stored(wb: Workbench, relation: str) -> int:
    return wb.engine.counts()[relation]


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(r) for r in rows)


def folded(log: list[dict[str, Any]]) -> Counter[str]:
    """The rows that a changelog leaves."""
    found: Counter[str] = Counter()
    for row in log:
        kept = {k: v for k, v in row.items() if k not in ("undo", "ptime", "ver")}
        found[repr(kept)] += -1 if row["undo"] else 1
        assert found[repr(kept)] >= 0, "taken back before it was there"
    return +found


def check_log(log: list[dict[str, Any]], group: str) -> None:
    """Versions count per group from 0, processing time never falls."""
    seen: Counter[Any] = Counter()
    assert [r["ptime"] for r in log] == sorted(r["ptime"] for r in log)
    for row in log:
        assert row["ver"] == seen[row[group]]
        seen[row[group]] += 1


def left(log: list[dict[str, Any]], wend: Any, at_: Any) -> Counter[str]:
    """The rows of a group that a changelog leaves at a time."""
    return folded([r for r in log if r["wend"] == wend and r["ptime"] <= at_])


def check_delay(log: list[dict[str, Any]], later: list[dict[str, Any]], delay: timedelta) -> None:
    """Emissions of a group are at least the delay apart; what is shown was the case no longer ago than that."""
    for wend in {r["wend"] for r in log}:
        times = sorted({r["ptime"] for r in later if r["wend"] == wend})
        assert all(b - a >= delay for a, b in pairwise(times)), wend
        changes = sorted({r["ptime"] for r in log if r["wend"] == wend})
        for now in sorted({*times, *changes, *(t + delay for t in changes)}):
            recent = [now - delay, *(t for t in changes if now - delay < t <= now)]
            shown = left(later, wend, now)
            assert any(shown == left(log, wend, t) for t in recent), (wend, now)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1])
def test_bounds_epochs_and_restarts_never_change_results(executor: Any, store: str, seed: int) -> None:
    made = events(Random(seed), 6)
    fine = run(executor, made, bounds=True, every=1, restart=0.0, seed=seed)
    again = run(executor, made, bounds=True, every=1, restart=0.7, seed=seed, forget=False, url=store)
    coarse = run(executor, made, bounds=False, every=4, restart=0.0, seed=seed)
    try:
        for view in ("Sums", "Complete", "Both", "Ordered"):
            assert bag(fine.rows(view)) == bag(coarse.rows(view)), view
        assert [r["bidtime"] for r in fine.rows("Ordered")] == [r["bidtime"] for r in coarse.rows("Ordered")]
        assert (
            bag(fine.rows("Sums")) == bag(fine.rows("Complete")) == bag(fine.rows("Both")) == folded(fine.rows("Later"))
        )
        for view, table in LOGS.items():
            log = fine.rows(view)
            assert log == again.rows(view), view
            if table is not None:
                assert folded(log) == bag(fine.rows(table)), view
        for view in ("Log", "Rated", "Later", "Once"):
            check_log(fine.rows(view), "wend")
        check_delay(fine.rows("Log"), fine.rows("Later"), timedelta(minutes=4))
        once = fine.rows("Once")
        assert not any(r["undo"] for r in once)
        assert len({(r["wend"], r["item"]) for r in once}) == len(once)
        for view, suffix in (
            ("Log", GROUPS),
            ("Once", GROUPS),
            ("Once", EMITTED),
            ("Later", GROUPS),
            ("Later", EMITTED),
        ):
            assert stored(fine, view + suffix) == 0 < stored(again, view + suffix), (view, suffix)
        assert stored(fine, "Rated" + GROUPS) == stored(again, "Rated" + GROUPS)  # an item's rate may still change
        for view, batch in fine.batches(("Complete", "Both", "Later", "Rated", "Changes", "Ordered")).items():
            assert bag(batch) == bag(fine.rows(view)), view
    finally:
        for wb in (fine, again, coarse):
            wb.close()


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(2, 8)), indirect=["each_store"])
def test_more_random_bids(spark: Any, seed: int) -> None:
    test_bounds_epochs_and_restarts_never_change_results(spark, "sqlite://", seed)
