"""Sessions with a gap of each row's own, `session_window(ts, expression)`, beside plain Python in random epochs."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.event_time.cases import at

START = at("8:00")
INPUTS = """
CREATE STREAM _S (id INT, k STRING, g INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts);
CREATE TABLE T (id INT, k STRING, g INT, ts TIMESTAMP, PRIMARY KEY (id));
"""
GAP = (
    "CASE WHEN g > 2 THEN '4 minutes' WHEN g < 1 THEN '0 minutes' WHEN g = 1 THEN INTERVAL '1' MINUTE WHEN g = 2 "
    "THEN '2 minutes' END"
)
ITEMS = "session_window.start AS s, session_window.end AS e, count(*) AS n, sum(id) AS t"
VIEWS = {
    "Groups": f"SELECT k, {ITEMS} FROM _S AS x GROUP BY k, session_window(x.ts, {GAP})",
    "Lists": f"SELECT k, {ITEMS}, count(DISTINCT g) AS d FROM _S GROUP BY k, session_window(ts, {GAP})",
    "Updated": f"SELECT k, {ITEMS} FROM T GROUP BY k, session_window(ts, {GAP})",
}
EMITTED = f"SELECT k, {ITEMS} FROM _S GROUP BY k, session_window(ts, {GAP}) EMIT AFTER WATERMARK"
SCRIPT = INPUTS + "".join(f"{n} := {q};\n" for n, q in VIEWS.items()) + f"Emitted := {EMITTED};\n"
Found = Counter[tuple[str, datetime, datetime, int, int]]


def gap(g: int | None) -> timedelta | None:
    if g is None:
        return None
    return timedelta(minutes=4 if g > 2 else 0 if g < 0 else g)


def sessions(rows: list[dict[str, Any]]) -> Found:
    """A row without a time or a positive gap is in no session; sessions that touch are one."""
    found: Found = Counter()
    for key in sorted({r["k"] for r in rows}):
        own = [(r["ts"], r["ts"] + g, r["id"]) for r in rows if r["k"] == key and r["ts"] and (g := gap(r["g"]))]
        groups: list[tuple[datetime, datetime, list[int]]] = []
        for start, until, id_ in sorted(own):
            if groups and start <= groups[-1][1]:
                first, last, ids = groups[-1]
                groups[-1] = (first, max(last, until), [*ids, id_])
            else:
                groups.append((start, until, [id_]))
        found += Counter((key, s, e, len(ids), sum(ids)) for s, e, ids in groups)
    return found


def shown(rows: list[dict[str, Any]]) -> Found:
    return Counter((r["k"], r["s"], r["e"], r["n"], r["t"]) for r in rows)


def row(random: Random, id_: int, bound: int) -> dict[str, Any]:
    time = START + timedelta(minutes=bound + random.randrange(24), seconds=random.choice([0, 0, 30]))
    return {"id": id_, "k": random.choice("ab"), "g": random.choice([None, -1, 0, 1, 2, 2, 3]), "ts": time}


def test_an_own_gap_is_kept_as_one_for_all() -> None:
    stages = maintain(compile_script(SCRIPT).catalog).stages
    assert {s.rule for s in stages if s.owner == "Groups"} == {"session groups", "linear"}
    assert "sessions" in {s.rule for s in stages if s.owner == "Lists"}


@pytest.mark.parametrize("seed", [1, *at_night(range(2, 10))])
def test_sessions_are_those_of_python(executor: Any, seed: int) -> None:
    random, stream, table = Random(seed), list[dict[str, Any]](), dict[int, dict[str, Any]]()
    wb = Workbench(SCRIPT, spark=executor)
    emitted: Found = Counter()
    for epoch in range(5):
        bound = 10 * epoch
        rows = [row(random, 100 * epoch + n, bound) for n in range(8)]
        stream += rows
        wb.insert("_S", rows)
        for made in [row(random, random.randrange(12), random.randrange(40)) for _ in range(4)]:
            table[made["id"]] = made
            wb.insert("T", [made])
        for id_ in [i for i in sorted(table) if random.random() < 0.2]:
            wb.delete("T", [table.pop(id_)])
        wb.bound("_S", START + timedelta(minutes=bound + 10))
        wb.step()
        if random.random() < 0.4:
            wb.restart()
        assert shown(wb.rows("Groups")) == shown(wb.rows("Lists")) == sessions(stream)
        assert shown(wb.rows("Updated")) == sessions(list(table.values()))
        before, emitted = emitted, shown(wb.rows("Emitted"))
        assert before <= emitted
        final = Counter({s: n for s, n in sessions(stream).items() if s[2] < START + timedelta(minutes=bound + 10)})
        assert emitted == final
    assert emitted
    for name, batch in wb.batches([*VIEWS, "Emitted"]).items():
        assert shown(batch) == shown(wb.rows(name)), name
    wb.close()


@pytest.mark.parametrize(
    ("gap_", "code"),
    [("'often'", "B5002"), ("g", "B3002"), ("k", "B3002"), ("CASE WHEN g > 1 THEN '5 minutes' ELSE 'x' END", "B5002")],
)
def test_what_is_no_gap_is_refused(gap_: str, code: str) -> None:
    found = compile_script(f"{INPUTS}V := SELECT count(*) AS n FROM _S GROUP BY session_window(ts, {gap_});")
    assert [d.code for d in found.diagnostics if d.severity.value == "error"] == [code]
