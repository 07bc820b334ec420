"""Watermarks through versioned joins, DISTINCT by the earliest time, and nested tables: windows end, state expires."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.engine.expiry import final_below
from belvedere.pipeline.choose import maintain, without
from belvedere.rules.options import Options
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import at

START = at("8:00")
INPUTS = """
CREATE STREAM _Orders (id INT, cur STRING, region STRING, ts TIMESTAMP NOT NULL, items ARRAY<STRUCT<sku STRING,
    qty INT>>,
                       WATERMARK FOR ts);
CREATE STREAM _Rates (cur STRING, c TIMESTAMP, rate INT, WATERMARK FOR c);
CREATE STREAM _Taxes (region STRING, since TIMESTAMP, tax INT, WATERMARK FOR since);
CREATE STREAM _Kept (cur STRING, c TIMESTAMP, rate INT, WATERMARK FOR c) LATE KEEP;
CREATE STREAM _Timeless (cur STRING, c TIMESTAMP, rate INT, WATERMARK FOR c) LATE KEEP;
"""
AS_OF = "FOR SYSTEM_TIME AS OF o.ts"


def windows(view: str, time: str = "ts") -> str:
    return f"Tumble(data => TABLE({view}), timecol => DESCRIPTOR({time}), dur => INTERVAL '10' MINUTES)"


VIEWS = f"""
_Rate := DISTINCT _Rates ON cur ORDER BY c DESC;
_Tax := DISTINCT _Taxes ON region ORDER BY since DESC;
_Priced := SELECT o.id, o.cur, o.region, o.ts, r.rate FROM _Orders o JOIN _Rate {AS_OF} r ON r.cur = o.cur
    WHERE r.rate < 9;
_Both := SELECT o.id, o.ts, o.rate, t.tax FROM _Priced o JOIN _Tax {AS_OF} t ON t.region = o.region;
_Maybe := SELECT o.id, o.ts, r.rate FROM _Orders o LEFT JOIN _Rate {AS_OF} r ON r.cur = o.cur AND r.rate < 7
    WHERE o.id > 5;
_Firsts := DISTINCT _Orders ON id ORDER BY ts;
_Lines := SELECT o.ts, i.sku, i.qty FROM _Orders o JOIN o.items i WHERE i.qty > 1 AND o.id < 50;
_Late := SELECT o.id, o.ts, r.rate FROM _Orders o JOIN _Kept {AS_OF} r ON r.cur = o.cur;
Priced := SELECT id, rate, ts FROM _Priced;
Timeless := SELECT o.id, r.rate, r.c FROM _Orders o LEFT JOIN _Rate {AS_OF} r ON r.cur = o.cur;
Rated := SELECT wend, cur, sum(rate) AS s, count(*) AS n FROM {windows("_Priced")} GROUP BY wend, cur
    EMIT STREAM AFTER WATERMARK;
Taxed := SELECT wend, sum(rate * tax) AS s, max(tax) AS tax FROM {windows("_Both")} GROUP BY wend
    EMIT STREAM AFTER WATERMARK;
