"""Views with WINDOW BY: after every epoch they are what the rules say, what batch says, and what they are after a
restart."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from belvedere.rules.window_by import expiry
from belvedere.workbench import workbench
from belvedere.workbench.workbench import Workbench
from tests.window_by.oracle import Framing, answer
from tests.window_by.random_queries import framings, ignored, text_of

TABLE = "CREATE TABLE rows (id BIGINT PRIMARY KEY, k BIGINT, o BIGINT, v BIGINT, x DOUBLE, s STRING);\n"
Row = dict[str, Any]


def random_row(random: Random, number: int) -> Row:
    """A row whose `o` no other row has."""
    return {
        "id": number,
        "k": random.randrange(3),
        "o": number * 7919 % 97,
        "v": random.choice([None, 0, 1, 2, 3, 4, 5]),
        "x": random.choice([None, 0.0, -0.5, 1.5, 2.25, 1e6]),
        "s": random.choice([None, "", "a", "b", "\u00e9"]),
    }


def change(random: Random, present: dict[int, Row]) -> tuple[list[Row], list[Row]]:
    """What an epoch brings: new and updated rows, and rows to delete; `present` follows."""
    coming = {n: random_row(random, n) for n in random.sample(range(24), random.randrange(1, 7))}
    going = random.sample(sorted(set(present) - set(coming)), min(len(set(present) - set(coming)), random.randrange(3)))
    gone = [present.pop(n) for n in going]
    present.update(coming)
    return list(coming.values()), gone


def same(left: list[Row], right: list[Row], names: list[str]) -> bool:
    """Equal as bags in these columns, doubles within 1e-9."""
    a, b = (sorted([{n: r[n] for n in names} for r in rows], key=sortable) for rows in (left, right))
    return len(a) == len(b) and all(close(x[n], y[n]) for x, y in zip(a, b, strict=True) for n in names)


def sortable(row: Row) -> str:
    return repr({n: round(v, 6) if isinstance(v, float) else v for n, v in row.items()})


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def check(framed: list[Framing], seed: int, epochs: int) -> None:
    """Random epochs over one table with a view per framing, and one restart."""
    texts = [text_of(f).replace("NULL AS label", "0 AS label") for f in framed]
    script = TABLE + "".join(f"V{n} := {text};\n" for n, text in enumerate(texts))
    random, present = Random(seed), dict[int, Row]()
    bench = Workbench(script)
    try:
        for epoch in range(epochs):
            coming, going = change(random, present)
            bench.insert("rows", coming)
            bench.delete("rows", going)
            bench.step()
            for n, framing in enumerate(framed):
                unsaid = ignored(framing) | ({"label"} if framing.label is None else set())
                found, expected = bench.rows(f"V{n}"), answer(list(present.values()), framing)
                names = [
                    c
                    for c in answer([random_row(Random(0), 0)], Framing(False, None, ("true",), ("true",)))[0]
                    if c not in unsaid
                ]
                assert same(found, expected, names), texts[n]
            if epoch == 1:
                bench.restart()
        for n in range(len(framed)):
            found = bench.rows(f"V{n}")
            assert same(found, bench.batch(f"V{n}"), list(found[0]) if found else []), texts[n]
    finally:
        bench.close()


@given(st.lists(framings(), min_size=5, max_size=5), st.integers(0, 1_000_000))
@settings(
    max_examples=1, deadline=None, derandomize=True, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
)
@pytest.mark.usefixtures("executor")
def test_views_follow_the_rules(framed: list[Framing], seed: int) -> None:
    check(framed, seed, 3)


@pytest.mark.spark
@pytest.mark.nightly
@given(st.lists(framings(), min_size=12, max_size=12), st.integers(0, 1_000_000))
@settings(max_examples=6, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
def test_many_views_follow_the_rules(framed: list[Framing], seed: int) -> None:
    check(framed, seed, 6)


SCRIPT = """
CREATE TABLE Ghcn (station STRING, date DATE, val INT, kind STRING, PRIMARY KEY (station, date));
CREATE TABLE Places (id STRING PRIMARY KEY, name STRING);
Cold := FROM Ghcn AS g WHERE g.kind = "TMIN"
  WINDOW BY w PARTITION BY g.station ORDER BY g.date TYPE SLIDING
  START AS s WHEN s.val < 25 END NEXT AS n WHEN n.val >= 25
  SELECT s.station, s.date AS first, n.date AS later, ARRAY_AVG(w[*].val) AS mean, w[*].val AS vals;
