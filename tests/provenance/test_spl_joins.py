"""Where the results of joined SPL windows come from, against a simulator that knows the two rows of each."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.provenance.findings import PruningKind, Why
from tests.depth import at_night, quick
from tests.spl.clauses import micros
from tests.spl.simulator import Tuple
from tests.spl.test_join_views import START, Case

COLUMNS = "id INT, k STRING, level INT"


def text_of(case: Case, name: str, read: str) -> str:
    return case.text(name, "").replace("l.id AS l, r.id AS r, firingTime() AS at", read)


def named(found: Why, table: str) -> list[int]:
    return sorted(r["id"] for i in found.inputs if i.relation == table for r in i.rows)


def check(case: Case, pick: random.Random, spark: Any, most: int) -> int:
    """How many results were traced."""
    simulator = case.simulator()
    views = text_of(case, "ById", "l.id AS l, r.id AS r"), text_of(case, "ByLevel", "l.level AS l, r.level AS r")
    wb = Workbench(f"CREATE STREAM Lefts ({COLUMNS}); CREATE STREAM Rights ({COLUMNS}); {' '.join(views)}", spark=spark)
    at, number, sides = START, 0, {"Lefts": 0, "Rights": 1}
    try:
        for _ in range(5):
            at += timedelta(seconds=pick.choice([0, 1, 2.5, 7]))
            wb.clock(at)
            for table, side in sides.items():
                for _ in range(pick.choice([0, 1, 2, 4])):
                    number += 1
                    row = {"id": number, "k": pick.choice(["a", "a", "b", None]), "level": pick.choice([100, 101, 103])}
                    wb.insert(table, [row])
                    simulator.tuple(
                        side, Tuple(number, micros((at - START).total_seconds()), case.partition(side, row), row)
                    )
            wb.step()
            simulator.clock(micros((at - START).total_seconds()))
        pairs = list(enumerate(zip(wb._stored("ById").to_pylist(), simulator.results, strict=True)))
        for n, (row, (_, left, right)) in pick.sample(pairs, min(most, len(pairs))):
            assert (row["l"], row["r"]) == (left, right)
            there = {"Lefts": [left] * (left is not None), "Rights": [right] * (right is not None)}
            found, vague = (wb.why(view, {"_seq": n + 1}, size=1_000) for view in ("ById", "ByLevel"))
            for table, expected in there.items():
                assert named(found, table) == expected, (case, row)
                assert set(named(vague, table)) >= set(expected), (case, row)
                held = {r["id"]: r["_ingest_time"] for r in wb._stored(table).to_pylist()}
                assert all(held[i] <= row["_fired"] for i in named(vague, table))
        return len(pairs)
    finally:
        wb.close()


@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(
    ("each_store", "seed"),
    [
        ("sqlite", 1),
        pytest.param("postgres", 2, marks=pytest.mark.postgres),
        *at_night([("sqlite", s) for s in range(3, 20)]),
    ],
    indirect=["each_store"],
)
def test_the_two_rows_of_a_result_are_named_and_no_others(seed: int, executor: Any) -> None:
    pick = random.Random(seed)
    kinds = [pick.choice(["LEFT JOIN", "FULL JOIN"]), pick.choice(["JOIN", "RIGHT JOIN"])]
    cases = [Case(c.evictions, c.partitions, kind, c.condition) for kind in kinds for c in [Case.any(pick)]]
    assert sum(check(c, pick, executor, 2 if quick else 15) for c in cases) > 0


SCRIPT = f"""CREATE STREAM Lefts ({COLUMNS});
CREATE STREAM Rights ({COLUMNS});
V := SELECT l.id AS l, r.id AS r FROM Lefts WINDOW (sliding, time(5)) AS l
     LEFT JOIN Rights WINDOW (sliding, count(1)) AS r ON l.k = r.k;
W := SELECT l.level AS l, r.level AS r FROM Lefts WINDOW (sliding, time(5)) AS l
     FULL JOIN Rights WINDOW (sliding, time(1)) AS r ON l.k = r.k;"""


@pytest.fixture
def joined(executor: Any) -> Any:
    wb = Workbench(SCRIPT, spark=executor)
    for second, lefts, rights in (
        (0, [(1, "a", 10)], [(2, "b", 20), (3, "a", 30)]),
        (4, [(4, "b", 10)], []),
        (60, [(5, "c", 70)], [(6, "c", None)]),
    ):
        wb.clock(START + timedelta(seconds=second))
        for table, rows in (("Lefts", lefts), ("Rights", rights)):
            wb.insert(table, [dict(zip(("id", "k", "level"), r, strict=True)) for r in rows])
        wb.step()
    yield wb
    wb.close()


def test_words_and_null_values_of_rows_that_met(joined: Any) -> None:
    """Of (70, NULL) the right row may be one whose level is NULL, and it is the one that met the left row."""
    found = joined.why("W", {"l": 70, "r": None})
    assert (named(found, "Lefts"), named(found, "Rights")) == ([5], [6])
    assert [r.words for r in found.reads] == ["in its window", "in its window"]
    found = joined.why("W", {"l": 10, "r": None})
    assert (named(found, "Lefts"), named(found, "Rights")) == ([4], [])


def test_why_there_is_no_such_result(joined: Any) -> None:
    (lost,) = joined.why_not("V", {"l": 4, "r": 2}).lost
    assert lost.at is PruningKind.WINDOW
    assert "both sides have such rows, but they were not in the windows at the same time" in lost.words
    (lost,) = joined.why_not("V", {"l": 1, "r": None}).lost
    assert "there is such a row, but it had a match or is still in its window" in lost.words
    (lost,) = joined.why_not("V", {"l": 1, "r": 99}).lost
    assert (lost.view, lost.at) == ("Rights", PruningKind.INPUT)
    (lost,) = joined.why_not("V", {"l": 99, "r": None}).lost
    assert (lost.view, lost.at) == ("Lefts", PruningKind.INPUT)
