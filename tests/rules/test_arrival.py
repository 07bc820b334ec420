"""Tied rows are in order of arrival: store, batch and plain Python agree after updates, deletions and restarts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.rules.batch_answers import are_batch_answers, epochs

SCRIPT = """
CREATE TABLE T (k INT, g INT, t INT, x INT, PRIMARY KEY (k));
CREATE TABLE Bag (g INT, t INT, x INT);
CREATE STREAM S (g INT, t INT, x INT, m MAP<STRING, INT>);

Grouped := SELECT g, first(x) AS f, last(x) AS l, any_value(x) IGNORE NULLS AS a, first(x, true) AS fn,
                  last(x) FILTER (WHERE t > 1) AS lf, collect_list(x) AS c, collect_list(DISTINCT x) AS cd,
                      collect_set(x) AS cs,
                  collect_list(struct(t, x)) AS cp, max_by(x, t) AS ma, min_by(x, t) AS mi, mode(x) AS mo,
                  listagg(CAST(x AS STRING), ',') AS li, listagg(DISTINCT CAST(x AS STRING), ',') AS ld
           FROM T GROUP BY g;
Rolled := SELECT g, t, first(x) AS f, collect_list(k) AS c FROM T GROUP BY ROLLUP (g, t);
Ranked := SELECT k, row_number() OVER w AS r, ntile(3) OVER w AS n, lag(x) OVER w AS la, lead(x, 2, 0) OVER w AS le,
                 lag(x) IGNORE NULLS OVER w AS li, rank() OVER w AS ra, sum(x) OVER w AS su,
                 sum(x) OVER (PARTITION BY g ORDER BY t ROWS 2 PRECEDING) AS sr,
                 first_value(x) OVER w AS f, last_value(x) OVER w AS l, last_value(x) IGNORE NULLS OVER w AS ln,
                 nth_value(x, 2) OVER w AS nv, nth_value(x, 2) IGNORE NULLS OVER w AS nn, collect_list(x) OVER w AS c,
                 collect_list(x) OVER (PARTITION BY g) AS cg, last_value(x) OVER (PARTITION BY g) AS lg,
                 max_by(x, t) OVER w AS ma, collect_set(x) OVER (PARTITION BY g) AS cs,
                 first_value(x) OVER (PARTITION BY g ORDER BY t DESC ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS fd,
                 last_value(x) OVER (PARTITION BY g ORDER BY t DESC) AS ld,
                 collect_list(x) OVER (PARTITION BY g ORDER BY t RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS cr
          FROM T WINDOW w AS (PARTITION BY g ORDER BY t);
Bagged := SELECT g, first(x) AS f, collect_list(x) AS c, max_by(x, t) AS m FROM Bag GROUP BY g;
Streamed := SELECT g, first(x) AS f, last(x) AS l, collect_list(x) AS c, last(m) AS lm, collect_list(m) AS cm FROM S
    GROUP BY g;
Joined := SELECT a.g, collect_list(b.x) AS c, first(b.x) AS f, last(a.k) AS l FROM T a JOIN Bag b ON a.t = b.t
    GROUP BY a.g;
Both := SELECT g, first(x) AS f, collect_list(x) AS c FROM (SELECT g, t, x FROM Bag UNION ALL SELECT g, t, x FROM T) u
    GROUP BY g;
"""
VIEWS = ("Grouped", "Rolled", "Ranked", "Bagged", "Streamed", "Joined", "Both")


def row(random: Random) -> dict[str, Any]:
    return {"g": random.randint(1, 3), "t": random.randint(1, 3), "x": random.choice([None, 1, 2, 3, 4, 5])}


def present(values: list[Any]) -> list[Any]:
    return [v for v in values if v is not None]


def grouped(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of `Grouped` for the rows of a group in the order of their arrival."""
    xs = [r["x"] for r in rows]
    most = max(r["t"] for r in rows)
    least = min(r["t"] for r in rows)
    late = [r["x"] for r in rows if r["t"] > 1]
    there = present(xs)
    return {
        "g": rows[0]["g"],
        "f": xs[0],
        "l": xs[-1],
        "a": next(iter(there), None),
        "fn": next(iter(there), None),
        "lf": late[-1] if late else None,
        "c": there,
        "cd": sorted(set(there)),
        "cs": sorted(set(there)),
        "cp": [{"t": r["t"], "x": r["x"]} for r in rows],
        "ma": [r["x"] for r in rows if r["t"] == most][-1],
        "mi": next(r["x"] for r in rows if r["t"] == least),
        "mo": min(there, key=lambda v: (-there.count(v), v)) if there else None,
        "li": ",".join(map(str, there)) if there else None,
        "ld": ",".join(map(str, sorted(set(there)))) if there else None,
    }


def ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some columns of `Ranked` for the rows of a group in the order of their arrival."""
    rows = sorted(rows, key=lambda r: r["t"])
    made = []
    for n, r in enumerate(rows):
        peers = [o["x"] for o in rows if o["t"] <= r["t"]]
        made.append(
            {
                "k": r["k"],
                "r": n + 1,
                "la": rows[n - 1]["x"] if n else None,
                "le": rows[n + 2]["x"] if n + 2 < len(rows) else 0,
                "f": rows[0]["x"],
                "l": peers[-1],
                "ln": next(iter(present(peers[::-1])), None),
                "nv": peers[1] if len(peers) > 1 else None,
                "c": present(peers),
                "ra": 1 + sum(o["t"] < r["t"] for o in rows),
            }
        )
    return made


@pytest.mark.spark
@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_store_batch_and_python_agree_on_ties(spark: Any, each_store: str, seed: int) -> None:
    random = Random(seed)
    wb = Workbench(SCRIPT)
    known: dict[int, dict[str, Any]] = {}
    bag: list[dict[str, Any]] = []
    for epoch in range(epochs(seed)):
        for _ in range(20):
            new = {"k": random.randint(1, 40), **row(random)}
            wb.insert("T", [new])
            known.pop(new["k"], None)  # what is written again arrives again
            known[new["k"]] = new
        for key in random.sample(sorted(known), 3 if epoch else 0):
            wb.delete("T", [known.pop(key)])
        added = [row(random) for _ in range(12)]
        wb.insert("Bag", added)
        bag += added
        for gone in random.sample(bag, 2):
            bag.remove(gone)
            wb.delete("Bag", [gone])
        wb.insert("S", [{**row(random), "m": {"a": random.randint(1, 3)}} for _ in range(10)])
        wb.step()
        are_batch_answers(wb, VIEWS, epoch)
        groups = {g: [r for r in known.values() if r["g"] == g] for g in {r["g"] for r in known.values()}}
        assert {r["g"]: r for r in wb.rows("Grouped")} == {g: grouped(rows) for g, rows in groups.items()}
        found = {r["k"]: r for r in wb.rows("Ranked")}
        requested = [r for rows in groups.values() for r in ranked(rows)]
        assert len(found) == len(requested)
        assert [{n: found[r["k"]][n] for n in r} for r in requested] == requested
        if epoch % 2:
            wb.restart()
    wb.close()
