"""Views over SPL windows equal batch after every epoch, for any epochs and after restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.rules.spl import block_columns, buffered_rows
from tests.depth import at_night

START = datetime(2020, 1, 1, tzinfo=UTC)
POSTGRES = pytest.param("postgres", 3, marks=pytest.mark.postgres)
FORGETTINGS = ("partitionAge(3)", "partitionCount(2)", "tupleCount(6)")


@dataclass(frozen=True)
class Given:
    """What windows and aggregates are made of."""

    evictions: tuple[str, ...]
    triggers: tuple[str, ...]
    aggregates: tuple[str, ...]


KEPT = (
    "count(*) AS n, sum(qty) AS total, min(qty) AS least, max(qty) AS most, avg(qty) AS mean, sum(price) AS priced",
    "count(qty) AS n, count(*) FILTER (WHERE free > 0) AS some, min(price) AS least, stddev(qty) AS spread",
    "first(qty) AS f, last(qty) AS l, max(sym) AS s, sum(free) FILTER (WHERE qty > 3) AS t, avg(price) AS mean",
)
POLICIES = ("count(1)", "count(3)", "time(4)", "delta(level, 2)", "delta(free, 3)", "delta(price, 0.5)")
LISTS = (
    "first(qty) AS f, last(qty) AS l, collect_list(qty) AS held, count(DISTINCT free) AS kinds, max_by(qty, free) "
    "AS best"
)
ALL = Given(POLICIES, POLICIES, (KEPT[0], LISTS, KEPT[1]))
LONG = Given(
    ("count(7)", "count(12)", "time(9)", "delta(level, 9)", "delta(free, 20)", "delta(price, 1.5)"), POLICIES, KEPT
)


def clause(pick: random.Random, given: Given = ALL) -> tuple[str, bool]:
    """A window and whether it is partitioned."""
    words = []
    if pick.random() < 0.3:
        words += ["tumbling", pick.choice(given.evictions)]
    else:
        words += ["sliding", pick.choice(given.evictions), pick.choice(given.triggers)]
    if partitioned := pick.random() < 0.7:
        words += ["partitioned BY sym"]
        forgets = pick.random() < 0.3
        words += [pick.choice(FORGETTINGS)] if forgets else []
        words += ["aggregateEvictedPartitions"] if forgets and words[0] == "tumbling" and pick.random() < 0.5 else []
    if words[0] == "sliding" and pick.random() < 0.5:
        words += ["aggregateIncompleteWindows"]
    return ", ".join(words), partitioned


def view(name: str, pick: random.Random, given: Given) -> str:
    """A view over a random window."""
    window, partitioned = clause(pick, given)
    if pick.random() < 0.15:
        duration, period = pick.choice([(4, 4), (6, 3), (2, 5)])
        window, partitioned = (
            f"timeInterval, intervalDuration({duration}), creationPeriod({period})",
            pick.random() < 0.5,
        )
        window += pick.choice(["", ", discardAge(3)"]) + (", partitioned BY sym" if partitioned else "")
    groups = [g for g in ("sym", "free") if pick.random() < (0.8 if g == "sym" and partitioned else 0.2)]
    grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
    stream = "STREAM " if pick.random() < 0.5 else ""
    read = ", ".join([*groups, pick.choice(given.aggregates), "firing() AS number, firingTime() AS at"])
    if window.startswith("timeInterval"):
        read += ", intervalStart() AS since, paneTiming() AS timing, paneIndex() AS place"
    return f"{name} := SELECT {stream}{read} FROM Trades WINDOW ({window}){grouped};"


def script(pick: random.Random, views: int = 8, given: Given = ALL) -> str:
    columns = "sym STRING, qty INT, level INT, free INT, price DOUBLE, time TIMESTAMP"
    stream = f"CREATE STREAM Trades ({columns}, WATERMARK FOR time AS time - INTERVAL 2 SECONDS);"
    made = [view(f"V{n}", pick, given) for n in range(views)]
    chained = [line.split()[0] for line in made if "SELECT STREAM" in line]
    above = [
        f"Of{n} := SELECT STREAM count(*) AS n, sum(number) AS t FROM {n} WINDOW (tumbling, punct());"
        for n in chained[:2]
    ]
    return "\n".join([stream, *made, *above])


def epochs(pick: random.Random) -> Iterator[tuple[datetime, list[dict[str, Any]]]]:
    at, level, number = START, 0, 0
    for _ in range(6):
        at += timedelta(seconds=pick.choice([0, 1, 2, 3.5, 11]))
        rows = []
        for _ in range(pick.choice([0, 1, 3, 8])):
            number += 1
            level += pick.choice([0, 0, 1, 3])
            row = {"sym": pick.choice(["a", "a", "b", None]), "qty": number, "level": pick.choice([level] * 9 + [None])}
            late = timedelta(seconds=pick.choice([0, 0, 1, 1.5]))
            rows.append(
                row
                | {"free": pick.randint(-3, 5), "price": number / 8, "time": at + timedelta(seconds=number / 4) - late}
            )
        yield at, rows


def plain(rows: list[dict[str, Any]], ordered: bool) -> list[str]:
    shown = [repr({k: round(v, 9) if isinstance(v, float) else v for k, v in r.items()}) for r in rows]
    return shown if ordered else sorted(shown)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("each_store", "seed"),
    [("sqlite", 0), POSTGRES, *at_night([("sqlite", 1), ("sqlite", 2)])],
    indirect=["each_store"],
)
def test_maintained_is_batch(each_store: str, seed: int, executor: Any) -> None:
    check(seed, executor, views=8 if each_store == "sqlite" else 4)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 120))
def test_maintained_is_batch_often(seed: int, spark: Any) -> None:
    check(seed, spark)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [11, *at_night(range(200, 230))])
def test_blocks_are_batch(seed: int, executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two rows: much is read as blocks, and many of them are made and go."""
    for module in (block_columns, buffered_rows):
        monkeypatch.setattr(module, "BLOCK_ROWS", 2)
    check(seed, executor, LONG)


def check(seed: int, spark: Any, given: Given = ALL, views: int = 8) -> None:
    pick = random.Random(seed)
    text = script(pick, views, given)
    wb = Workbench(text, spark=spark)
    try:
        for at, rows in epochs(pick):
            wb.clock(at)
            wb.insert("Trades", rows)
            wb.step()
            if pick.random() < 0.3:
                wb.restart()
        batch = wb.batches(line.split()[0] for line in text.splitlines()[1:])
        for line in text.splitlines()[1:]:
            name, ordered = line.split()[0], "SELECT STREAM" in line
            assert plain(wb.rows(name), ordered) == plain(batch[name], ordered), line
    finally:
        wb.close()


@pytest.mark.thorough
def test_cuts_do_not_matter(executor: Any) -> None:
    """The same rows at the same clocks in one epoch for each clock, or in several."""
    pick = random.Random(7)
    views = script(pick, 12).splitlines()
    panes = [line.split()[0] for line in views if "timeInterval" in line]
    text = "\n".join(line for line in views if not any(f"{name} " in line for name in panes))
    given = list(epochs(pick))
    answers = []
    for cut in (False, True):
        wb = Workbench(text, spark=executor)
        try:
            for at, rows in given:
                wb.clock(at)
                for part in [[r] for r in rows[:2]] + [rows[2:]] if cut else [rows]:
                    wb.insert("Trades", part)
                    wb.step()
            answers.append([plain(wb.rows(line.split()[0]), "SELECT STREAM" in line) for line in text.splitlines()[1:]])
        finally:
            wb.close()
    assert answers[0] == answers[1]
