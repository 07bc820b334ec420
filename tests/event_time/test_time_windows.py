"""Tumble, Hop, Cumulate and Session with offsets, in the paper's and Flink's syntax, against their definitions."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.workbench.workbench import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.event_time.cases import at

START = at("8:00")
DATA = "data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime)"
INPUT = "CREATE STREAM _Bid (n INT, item STRING, bidtime TIMESTAMP, WATERMARK FOR bidtime);"
SCRIPT = f"""{INPUT}
tumble := SELECT n, wstart, wend FROM Tumble({DATA}, dur => INTERVAL '10' MINUTES, offset => INTERVAL '3' MINUTES);
flink := SELECT n, window_start, window_end
         FROM TABLE(TUMBLE(TABLE _Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES, INTERVAL '3' MINUTES));
hop := SELECT n, wstart, wend
       FROM Hop({DATA}, dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '4' MINUTES, offset => INTERVAL '1' MINUTES);
gaps := SELECT n, wstart, wend FROM Hop({DATA}, dur => INTERVAL '3' MINUTES, hopsize => INTERVAL '5' MINUTES);
cumulate := SELECT n, wstart, wend
            FROM Cumulate({DATA}, dur => INTERVAL '12' MINUTES, hopsize => INTERVAL '4' MINUTES,
            offset => INTERVAL '2' MINUTES);
session := SELECT n, wstart, wend FROM Session({DATA}, key => DESCRIPTOR(item), gap => INTERVAL '5' MINUTES);
sessions := SELECT wstart, wend, item, count(*) AS n FROM Session({DATA}, key => DESCRIPTOR(item),
    gap => INTERVAL '5' MINUTES)
            GROUP BY wstart, wend, item;
closed := SELECT wstart, wend, item, count(*) AS n FROM Session({DATA}, key => DESCRIPTOR(item),
    gap => INTERVAL '5' MINUTES)
          GROUP BY wstart, wend, item EMIT STREAM AFTER WATERMARK;