Maybes := SELECT wend, sum(rate) AS s, count(*) AS n FROM {windows("_Maybe")} GROUP BY wend EMIT AFTER WATERMARK;
Once := SELECT wend, count(*) AS n, sum(id) AS s FROM {windows("_Firsts")} GROUP BY wend EMIT STREAM AFTER WATERMARK;
Sold := SELECT wend, sku, sum(qty) AS n FROM {windows("_Lines")} GROUP BY wend, sku EMIT STREAM AFTER WATERMARK;
Lates := SELECT id, rate FROM _Late;
"""
NAMES = [line.split(" :=")[0] for line in VIEWS.splitlines() if ":=" in line and not line.startswith("_")]


def test_time_passes_and_nothing_is_said_of_state() -> None:
    compiled = compile_script(INPUTS + VIEWS)
    assert compiled.ok, compiled.diagnostics
    reported = [(d.code, d.message) for d in compiled.diagnostics if d.code in ("B5013", "B6121", "B6122")]
    assert [c for c, _ in reported] == ["B6121"]
    assert "_Late" in reported[0][1]
    pipeline = maintain(compiled.catalog)
    rules = {s.owner: s.rule for s in pipeline.stages}
    assert rules["_Priced"] == rules["_Maybe"] == rules["_Both"] == "as of"
    assert {s.rule for s in pipeline.stages if s.owner == "_Lines"} <= {"linear"}  # no join
    state = {
        n: r.final for n, r in pipeline.relations.items() if r.stored and r.view is None and not n.startswith("LATE")
    }
    endless = {n for n, final in state.items() if not final}

    assert not {n for n in endless if n.startswith(("_Priced", "_Both", "_Maybe", "_Rates", "_Taxes"))}, state


def test_versions_stay_while_rows_of_their_time_may_come() -> None:
    line = f"V := SELECT o.id, o.ts, r.rate FROM _Orders o JOIN _Rates {AS_OF} r ON r.cur = o.cur;"
    pipeline = maintain(compile_script(INPUTS + line).catalog)
    bounds = {"_Orders": {"ts": microseconds(at("9:00"))}, "_Rates": {"c": microseconds(at("8:30"))}}
    found = final_below(pipeline, lambda i: bounds.get(i, {}))
    (versions,) = (s.output for s in pipeline.stages if s.rule == "versions")
    assert list(found.pop(versions).values()) == [microseconds(at("8:30"))]  # no later version ends one of before
    assert [list(f.values()) for f in found.values()] == [[microseconds(at("8:30"))]]  # orders
    bounds["_Orders"] = {"ts": microseconds(at("8:10"))}
    found = final_below(pipeline, lambda i: bounds.get(i, {}))
    assert list(found[versions].values()) == [microseconds(at("8:10")) + 1]


@pytest.mark.parametrize(
    ("view", "hint"),
    [
        ("_X := DISTINCT _Orders ON id ORDER BY ts DESC", "without DESC"),
        ("_X := DISTINCT _Rates ON rate ORDER BY c", "NULLS LAST"),
        (
            "CREATE STREAM U (cur STRING, c TIMESTAMP);_R := DISTINCT U ON cur ORDER BY c DESC;"
            f"_X := SELECT o.id, o.ts, r.cur FROM _Orders o JOIN _R {AS_OF} r ON r.cur = o.cur",
            "WATERMARK FOR the time of the versions",
        ),
    ],
)
def test_where_time_is_lost_the_hint_says_how(view: str, hint: str) -> None:
    time = "c" if "_Rates" in view else "ts"
    text = (
        f"{INPUTS}{view};\nV := SELECT wend, count(*) AS n FROM {windows('_X', time)} GROUP BY wend EMIT AFTER "
        "WATERMARK;"
    )
    (found,) = (d for d in compile_script(text).diagnostics if d.severity == "error")
    assert found.code == "B5013"
    assert hint in (found.hint or "")


def feed(wb: Workbench, random: Random, low: int) -> int:
    def time(below: int = 0) -> Any:
        return START + timedelta(minutes=random.randint(max(0, low - below), low + 25))

    def some(most: int) -> range:
        return range(random.randint(0, most))

    lines = [[{"sku": random.choice("xyz"), "qty": random.randint(0, 3)} for _ in some(3)] for _ in range(8)]
    rows = [{"id": random.randint(1, 60), "ts": time(), "items": items} for items in lines[: random.randint(0, 7)]]
    wb.insert("_Orders", [{**r, "cur": random.choice(["a", "b", None]), "region": random.choice("pq")} for r in rows])
    wb.insert("_Rates", [{"cur": random.choice("ab"), "c": time(), "rate": random.randint(1, 9)} for _ in some(4)])
    wb.insert("_Kept", [{"cur": random.choice("ab"), "c": time(60), "rate": random.randint(1, 9)} for _ in some(3)])
    wb.insert(
        "_Taxes", [{"region": random.choice("pq"), "since": time(), "tax": random.randint(1, 9)} for _ in some(3)]
    )
    bound = low + random.randint(0, 15)
    for table in ("_Orders", "_Rates", "_Taxes", "_Kept"):
        wb.bound(table, START + timedelta(minutes=min(bound, low + random.randint(0, 15))))
    return bound


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 6))])
def test_views_are_those_of_batch_whatever_has_left(executor: Any, store: str, seed: int) -> None:
    plain = without("as of", "versions", expire=False)
    benches = [Workbench(INPUTS + VIEWS, store, spark=executor)]
    if seed > 1:
        benches.append(Workbench(INPUTS + VIEWS, spark=executor, options=plain if seed % 2 else Options(expire=False)))
    try:
        low = 0
        for epoch in range(4 if seed == 1 else 15):
            for wb in benches:
                wb.clock(START + timedelta(minutes=epoch))
            low, *_ = [feed(wb, Random(f"{seed} {epoch}"), low) for wb in benches]
            for wb in benches:
                wb.engine.costs.least = 1
                wb.step()
            if epoch in (2, 8):
                benches[0].restart()
            expected = {view: wb.rows(view) for wb in benches[1:] for view in NAMES}
            if seed == 1 and epoch % 2:
                expected = benches[0].batches(NAMES)
            for view, rows in expected.items():
                assert sorted(map(repr, benches[0].rows(view))) == sorted(map(repr, rows)), (view, epoch)
        for wb in benches:
            for table in ("_Orders", "_Rates", "_Taxes", "_Kept"):
                wb.bound(table, START + timedelta(days=1))
            wb.step()
        for view, batch in benches[0].batches(NAMES).items():
            for wb in benches:
                assert sorted(map(repr, wb.rows(view))) == sorted(map(repr, batch)), view
        counts = benches[0].engine.counts()
        final = {n for n, r in benches[0].pipeline.relations.items() if r.final}
        left = {n: counts[n] for n in final if counts.get(n)}
        versions = {s.output for s in benches[0].pipeline.stages if s.rule == "versions"}
        assert set(left) <= versions, left  # what is valid to this day
        assert all(count <= 3 for count in left.values()), left
    finally:
        for wb in benches:
            wb.close()
