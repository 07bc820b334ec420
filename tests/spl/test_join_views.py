"""Views over joined SPL windows equal the plain simulator and batch, for any epochs and after restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.plan.operators.spl_windows import Policy
from tests.depth import stores_by_turns
from tests.spl.clauses import clause, micros
from tests.spl.join_simulator import JoinSimulator
from tests.spl.simulator import Tuple

START = datetime(2020, 1, 1, tzinfo=UTC)
EVICTIONS = ("count(0)", "count(1)", "count(3)", "time(2)", "time(5)", "delta(level, 2)")
OUTER = {"JOIN": (False, False), "LEFT JOIN": (True, False), "RIGHT JOIN": (False, True), "FULL JOIN": (True, True)}


def same(left: Tuple, right: Tuple) -> bool:
    return left.values["k"] is not None and left.values["k"] == right.values["k"]


def below(left: Tuple, right: Tuple) -> bool:
    return bool(left.values["level"] <= right.values["level"])


CONDITIONS: dict[str, Callable[[Tuple, Tuple], bool]] = {
    "l.k = r.k": same,
    "r.k = l.k AND l.level <= r.level": lambda a, b: same(a, b) and below(a, b),
    "l.level <= r.level": below,
    "l.k <=> r.k": lambda a, b: bool(a.values["k"] == b.values["k"]),
}


@dataclass(frozen=True)
class Case:
    """A join: the eviction of each side and what it is partitioned by, if anything; the kind, the condition."""

    evictions: tuple[str, str]
    partitions: tuple[str, str]
    kind: str
    condition: str

    @classmethod
    def any(cls, pick: random.Random) -> Case:
        return cls(
            (pick.choice(EVICTIONS), pick.choice(EVICTIONS)),
            (pick.choice(["", "k", "k", "level % 2"]), pick.choice(["", "k", "k", "level % 2"])),
            pick.choice(list(OUTER)),
            pick.choice(list(CONDITIONS)),
        )

    def text(self, name: str, stream: str) -> str:
        left, right = (
            f"WINDOW (sliding, {e}{f', partitioned BY {p}' if p else ''})"
            for e, p in zip(self.evictions, self.partitions, strict=True)
        )
        read = "l.id AS l, r.id AS r, firingTime() AS at"
        return (
            f"{name} := SELECT {stream}{read} FROM Lefts {left} AS l {self.kind} Rights {right} AS r ON "
            f"{self.condition};"
        )

    def simulator(self) -> JoinSimulator:
        found: list[Policy] = []
        for eviction in self.evictions:
            kind: Any = clause(f"sliding, {eviction}").kind
            found.append(kind.eviction)
        return JoinSimulator((found[0], found[1]), OUTER[self.kind], CONDITIONS[self.condition])

    def partition(self, side: int, row: dict[str, Any]) -> Any:
        by = self.partitions[side]
        return None if not by else row["k"] if by == "k" else int(row["level"]) % 2


def script(cases: list[Case], pick: random.Random) -> str:
    columns = "id INT, k STRING, level INT"
    lines = [f"CREATE STREAM Lefts ({columns});", f"CREATE STREAM Rights ({columns});"]
    lines += [case.text(f"V{n}", pick.choice(["", "STREAM "])) for n, case in enumerate(cases)]
    lines += [
        "Ids := SELECT id + 0 AS id, k FROM Lefts WHERE level > 103;",
        "Fired := SELECT STREAM k, count(*) AS n FROM Rights WINDOW (tumbling, count(2), partitioned BY k);",
        "Timed := SELECT STREAM max(k) AS k, count(*) AS n FROM Lefts WINDOW (tumbling, time(2));",
        "Own := SELECT a.id AS a, b.id AS b "
        "FROM Ids WINDOW (sliding, count(2)) AS a LEFT JOIN Ids WINDOW (sliding, time(3)) AS b USING (k);",
        "Mixed := SELECT STREAM id, n FROM Fired WINDOW (sliding, count(1), partitioned BY k) AS f "
        "FULL JOIN Lefts WINDOW (sliding, count(2)) AS l ON f.k = l.k;",
        "Both := SELECT STREAM f.n AS f, t.n AS t "
        "FROM Timed WINDOW (sliding, time(3)) AS t JOIN Fired WINDOW (sliding, time(4)) AS f ON t.n <= f.n;",
        "Above := SELECT STREAM count(*) AS n, max(at) AS at FROM V0 WINDOW (tumbling, punct());",
    ]
    return "\n".join(lines)


def check(seed: int, spark: Any, views: int = 4, epochs: int = 6) -> None:
    pick = random.Random(seed)
    cases = [Case.any(pick) for _ in range(views)]
    simulators = [c.simulator() for c in cases]
    text = script(cases, pick)
    if "V0 := SELECT STREAM" not in text:
        text = text.replace("V0 := SELECT", "V0 := SELECT STREAM")
    wb = Workbench(text, spark=spark)
    at, level, number = START, 100, 0
    try:
        for _ in range(epochs):
            at += timedelta(seconds=pick.choice([0, 0, 1, 2.5, 7]))
            wb.clock(at)
            for side, table in enumerate(("Lefts", "Rights")):
                rows = []
                for _ in range(pick.choice([0, 1, 2, 5])):
                    number += 1
                    level += pick.choice([0, 0, 1, 3, -1])
                    row: dict[str, Any] = {"id": number, "k": pick.choice(["a", "a", "b", None]), "level": level}
                    rows.append(row)
                wb.insert(table, rows)
                for row in rows:
                    for case, simulator in zip(cases, simulators, strict=True):
                        arrived = Tuple(row["id"], micros((at - START).total_seconds()), case.partition(side, row), row)
                        simulator.tuple(side, arrived)
            wb.step()
            for simulator in simulators:
                simulator.clock(micros((at - START).total_seconds()))
            if pick.random() < 0.3:
                wb.restart()
        for n, (case, simulator) in enumerate(zip(cases, simulators, strict=True)):
            found = [(round((r["at"] - START) / timedelta(microseconds=1)), r["l"], r["r"]) for r in wb.rows(f"V{n}")]
            assert found == simulator.results, case
        for name in [*(f"V{n}" for n in range(views)), "Own", "Mixed", "Both", "Above"]:
            assert wb.rows(name) == wb.batch(name), name
    finally:
        wb.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(1)), indirect=["each_store"])
def test_maintained_is_simulated(each_store: str, seed: int, executor: Any) -> None:
    check(seed, executor, views=3, epochs=4)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 140))
def test_maintained_is_simulated_often(seed: int, spark: Any) -> None:
    check(seed, spark, 10)