"""
Bid = tuple[int, str, int | None]
"""A number, an item, minutes after the start."""


def windows(kind: str, minute: int) -> list[tuple[int, int]]:
    """The windows of a time, by definition: all of that shape that hold it."""
    size, step, offset = {"tumble": (10, 10, 3), "flink": (10, 10, 3), "hop": (10, 4, 1), "gaps": (3, 5, 0)}.get(
        kind, (12, 12, 2)
    )
    starts = [s for s in range(minute - size + 1, minute + 1) if (s - offset) % step == 0]
    if kind == "cumulate":
        return [(starts[0], e) for e in range(starts[0] + 4, starts[0] + 13, 4) if e > minute]
    return [(s, s + size) for s in starts]


def session_of(bids: list[Bid]) -> dict[int, tuple[int, int]]:
    """The session of each bid by its number: bids of an item at most the gap apart."""
    found: dict[int, tuple[int, int]] = {}
    for item in {i for _, i, _ in bids}:
        mine = sorted((t, n) for n, i, t in bids if i == item and t is not None)
        while mine:
            end, members = mine[0][0] + 5, []
            while mine and mine[0][0] <= end:
                end = mine[0][0] + 5
                members.append(mine.pop(0))
            found |= {n: (members[0][0], end) for _, n in members}
    return found


def minutes(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Rows with their times as minutes after the start, without what a changelog adds."""
    kept = [{k: v for k, v in r.items() if k not in ("undo", "ptime", "ver")} for r in rows]
    return sorted(
        ([(v - START) // timedelta(minutes=1) if hasattr(v, "tzinfo") else v for v in r.values()] for r in kept),
        key=repr,
    )


@pytest.mark.parametrize(
    ("paper", "flink", "expected"),
    [
        (
            f"Tumble({DATA}, dur => INTERVAL '10' MINUTES, offset => INTERVAL '3' MINUTES)",
            "TUMBLE(TABLE _Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES, INTERVAL '3' MINUTES)",
            (TimeWindowKind.TUMBLE, 10, 0, 3, ()),
        ),
        (
            f"Hop({DATA}, dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '4' MINUTES, offset => INTERVAL '1' "
            "MINUTES)",
            "HOP(DATA => TABLE _Bid, TIMECOL => DESCRIPTOR(bidtime), SLIDE => INTERVAL '4' MINUTES, SIZE => INTERVAL "
            "'10' MINUTES, OFFSET => INTERVAL '1' MINUTES)",
            (TimeWindowKind.HOP, 10, 4, 1, ()),
        ),
        (
            f"Hop({DATA}, dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '4' MINUTES, offset => INTERVAL '-1' "
            "MINUTES)",
            "HOP(TABLE _Bid, DESCRIPTOR(bidtime), INTERVAL '4' MINUTES, INTERVAL '10' MINUTES, INTERVAL '-1' MINUTES)",
            (TimeWindowKind.HOP, 10, 4, -1, ()),
        ),
        (
            f"Cumulate({DATA}, dur => INTERVAL '12' MINUTES, hopsize => INTERVAL '4' MINUTES, offset => INTERVAL '2' "
            "MINUTES)",
            "CUMULATE(TABLE _Bid, DESCRIPTOR(bidtime), INTERVAL '4' MINUTES, INTERVAL '12' MINUTES, INTERVAL '2' "
            "MINUTES)",
            (TimeWindowKind.CUMULATE, 12, 4, 2, ()),
        ),
        (
            f"Session({DATA}, key => DESCRIPTOR(item), gap => INTERVAL '5' MINUTES)",
            "SESSION(TABLE _Bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)",
            (TimeWindowKind.SESSION, 5, 0, 0, ("item",)),
        ),
    ],
)
def test_both_vocabularies_mean_the_same(paper: str, flink: str, expected: tuple[Any, ...]) -> None:
    def window(sql: str) -> TimeWindow:
        plan = compile_script(f"{INPUT} V := SELECT * FROM {sql} w;").catalog.views["V"].plan
        return next(n for n in plan.walk() if isinstance(n, TimeWindow))

    one, other = window(paper), window(f"TABLE({flink})")
    minute = 60_000_000
    kind, size, step, offset, keys = expected
    for found, names in ((one, ("wstart", "wend")), (other, ("window_start", "window_end"))):
        assert (found.kind, found.size, found.step, found.offset) == (
            kind,
            size * minute,
            step * minute,
            offset * minute,
        )
        assert tuple(p.rpartition(".")[2] for p in found.partition) == keys
        assert tuple(n.rpartition(".")[2] for n in (found.start, found.end)) == names


def test_a_call_without_alias_goes_by_its_tables_name_too() -> None:
    tumble, hop = (
        "TUMBLE(_Bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES)",
        ("HOP(TABLE _Bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)"),
    )
    script = f"""{INPUT}
    plain := SELECT item, window_end, count(*) AS c FROM {hop} GROUP BY item, window_end;
    named := SELECT _Bid.item, _bid.window_end, count(*) AS c FROM {hop} GROUP BY _Bid.item, _Bid.window_end;
    joined := SELECT _Bid.n AS n, hop.n AS m, hop.window_end FROM {hop} JOIN _Bid ON _Bid.n = hop.n;
    stars := SELECT _Bid.* FROM {tumble};
    """
    compiled = compile_script(script)
    assert {d.code for d in compiled.diagnostics} == {"B5034"}
    plans = {n: v.plan for n, v in compiled.catalog.views.items()}
    assert plans["named"].schema.visible == plans["plain"].schema.visible
    assert [c.name for c in plans["joined"].schema.visible] == ["n", "m", "window_end"], (
        "a table's own name goes before"
    )
    assert [c.name for c in plans["stars"].schema.visible] == ["window_start", "window_end", "n", "item", "bidtime"]
    for text, name in ((f"_Bid.n FROM {hop} JOIN {tumble} ON true", "_Bid"), (f"_Bid.n FROM {hop} h", "_Bid")):
        (found,) = compile_script(f"{INPUT} V := SELECT {text};").diagnostics
        assert (found.code, f"`{name}`" in found.message) == ("B2004", True), "two calls over it, or another alias"


@pytest.mark.parametrize(("store", "seed"), STORES_AND_SEEDS, indirect=["store"])
def test_windows_are_what_their_definition_says(executor: Any, store: str, seed: int) -> None:
    random, bids = Random(seed), list[Bid]()
    wb = Workbench(SCRIPT, store, spark=executor)
    try:
        for epoch in range(3):
            new: list[Bid] = [
                (len(bids) + n, random.choice("AB"), random.choice([None, *range(60)]) if n else random.randint(0, 60))
                for n in range(8)
            ]
            bids += new
            wb.clock(START + timedelta(hours=2 + epoch))
            times = [(n, i, None if t is None else START + timedelta(minutes=t)) for n, i, t in new]
            wb.insert("_Bid", [{"n": n, "item": i, "bidtime": t} for n, i, t in times])
            wb.step()
            for kind in ("tumble", "flink", "hop", "gaps", "cumulate"):
                expected = [[n, *w] for n, _, t in bids if t is not None for w in windows(kind, t)]
                assert minutes(wb.rows(kind)) == sorted(expected, key=repr), (kind, epoch)
            sessions = session_of(bids)
            assert minutes(wb.rows("session")) == sorted(([n, *w] for n, w in sessions.items()), key=repr)
            assert wb.rows("closed") == []
        item = {n: i for n, i, _ in bids}
        groups = {(*w, item[n]) for n, w in sessions.items()}
        counted = [[*g, sum((*w, item[n]) == g for n, w in sessions.items())] for g in groups]
        assert minutes(wb.rows("sessions")) == sorted(counted, key=repr)
        bound = sorted(g[1] for g in groups)[len(groups) // 2]
        wb.bound("_Bid", START + timedelta(minutes=bound))
        wb.step()
        complete = [c for c in counted if c[1] < bound]  # a bid at the end would belong to the session
        assert minutes(wb.rows("closed")) == sorted(complete, key=repr)
        for view, batch in wb.batches(("cumulate", "session", "closed")).items():
            assert minutes(batch) == minutes(wb.rows(view)), view
    finally:
        wb.close()
