"""State below the bounds expires: results are the same with and without expiry, and little state remains."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.cli import run
from belvedere.compiler import compile_script
from belvedere.engine.expiry import final_below, final_results_below
from belvedere.errors import BelvedereError
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import explain
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.nodes import Scan
from belvedere.rules.emit.emit import EMITTED, GROUPS
from belvedere.rules.merge.merge_rule import SUFFIX as STATE
from belvedere.rules.options import Options
from belvedere.schema import HISTORY
from belvedere.time.past_bounds import PastBounds
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.event_time.cases import at

START = at("8:00")
INPUTS = """
CREATE STREAM _Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);
CREATE STREAM _Ask (asktime TIMESTAMP, price INT, item STRING, WATERMARK FOR asktime AS asktime - INTERVAL 10 MINUTES);
CREATE STREAM _Note (notetime TIMESTAMP, item STRING, WATERMARK FOR notetime) LATE KEEP;
CREATE TABLE Item (item STRING, rate INT, PRIMARY KEY (item));
"""
TUMBLE = "Tumble(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES)"
HOP = (
    "Hop(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '5' "
    "MINUTES)"
)
SESSION = "Session(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime)"
RUNS = f"{SESSION}, key => DESCRIPTOR(item), gap => INTERVAL '4' MINUTES)"
NEAR = "a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 5 MINUTES"
VIEWS = f"""
Sums := SELECT wend, item, sum(price) AS p, count(*) AS n FROM {TUMBLE} GROUP BY wend, item WITH HISTORY;
Distinct := SELECT wend, sum(DISTINCT price) AS p FROM {HOP} GROUP BY wend;
Complete := SELECT wend, count(DISTINCT item) AS n FROM {TUMBLE} GROUP BY wend EMIT STREAM AFTER WATERMARK;
Delayed := SELECT wend, sum(DISTINCT price) AS n FROM {TUMBLE} GROUP BY wend EMIT STREAM AFTER DELAY INTERVAL 4 MINUTES;
Early := SELECT wend, count(DISTINCT item) AS n FROM {TUMBLE} GROUP BY wend
    EMIT AFTER DELAY INTERVAL 3 MINUTES AND AFTER WATERMARK;
Pairs := SELECT b.item, b.bidtime, b.price, a.price AS ask FROM _Bid b JOIN _Ask a ON a.item = b.item AND {NEAR};
Lefts := SELECT b.item, b.bidtime, b.price, a.price AS ask FROM _Bid b LEFT JOIN _Ask a ON a.item = b.item AND {NEAR};
Rights := SELECT a.item, a.asktime, b.bidtime, b.price FROM _Bid b RIGHT JOIN _Ask a ON a.item = b.item AND {NEAR};
Fulls := SELECT b.item, b.bidtime, a.asktime, a.price AS ask FROM _Bid b FULL JOIN _Ask a ON a.item = b.item AND {NEAR};
Lonely := SELECT b.item, b.bidtime FROM _Bid b WHERE NOT EXISTS (SELECT 1 FROM _Ask a WHERE a.item = b.item AND {NEAR});
Timeless := SELECT b.item, a.price AS ask FROM _Bid b LEFT JOIN _Ask a ON a.item = b.item AND {NEAR};
Unasked := SELECT b.item FROM _Bid b WHERE NOT EXISTS (SELECT 1 FROM _Ask a WHERE a.item = b.item AND {NEAR});
Halves := SELECT b.item, a.price AS ask FROM _Bid b FULL JOIN _Ask a ON a.item = b.item AND {NEAR};
Answers := SELECT b.item, count(*) AS n, sum(a.price) AS p FROM _Bid b LEFT JOIN _Ask a ON a.item = b.item AND {NEAR}
    GROUP BY b.item;
