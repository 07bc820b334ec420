"""Views of which a change finds only the windows again that it can reach: after every epoch they are what batch
says."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.workbench.workbench import Workbench

Row = dict[str, Any]
TABLE = (
    "CREATE TABLE Ghcn (id BIGINT PRIMARY KEY, station STRING, day DATE NOT NULL, at TIMESTAMP NOT NULL, o BIGINT,"
    " val INT);\n"
)
HEAD = "FROM Ghcn AS g WHERE g.val <> 7 WINDOW BY w "
TAIL = " SELECT s.station, s.o AS first, ARRAY_SUM(w[*].val) AS total, LEN(w) AS n;\n"
SLIDING = {
    "Cold": "PARTITION BY g.station ORDER BY g.day, g.o TYPE SLIDING START AS s WHEN s.val < 25 END NEXT AS n WHEN "
    "n.val >= 25",
    "Three": "ORDER BY g.o TYPE SLIDING START AS s AT sp PREV AS b WHEN b.val < s.val ONLY END AT ep WHEN ep - sp = 2",
    "Limited": "PARTITION BY g.station ORDER BY g.at TYPE SLIDING START AS s END AS e WHEN AVG(w.val) > 22 WITHIN "
    "INTERVAL 2 DAYS",
    "Counted": "ORDER BY g.o TYPE SLIDING START AS s END AS e WHEN COUNT(w.val) >= 4 OR MAX(w.val) - MIN(w.val) > 9 "
    "AND SUM(w.val) > 40",
    "Ago": "PARTITION BY g.station ORDER BY g.o DESC TYPE SLIDING START AS s ONLY END AS e WHEN e.o < s.o - 30 OR "
    "e.val = 29",
    "Week": "PARTITION BY g.station ORDER BY g.at TYPE SLIDING START AS s END AS e NEXT AS n WHEN n.at - s.at > "
    "duration('P7D')",
}
TUMBLING = {
    "Spells": "PARTITION BY g.station ORDER BY g.o TYPE TUMBLING START AS s WHEN s.val < 25 END NEXT AS n WHEN n.val "
    ">= 25",
    "Filled": "PARTITION BY g.station ORDER BY g.day, g.o TYPE TUMBLING START AS s END AS e WHEN SUM(w.val) > 60 OR "
    "AVG(w.val) < 3",
    "Rises": "PARTITION BY g.station ORDER BY g.day, g.o TYPE TUMBLING START AS s END AS e WHEN e.val > s.val",
    "Fresh": "PARTITION BY g.station ORDER BY g.day DESC, g.o TYPE TUMBLING START AS s WHEN s.val < 25 END NEXT AS n "
    "WHEN n.val >= 25",
    "Since": "ORDER BY g.o TYPE TUMBLING START AS s WHEN s.val < 9",
}
LABELLED = {
    "Around": "PARTITION BY g.station ORDER BY g.o TYPE SLIDING LABEL AS s AT lp WHEN s.val < 20 START AT sp WHEN lp "
    "- sp = 2 END AT ep WHEN ep - lp = 1",
    "Month": "PARTITION BY g.station ORDER BY g.at DESC TYPE SLIDING LABEL AS s NEXT AS m WHEN s.val < m.val "
    "START AS f WHEN f.at - s.at <= duration('P3D') ONLY END AS e WHEN s.at - e.at > duration('P1D') OR e.val = 29",
    "Before": "ORDER BY g.o TYPE SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 10 ONLY END AT ep WHEN lp - ep = "
    "5",
}
BACK = {
    "Steps": "PARTITION BY g.station ORDER BY g.o TYPE TUMBLING START AS s PREV AS p WHEN s.o - p.o > 2",
    "Falls": "PARTITION BY g.station ORDER BY g.o DESC TYPE TUMBLING START AS s PREV AS p NEXT AS n WHEN s.val < "
    "p.val AND n.val > 3 ONLY END AS e PREV AS q WHEN e.val > q.val",
}


def row(random: Random, number: int) -> Row:
    day = date(2020, 1, 1) + timedelta(days=number * 11 // 20)
    order = None if random.randrange(200) == 0 else number * 2 + random.randrange(2)
    return {
        "id": number,
        "station": "ab"[number % 2],
        "day": f"{day}",
        "at": f"{day} 08:00:00",
        "o": order,
        "val": random.randrange(30),
    }


def followed(
    framed: dict[str, str], seed: int, rows: int, epochs: int, monkeypatch: pytest.MonkeyPatch, places: int = 1
) -> list[int]:
    """Random changes in so many places of long partitions in each epoch, and one restart; how many rows each stage read
    in each."""
    window_reach = pytest.importorskip("belvedere.rules.window_by.affected_windows")
    monkeypatch.setattr(window_reach, "FIRST_ROWS", 8)
    monkeypatch.setattr(window_reach, "MIN_ROWS", 4)
    read: list[int] = []
    reached_rows = window_reach.affected_rows

    def counted(*given: Any) -> Any:
        found = reached_rows(*given)
        read.append(found[0].num_rows)
        return found

    monkeypatch.setattr(window_reach, "affected_rows", counted)
    random = Random(seed)
    present = {n: row(random, n) for n in range(rows)}
    bench = Workbench(TABLE + "".join(f"{n} := {HEAD}{t}{TAIL}" for n, t in framed.items()))
    try:
        bench.insert("Ghcn", list(present.values()))
        bench.step()
        for epoch in range(epochs):
            for about in random.sample(range(rows), places):
                coming = {n: row(random, n) for n in random.sample(range(about, about + 6), 4)}
                going = [n for n in random.sample(range(about, about + 6), 2) if n in present and n not in coming]
                bench.delete("Ghcn", [present.pop(n) for n in going])
                bench.insert("Ghcn", list(coming.values()))
                present.update(coming)
            bench.step()
            for view, batch in bench.batches(framed).items():
                found, expected = (sorted(map(str, r)) for r in (bench.rows(view), batch))
                assert found == expected, (view, epoch)
            if epoch == 0:
                bench.restart()
        return read
    finally:
        bench.close()


def test_a_change_finds_the_windows_again_that_it_can_reach(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    framed = {n: {**SLIDING, **TUMBLING}[n] for n in ("Three", "Ago", "Fresh", "Filled", "Counted", "Limited")}
    read = followed(framed, 5, 240, 2, monkeypatch)
    assert len(read) == 2 * len(framed)
    assert sorted(read)[len(read) // 2] < 120


def test_labels_and_looks_back_read_what_is_around_a_change(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    framed = {**LABELLED, "Steps": BACK["Steps"]}
    read = followed(framed, 11, 400, 2, monkeypatch)
    assert len(read) == 2 * len(framed)
    assert sorted(read)[-2] < 250, read


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_many_changes_find_the_windows_again_that_they_can_reach(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    followed({**SLIDING, **TUMBLING, **BACK}, seed, 600, 4, monkeypatch, places=3)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_many_changes_find_the_windows_again_by_their_labels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    followed(LABELLED, seed, 600, 4, monkeypatch, places=3)


def test_partitions_with_one_hash_are_computed_whole(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two partitions share a hash, each changed one is found again with the other."""
    monkeypatch.setattr(
        pytest.importorskip("belvedere.engine.sql.row_identity"), "path_hash", lambda exprs, types: "CAST(1 AS BIGINT)"
    )
    assert followed({"Cold": SLIDING["Cold"]}, 3, 120, 1, monkeypatch)[0] > 110


def test_the_rule_can_be_switched_off() -> None:
    every = {**SLIDING, **TUMBLING, **LABELLED, **BACK}
    script = TABLE + "".join(f"{n} := {HEAD}{t}{TAIL}" for n, t in every.items())
    catalog = compile_script(script).catalog
    reached = {s.output for s in maintain(catalog).stages if s.rule == "windows"}
    assert reached == {*every}
    assert not [s for s in maintain(catalog, without("windows")).stages if s.rule == "windows"]