Longest := SELECT station, max(size(vals)) AS days FROM Cold GROUP BY station;
Named := FROM Ghcn AS g JOIN Places AS p ON p.id = g.station
  WINDOW BY w PARTITION BY p.name ORDER BY g.date TYPE TUMBLING START AS s END AT e WHEN e % 2 = 0
  SELECT s.p.name, s.g.date AS first, LEN(w) AS n;
Last := FROM (FROM Ghcn AS g WINDOW BY w PARTITION BY g.station
    ORDER BY g.date TYPE SLIDING START UNBOUNDED END AS e UNBOUNDED
  SELECT VALUE w[-1]) AS t WHERE t.val > 3 SELECT t.station, t.val;
"""


def row(station: str, day: int, val: int, kind: str = "TMIN") -> Row:
    return {"station": station, "date": f"2020-01-{day:02d}", "val": val, "kind": kind}


@pytest.mark.usefixtures("executor")
def test_the_paper_query_as_a_view_with_views_on_it() -> None:
    bench = Workbench(SCRIPT.replace("END AS e UNBOUNDED", "END UNBOUNDED"))
    try:
        bench.insert("Places", [{"id": "a", "name": "here"}, {"id": "b", "name": "here"}])
        bench.insert(
            "Ghcn", [row("a", 1, 10), row("a", 2, 20), row("a", 3, 30), row("b", 1, 5), row("b", 2, 4, "TMAX")]
        )
        bench.step()
        assert sorted((r["station"], r["first"].day, r["vals"]) for r in bench.rows("Cold")) == [
            ("a", 1, [10, 20]),
            ("a", 2, [20]),
            ("b", 1, [5, None]),  # unclosed: the MISSING at its end is NULL in a stored array
        ]
        bench.insert("Ghcn", [row("a", 2, 26), row("b", 3, 7)])  # one station splits its window, the other's goes on
        bench.step()
        assert {r["station"]: r["days"] for r in bench.rows("Longest")} == {"a": 1, "b": 3}
        changed = sorted((r["first"].day, weight) for r, weight in bench.changes("Cold") if r["station"] == "a")
        assert changed == [(1, -1), (1, 1), (2, -1)]
        bench.delete("Ghcn", [row("a", 3, 30)])
        bench.step()
        for view, batch in bench.batches(("Cold", "Longest", "Named", "Last")).items():
            assert sorted(map(str, bench.rows(view))) == sorted(map(str, batch)), view
        assert sorted((r["station"], r["val"]) for r in bench.rows("Last")) == [("a", 26), ("b", 7)]
        assert [r["n"] for r in bench.rows("Named")] == [2, 2, 2]  # the last is unclosed
    finally:
        bench.close()


STREAM = (
    "CREATE STREAM _Raw (k STRING, ts TIMESTAMP NOT NULL, val INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS) "
    "LATE DROP;\n"
)
OPEN = {
    "Cold": "SLIDING START AS s WHEN s.val < 3 ONLY END NEXT AS n WHEN n.val >= 3",
    "Three": "SLIDING START AS s AT sp END AT ep WHEN ep - sp = 2",
    "Blocks": "TUMBLING START AS s AT sp END AT ep WHEN ep - sp = 2",
    "Week": "SLIDING START AS s ONLY END NEXT AS n WHEN n.ts - s.ts > duration('PT7S')",
    "Rises": "TUMBLING START AS s END AS e WHEN e.val > s.val",
    "Sessions": "TUMBLING START AS s END AS e NEXT AS n WHEN n.ts - e.ts > duration('PT4S')",
    "Odd": "SLIDING START AS s END AS e NEXT AS n WHEN e.val * s.val > 7 AND n.val <> s.val",
    "Gaps": "TUMBLING START AS s PREV AS p WHEN p IS MISSING OR s.ts - p.ts > duration('PT4S')",
    "Opened": "TUMBLING START AS s NEXT AS n WHEN s.val < 3 AND n.val > 1",
    "Falls": "SLIDING START AS s PREV AS p WHEN s.val < p.val END AS e WHEN e.ts - s.ts > duration('PT3S')",
    "Around": "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 2 END AT ep WHEN ep - lp = 1",
    "Lately": "SLIDING LABEL AS s PREV AS p WHEN s.val > 1 START AS f PREV AS b "
    "WHEN s.ts - f.ts < duration('PT6S') END AS e WHEN e.ts >= s.ts",
    "Before": "SLIDING LABEL AS s AT lp NEXT AS m WHEN m.val > 1 START AT sp WHEN lp - sp = 4 ONLY END AT ep WHEN lp "
    "- ep = 2",
}


ENDLESS = {"Rises", "Odd"}
"""Some of their windows never end, so the rows in these stay."""


def streamed(
    seed: int, epochs: int, views: list[str], source: str = "_Raw", outer: str = "{}", where: str = ""
) -> list[dict[str, int]]:
    """Rows in time with some that are late: final windows stay, open ones go on, and old rows leave. How many rows each
    epoch keeps.

    `source`: what FROM reads; `where`: its WHERE; `outer`: the query around that of each view.
    """
    found: list[dict[str, int]] = []
    select = " SELECT s.k, s.ts AS first, LEN(w) AS n, w[*].val AS vals"
    windows = {
        n: f"FROM {source} AS g {where} WINDOW BY w PARTITION BY g.k ORDER BY g.ts, g.val TYPE {OPEN[n]}{select}"
        for n in views
    }
    framed = {n: f"{outer.format(t)};\n" for n, t in windows.items()}
    random, now, total = Random(seed), 0, 0
    late = f"Late := SELECT n, count(*) AS c FROM {views[0]} GROUP BY n;"
    bench = Workbench(STREAM + "".join(f"{n} := {t}" for n, t in framed.items()) + late)
    try:
        for epoch in range(epochs):
            rows = []
            for _ in range(random.randrange(4, 24)):
                now += random.choice([0, 1, 1, 2, 6])
                at = now - random.choice([0, 0, 1, 3, 9])
                rows.append(
                    {
                        "k": random.choice("ab"),
                        "ts": f"2020-01-01 00:{10 + at // 60:02d}:{at % 60:02d}",
                        "val": random.randrange(6),
                    }
                )
            total += len(rows)
            bench.insert("_Raw", rows)
            bench.step()
            for view, batch in bench.batches((*views, "Late")).items():
                there, expected = bench.rows(view), batch
                assert sorted(map(str, there)) == sorted(map(str, expected)), (view, epoch)
            sizes = bench.engine.counts()
            found.append({n: sizes[f"{n}$1"] for n in views})
            if epoch == 1:
                bench.restart()
        kept = {n: rows for n, rows in found[-1].items() if n not in ENDLESS}
        assert all(rows < total * 2 // 3 for rows in kept.values()), (kept, total)
        return found
    finally:
        bench.close()


@pytest.mark.usefixtures("executor")
def test_rows_of_final_windows_leave() -> None:
    streamed(0, 4, ["Cold", "Blocks", "Sessions"])


@pytest.mark.usefixtures("executor")
def test_rows_that_later_windows_look_back_at_stay() -> None:
    streamed(4, 4, ["Gaps", "Falls", "Around"], where="WHERE g.val <> 5")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("views", "epochs"), [(["Blocks", "Lately"], 3), pytest.param(list(OPEN)[::2], 4, marks=pytest.mark.nightly)]
)
@pytest.mark.usefixtures("executor")
def test_the_same_rows_leave_where_they_are_many(
    views: list[str], epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without memory all rows go through files, and Spark sorts their windows."""
    few = streamed(2, epochs, views)
    used: list[int] = []
    many = expiry._many

    def counted(*given: Any) -> Any:
        gone = many(*given)
        used.append(gone.num_rows)
        return gone

    monkeypatch.setattr(expiry, "_many", counted)
    monkeypatch.setattr(workbench, "DRIVER_MEMORY", 0)
    assert streamed(2, epochs, views) == few
    assert sum(used) > 10


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_final_windows_leave_whatever_comes(seed: int) -> None:
    streamed(seed, 8, list(OPEN), where="WHERE g.val <> 4" if seed % 2 else "")