Unequal := SELECT b.item, a.price AS ask FROM _Bid b LEFT JOIN _Ask a ON a.price > b.price AND {NEAR};
_Sums := SELECT wend, item, count(DISTINCT price) AS p FROM {TUMBLE} GROUP BY wend, item;
Best := SELECT wend, max(p) AS p, median(p) AS m FROM _Sums GROUP BY wend;
Runs := SELECT item, wstart, wend FROM {RUNS};
Stays := SELECT item, wstart, wend, sum(DISTINCT price) AS n FROM {RUNS} GROUP BY item, wstart, wend;
Ends := SELECT wend, count(*) AS n FROM {SESSION}, gap => INTERVAL '1' MINUTES) GROUP BY wend
    EMIT STREAM AFTER WATERMARK;
_Near := SELECT b.item, b.bidtime, a.price AS ask FROM _Bid b LEFT JOIN _Ask a ON a.item = b.item AND {NEAR};
Met := SELECT item, ask, bidtime, wstart, wend FROM Session(data => TABLE(_Near), timecol => DESCRIPTOR(bidtime),
       key => DESCRIPTOR(item), gap => INTERVAL '4' MINUTES);
Heard := SELECT item, notetime, wend FROM Session(data => TABLE(_Note), timecol => DESCRIPTOR(notetime),
    key => DESCRIPTOR(item),
         gap => INTERVAL '9' MINUTES);
Rates := SELECT b.bidtime, b.item, i.rate FROM _Bid b JOIN Item i ON i.item = b.item;
Ranks := SELECT item, price, bidtime, rank() OVER (PARTITION BY wstart ORDER BY price) AS n FROM {TUMBLE};
Notes := SELECT FLOOR(notetime TO HOUR) AS hour, array_sort(collect_set(item)) AS n FROM _Note
    GROUP BY FLOOR(notetime TO HOUR);
Noted := SELECT n.item, n.notetime, a.price FROM _Note n JOIN _Ask a
         ON n.item = a.item AND n.notetime BETWEEN a.asktime - INTERVAL 5 MINUTES AND a.asktime;
