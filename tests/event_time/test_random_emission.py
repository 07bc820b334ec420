"""EMIT AFTER WATERMARK over random windows, groups and joins of them: never early and never taken back.

Queries without an event time are refused; of the others each has a twin without EMIT (`test_passing`). At the end all
windows are there; groups of open windows wait for a bound that no time reaches, if their key is rounded.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.event_time.test_passing import PASSING, check_emission

STARTS = ["", "WHEN s.v < 25", "WHEN s.v >= 10"]
ENDS = [
    "n.ts - e.ts > duration('PT{m}M')",
    "n.ts - s.ts >= duration('PT{m}M')",
    "e.v > s.v",
    "n.v >= 25",
    "e.v < 30 AND e.i <> s.i",
    "n.ts - e.ts > duration('PT{m}M') OR e.v > 40",
]
RESULTS = ["s.ts AS since", "s.k AS k", "s.i AS i", "ARRAY_COUNT(w) AS n", "ARRAY_SUM(w[*].v) AS v", "e.i AS last"]
RESULTS += ["LEN(w) AS len", "ARRAY_MAX(w[*].ts) AS until", "e.ts AS ended"]
OVER = [
    "SELECT since, count(*) AS c, sum(n) AS n FROM {w} GROUP BY since",
    "SELECT date_trunc('MINUTE', since) AS m, count(*) AS c, max(n) AS n FROM {w} GROUP BY m",
    "SELECT wend, count(*) AS c, sum(n) AS n FROM Tumble(data => TABLE({w}), timecol => DESCRIPTOR(since), "
    "dur => INTERVAL '{m}' MINUTES) GROUP BY wend",
    "SELECT wstart, k, min(n) AS n FROM Hop(data => TABLE({w}), timecol => DESCRIPTOR(since), "
    "dur => INTERVAL '4' MINUTES, hopsize => INTERVAL '{m}' MINUTES) WHERE k = 'a' GROUP BY wstart, k",
    "SELECT a.since, a.n, y.i AS y FROM {w} a JOIN Y y ON y.ts BETWEEN a.since AND a.since + INTERVAL '{m}' MINUTES",
    "SELECT a.since, b.n FROM {w} a JOIN {w} b ON b.since > a.since AND b.since <= a.since + INTERVAL '{m}' MINUTES",
    "SELECT date_trunc('MINUTE', a.since) AS m, count(*) AS c FROM {w} a JOIN Y y "
    "ON y.ts BETWEEN a.since AND a.since + INTERVAL '{m}' MINUTES GROUP BY 1",
]


def windows(random: Random) -> str:
    """A query with WINDOW BY: its start and length are among its results."""
    kind, only = random.choice(["TUMBLING", "SLIDING"]), random.choice(["", "", "ONLY "])
    end = random.choice(ENDS).replace("{m}", str(random.randint(1, 4)))
    partition = random.choice(["PARTITION BY x.k ", "PARTITION BY x.k ", ""])
    items = RESULTS[:4] + [r for r in RESULTS[4:] if random.random() < 0.3]
    return (
        f"FROM X AS x WHERE x.ts IS NOT NULL WINDOW BY w {partition}ORDER BY x.ts, x.i, x.v TYPE {kind} "
        f"START AS s {random.choice(STARTS)} {only}END AS e NEXT AS n WHEN {end} SELECT {', '.join(items)}"
    )


def script(random: Random) -> tuple[str, list[str]]:
    """A script of views, each with its twin, and the names of those that are accepted."""
    text, names = PASSING, list[str]()
    for number in range(2):
        text += f"W{number} := {windows(random)};\n"
        queries = [f"SELECT * FROM W{number}", *random.sample(OVER, 2)]
        for place, query in enumerate(queries):
            name = f"V{number}{place}"
            made = query.replace("{w}", f"W{number}").replace("{m}", str(random.randint(1, 3)))
            found = compile_script(f"{text}{name} := {made} EMIT AFTER WATERMARK;")
            codes = {d.code for d in found.diagnostics if d.severity.value == "error"}
            assert codes <= {"B5013"}, (made, codes)
            if not codes:
                text += f"{name} := {made} EMIT AFTER WATERMARK;\n{name}All := {made};\n"
                names.append(name)
    return text, names


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, *at_night(range(2, 20))])
def test_random_windows_come_out_once_final(executor: Any, seed: int) -> None:
    text, names = script(Random(seed))
    assert len(names) >= 2
    wb = Workbench(text, spark=executor)
    windows_alone = {name for name in names if name.endswith("0")}
    check_emission(wb, dict.fromkeys(names, ""), 3, seed=100 + seed, restarts=True, whole=windows_alone)
    wb.close()