"""
SCRIPT = INPUTS + VIEWS
NAMES = [line.split(" :=")[0] for line in VIEWS.splitlines() if ":=" in line and not line.startswith("_")]


def catalog(text: str = SCRIPT) -> Catalog:
    return compile_script(text).catalog


def state_of(catalog_: Catalog, view: str) -> dict[str, tuple[str, ...]]:
    """The private relations of a view by name, with the columns whose bounds free them; its history is a result."""
    pipeline = maintain(catalog_)
    found = {n: r.final for n, r in pipeline.relations.items() if n.startswith(f"{view}$") and r.stored}
    assert found.pop(f"{view}{HISTORY}", ()) == ()
    return found


@pytest.mark.parametrize(
    ("view", "freed"),
    [
        ("Sums", {"Sums$state": ("tumble.wend",)}),
        ("Distinct", {"Distinct$1": ("hop.wend",)}),
        (
            "Delayed",
            {"Delayed$1": ("wend",), "Delayed$2": ("tumble.wend",), "Delayed$groups": (), "Delayed$emitted": ()},
        ),
        (
            "Complete",
            {f"Complete${n}{STATE}": ("tumble.wend",) for n in "12"}
            | {
                "Complete$1": ("wend",),
                "Complete$groups": (),
                "Complete$emitted": (),
            },  # a merge alone reads Complete$2
        ),
        ("Pairs", {"Pairs$1": ("b.bidtime",), "Pairs$2": ("a.asktime",)}),
        ("Lefts", {"Lefts$1": ("b.bidtime",), "Lefts$2": ("a.asktime",)}),
        ("Fulls", {"Fulls$1": ("b.bidtime",), "Fulls$2": ("a.asktime",)}),
        ("Lonely", {"Lonely$1": ("b.bidtime",), "Lonely$2": ("a.asktime",)}),
        ("Timeless", {"Timeless$1": ("b.bidtime",), "Timeless$2": ("a.asktime",)}),  # the result has the time hidden
        ("Unasked", {"Unasked$1": ("b.bidtime",), "Unasked$2": ("a.asktime",)}),
        ("Halves", {"Halves$1": ("b.bidtime",), "Halves$2": ("a.asktime",)}),
        (
            "Answers",
            {
                "Answers$1": ("b.bidtime",),
                "Answers$2": ("b.bidtime",),
                "Answers$3": ("a.asktime",),
                "Answers$state": (),
            },
        ),
        ("Unequal", {f"Unequal${n}": ("a.asktime" if n == 3 else "b.bidtime",) for n in (1, 2, 3, 4)}),
        ("Runs", {"Runs$1": ("session.wend",)}),
        ("Stays", {"Stays$1": ("session.wend",)}),
        ("Heard", {"Heard$1": ()}),  # a late note may join two sessions
        ("Rates", {"Rates$1": ()}),  # a rate may always change
        ("Ranks", {"Ranks$1": ("tumble.wstart",)}),
        ("Notes", {"Notes$1": ()}),  # late notes are kept
        ("Noted", {"Noted$1": ("n.notetime",), "Noted$2": ()}),
    ],
)
def test_what_each_operator_may_forget(view: str, freed: dict[str, tuple[str, ...]]) -> None:
    line = next(part for part in VIEWS.split(";") if part.strip().startswith(f"{view} :="))
    own = catalog(INPUTS + line + ";")
    assert state_of(own, view) == freed
    off = maintain(own, Options(expire=False))
    assert not any(r.final for r in off.relations.values())
    reported = {s.relation: s.bound for e in explain(own, maintain(own)) for s in e.state}
    for name, columns in freed.items():
        assert ("is below its watermark" in reported[name]) == bool(columns)
        assert ("never freed" in reported[name]) == (not columns and not name.endswith((GROUPS, EMITTED, STATE))), (
            reported[name]
        )
    if view == "Runs":
        assert reported["Runs"].startswith("the view's own rows")
    if view == "Notes":
        assert reported["Notes$1"].endswith("; never freed: rows of _Note can change below the watermark")
    if view == "Sums":
        assert (
            reported["Sums$state"] == "rows leave once tumble.wend is below its watermark, which follows _Bid.bidtime"
        )


def test_a_side_of_a_join_waits_for_the_last_row_that_it_can_match() -> None:
    line = next(part for part in VIEWS.split(";") if part.strip().startswith("Pairs :="))
    pipeline = maintain(catalog(INPUTS + line + ";"))
    bounds = {
        "_Bid": {"bidtime": microseconds(at("9:00"))},
        "_Ask": {"asktime": microseconds(at("8:30"))},
        "Item": None,
    }

    def known(relation: str) -> Any:
        return bounds.get(relation, {})

    found = final_below(pipeline, known)
    assert found["Pairs$1"] == {"b.bidtime": microseconds(at("8:25"))}  # asks may come from 8:30 on: bids since 8:25
    assert found["Pairs$2"] == {"a.asktime": microseconds(at("9:00"))}
    bounds["_Ask"] = {"asktime": NEVER}
    assert final_below(pipeline, known)["Pairs$1"] == {"b.bidtime": NEVER}


@pytest.mark.parametrize(
    ("view", "bids", "asks", "final_results"),
    [
        ("Lefts", "8:25", "8:25", {"bidtime": "8:25"}),  # a bid of 8:25 may still get an ask of 8:30
        (
            "Rights",
            "8:25",
            "8:30",
            {"asktime": "8:30"},
        ),  # no ask comes below 8:30, and none of a later one needs older bids
        ("Fulls", "8:25", "8:25", {"bidtime": "8:25", "asktime": "8:30"}),
        ("Lonely", "8:25", "8:25", {"bidtime": "8:25"}),
    ],
)
def test_both_sides_of_an_outer_join_leave_with_the_results_that_stand(
    view: str, bids: str, asks: str, final_results: dict[str, str]
) -> None:
    line = next(part for part in VIEWS.split(";") if part.strip().startswith(f"{view} :="))
    pipeline = maintain(catalog(INPUTS + line + ";"))
    bounds = {"_Bid": {"bidtime": microseconds(at("9:00"))}, "_Ask": {"asktime": microseconds(at("8:30"))}}
    found = final_below(pipeline, lambda i: bounds.get(i, {}))
    assert found[f"{view}$1"] == {"b.bidtime": microseconds(at(bids))}
    assert found[f"{view}$2"] == {"a.asktime": microseconds(at(asks))}
    below = final_results_below(pipeline, lambda i: bounds.get(i, {}))
    assert below == {view: {n: microseconds(at(t)) for n, t in final_results.items()}}
    off = maintain(catalog(INPUTS + line + ";"), Options(expire=False))
    assert final_results_below(off, lambda i: bounds.get(i, {})) == {}


def test_rows_that_a_delay_has_yet_to_emit_stay() -> None:
    line = next(part for part in VIEWS.split(";") if part.strip().startswith("Delayed :="))
    pipeline = maintain(catalog(INPUTS + line + ";"))
    delay = 4 * 60_000_000
    assert pipeline.delays == {delay}
    now, past = microseconds(at("10:00")), PastBounds(pipeline.delays)

    def bounds(time: str) -> dict[str, Any]:
        return {"_Bid": {"bidtime": microseconds(at(time))}}

    def freed(clock: int) -> Any:
        found = final_below(pipeline, lambda i: bounds("9:40").get(i, {}), lambda d: past.before(clock, d))
        return found.get("Delayed$1")

    assert freed(now) is None  # after a restart nothing is known of former bounds
    past.note(now, bounds("9:25"))
    assert freed(now + delay - 1) is None
    past.note(now + delay, bounds("9:35"))
    assert freed(now + delay) == {
        "wend": microseconds(at("9:30"))
    }  # the window until 9:30 was complete then, with all timers since
    past.note(now + 2 * delay, bounds("9:40"))
    past.note(now + 2 * delay + 1, bounds("9:50"))  # too soon after the one before: not remembered
    assert freed(now + 3 * delay + 1) == {"wend": microseconds(at("9:50"))}
    assert len(past._known) == 2


def test_state_that_two_operators_share_waits_for_both() -> None:
    near = "Kept := SELECT b.item, a.price FROM _Bid b LEFT JOIN _Ask a ON a.item = b.item AND {};\n"
    pairs = (
        f"Pairs := SELECT b.item, b.bidtime, a.price AS ask FROM _Bid b JOIN _Ask a ON a.item = b.item AND {NEAR};\n"
    )
    pipeline = maintain(catalog(INPUTS + pairs + near.format("b.bidtime <> a.asktime")))
    shared = {s.relation for stage in pipeline.stages if stage.output == "Kept" for s in stage.slots}
    assert shared & {s.relation for stage in pipeline.stages if stage.output == "Pairs" for s in stage.slots}
    assert not any(pipeline.relations[n].final for n in shared)  # one of them needs all rows of a key
    pipeline = maintain(catalog(INPUTS + pairs + near.format(NEAR)))
    assert {pipeline.relations[n].final for n in shared} == {("b.bidtime",), ("a.asktime",)}


def test_a_join_that_keeps_all_rows_says_what_to_write() -> None:
    own = catalog(INPUTS + "All := SELECT b.item, a.price FROM _Bid b LEFT JOIN _Ask a ON a.item = b.item;\n")
    reported = {s.relation: s.bound for e in explain(own, maintain(own)) for s in e.state}
    why = (
        "All needs all rows, however old (its ON may limit them: _Ask.asktime BETWEEN _Bid.bidtime AND _Bid.bidtime "
        "+ INTERVAL ...)"
    )
    assert reported["All$1"].endswith(f"; never freed: {why}")
    own = catalog(
        INPUTS + "Last := SELECT item, max_by(price, bidtime) AS p, median(price) AS m FROM _Bid GROUP BY item;\n"
    )
    reported = {s.relation: s.bound for e in explain(own, maintain(own)) for s in e.state}
    assert reported["Last$1"].endswith("; never freed: Last needs all rows, however old")


def test_a_private_view_is_state_and_one_that_is_read_is_not() -> None:
    sums = f"_Sums := SELECT wend, item, count(DISTINCT price) AS p FROM {TUMBLE} GROUP BY wend, item;\n"
    best = "Best := SELECT wend, max(p) AS p FROM _Sums GROUP BY wend;\n"
    assert maintain(catalog(INPUTS + sums + best)).relations["_Sums"].final == ("wend",)
    for line in ("Q(x INT) := SELECT * FROM _Sums WHERE p = :x;", "EXPORT _Sums TO print.Sums;"):
        assert maintain(catalog(INPUTS + sums + best + line)).relations["_Sums"].final == ()
    assert maintain(catalog(INPUTS + sums.replace(";", " WITH HISTORY;") + best)).relations["_Sums"].final == ()
    own = catalog(INPUTS + sums + best)
    reported = {s.relation: s.bound for e in explain(own, maintain(own)) for s in e.state}
    assert reported["_Sums"] == "rows leave once wend is below its watermark, which follows _Bid.bidtime"


def test_every_plan_is_over_scans() -> None:
    pipeline = maintain(catalog())
    assert all(isinstance(n, Scan) or n.inputs for stage in pipeline.stages for n in stage.plan.walk())


def feed(wb: Workbench, random: Random, low: int) -> int:
    """Rows at or above the bounds that were sent; gives the next bound, in minutes."""

    def time(below: int) -> Any:
        return START + timedelta(minutes=random.randint(max(0, low - below), low + 25))

    wb.insert(
        "_Bid",
        [
            {"bidtime": time(0), "price": random.randint(1, 9), "item": random.choice("ABC")}
            for _ in range(random.randint(0, 5))
        ],
    )
    asks = sorted(time(0) for _ in range(random.randint(0, 5)))
    try:
        wb.insert(
            "_Ask", [{"asktime": t, "price": random.randint(1, 9), "item": random.choice("ABC")} for t in asks[:1]]
        )
    except BelvedereError as error:  # an ask may be more than ten minutes older than the latest
        if error.diagnostics[0].code != "B5024":
            raise
    wb.insert("_Note", [{"notetime": time(40), "item": random.choice("ABC")} for _ in range(random.randint(0, 3))])
    wb.insert("Item", [{"item": random.choice("ABC"), "rate": random.randint(1, 4)}])
    bound = random.randint(low, low + 20)
    for table in ("_Bid", "_Ask", "_Note"):
        wb.bound(table, START + timedelta(minutes=bound))
    return bound


def rows_of_state(wb: Workbench) -> dict[str, int]:
    sizes = wb.engine.counts()
    return {n: sizes[n] for n, r in wb.pipeline.relations.items() if r.final}


@pytest.mark.thorough
@pytest.mark.parametrize(("store", "seed"), STORES_AND_SEEDS, indirect=["store"])
def test_views_are_the_same_with_and_without_what_was_forgotten(executor: Any, store: str, seed: int) -> None:
    benches = [
        Workbench(SCRIPT, store, spark=executor),
        Workbench(SCRIPT, spark=executor, options=Options(expire=False)),
    ]
    lows, then = [], {}
    try:
        for epoch in range(4 if seed == 1 else 15):
            for wb in benches:
                wb.clock(START + timedelta(minutes=epoch))
            lows = [feed(wb, Random(f"{seed} {epoch}"), lows[0] if lows else 0) for wb in benches]
            for wb in benches:
                wb.engine.costs.least = 1  # a choice by cost at every size: never where rows have left
                wb.step()
            then[epoch + 1] = sorted(map(repr, benches[0].rows("Sums")))
            if epoch == 2:
                benches[0].restart()
            for view in NAMES:
                found, expected = (sorted(map(repr, wb.rows(view))) for wb in benches)
                assert found == expected, (view, epoch)
        for wb in benches:
            for table in ("_Bid", "_Ask", "_Note"):
                wb.bound(table, START + timedelta(days=1))
            wb.step()
            for hour in (1, 2):  # what a delay has yet to emit is emitted, then it leaves too
                wb.clock(START + timedelta(hours=hour))
                wb.step()
        assert [r["n"] for r in benches[0].rows("Complete")] == [r["n"] for r in benches[1].rows("Complete")]
        assert set(rows_of_state(benches[0]).values()) == {0}
        assert {n: sorted(map(repr, benches[0].rows("Sums", as_of=n))) for n in then} == then
        kept = benches[1].engine.counts()
        empty = [n for n in rows_of_state(benches[0]) if n in kept and not kept[n]]
        assert empty == [] if seed > 1 else len(empty) < 3, "there was something to forget"
        for view, batch in benches[0].batches(NAMES if seed > 1 else ("Sums", "Pairs", "Fulls")).items():
            assert sorted(map(repr, benches[0].rows(view))) == sorted(map(repr, batch)), view
    finally:
        for wb in benches:
            wb.close()


RANKED = "SELECT wstart, item, price, rank() OVER (PARTITION BY {} ORDER BY price) AS n FROM {}"


def test_a_view_that_is_added_has_the_rows_that_had_left(executor: Any, tmp_path: Path) -> None:
    """It shares state of which rows have left under the script before: that state is made again."""
    url, windows = f"sqlite:///{tmp_path}/store.db", TUMBLE.replace("_Bid", "Bid")
    script = "CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);\n"
    script += f"Per := {RANKED.format('wstart, item', windows)};\n"
    wb = Workbench(script, url, spark=executor)
    wb.insert("Bid", [{"bidtime": at("8:01"), "price": p, "item": "A"} for p in (3, 5)])
    wb.bound("Bid", at("9:00"))
    wb.step()
    assert rows_of_state(wb) == {"Per$1": 0}
    wb.close()
    wb = Workbench(script + f"All := {RANKED.format('item', windows)};\n", url, spark=executor)
    wb.insert("Bid", [{"bidtime": at("9:05"), "price": 4, "item": "A"}])
    wb.step()
    assert sorted((r["price"], r["n"]) for r in wb.rows("All")) == [(3, 1), (4, 2), (5, 3)]
    assert sorted((r["price"], r["n"]) for r in wb.rows("Per")) == [(3, 1), (4, 1), (5, 2)]
    wb.close()


def test_a_private_view_of_which_rows_have_left_is_not_read_until_it_is_served(
    executor: Any, tmp_path: Path, capsys: Any
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    script = "CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);\n"
    script += f"_Sums := SELECT wend, item, sum(price) AS p FROM {TUMBLE.replace('_Bid', 'Bid')} GROUP BY wend, item;\n"
    script += "Best := SELECT wend, max(p) AS p, count(DISTINCT p) AS n FROM _Sums GROUP BY wend;\n"
    wb = Workbench(script, url, spark=executor)
    wb.insert(
        "Bid",
        [
            {"bidtime": at(t), "price": p, "item": i}
            for t, p, i in (("8:01", 3, "A"), ("8:02", 5, "B"), ("8:31", 1, "A"))
        ],
    )
    wb.bound("Bid", at("8:20"))
    wb.step()
    assert wb.engine.counts()["_Sums"] == 1
    with pytest.raises(BelvedereError, match="B7050"):
        wb.rows("_Sums")
    wb.close()
    assert run(["query", "SELECT * FROM _Sums", "--store", url]) == 1
    assert "`_Sums` is not defined" in capsys.readouterr().err
    assert run(["query", "--state", "_Sums", "--store", url, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["wend,item,p", "2020-01-01T08:40:00Z,A,1"]
    assert run(["query", "--state", "_Sum", "--store", url]) == 1
    assert "did you mean `_Sums`" in capsys.readouterr().err
    wb = Workbench(script + "Of(x STRING) := SELECT wend, p FROM _Sums WHERE item = :x;\n", url, spark=executor)
    wb.step()
    assert sorted((r["item"], r["p"]) for r in wb.rows("_Sums")) == [("A", 1), ("A", 3), ("B", 5)]
    assert sorted(r["p"] for r in wb.rows("Best")) == [1, 5]
    wb.close()
