"""Event-time panes with late rows: after every epoch views equal batch and the plain simulator, also after restarts."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.plan.operators.spl_windows import Interval
from tests.depth import at_night
from tests.spl.simulator import Fired, PaneSimulator, Tuple

START = datetime(2020, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
DELAY = 2
"""Seconds by which the stream's bound lies below its greatest event time."""
STREAM = (
    f"CREATE STREAM Trades (sym STRING, n INT, time TIMESTAMP, WATERMARK FOR time AS time - INTERVAL {DELAY} "
    "SECONDS) LATE KEEP;"
)


def interval(pick: random.Random) -> Interval:
    duration, period = pick.choice([(4, 4), (6, 3), (7, 3), (2, 5)])
    return Interval(duration, period, pick.choice([0, 3, 8, 60]), pick.choice([0, 1]))


def view(name: str, kind: Interval, stream: bool) -> str:
    said = f"intervalDuration({kind.duration}), creationPeriod({kind.period}), discardAge({kind.discard})"
    window = f"timeInterval, {said}, intervalOffset({kind.offset}), partitioned BY sym"
    read = (
        "sym, collect_list(n) AS held, count(*) AS many, firingTime() AS at, intervalStart() AS since, paneIndex() "
        "AS place"
    )
    return f"{name} := SELECT {'STREAM ' if stream else ''}{read} FROM Trades WINDOW ({window}) GROUP BY sym;"


class Simulated:
    """What a view's rows are: every firing in its order, or the last of each pane."""

    def __init__(self, kind: Interval):
        scaled = (kind.duration, kind.period, kind.discard, kind.offset)
        self.panes = PaneSimulator(Interval(*(n * SECOND for n in scaled)))

    def epoch(self, rows: list[dict[str, Any]], bound: int) -> None:
        for row in rows:
            self.panes.tuple(Tuple(row["n"], 0, row["sym"], {"time": epoch_micros(row["time"])}))
        self.panes.advance(bound)

    def rows(self, stream: bool) -> list[dict[str, Any]]:
        firings = self.panes.firings
        if not stream:
            firings = list({(f.pane, f.partition): f for f in firings}.values())
        return [self._row(f) for f in firings]

    @staticmethod
    def _row(f: Fired) -> dict[str, Any]:
        held, at, since = list(f.contents), moment(f.at), moment(f.pane or 0)
        return {"sym": f.partition, "held": held, "many": len(held), "at": at, "since": since, "place": f.index}


def epoch_micros(at: datetime) -> int:
    return round(at.timestamp() * SECOND)


def moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / SECOND, UTC)


def arrivals(pick: random.Random, epochs: int) -> list[list[dict[str, Any]]]:
    """Rows by epoch: time goes on by some seconds, many rows come late, some of them by much."""
    at, number, found = 0, 0, []
    for _ in range(epochs):
        at += pick.choice([0, 1, 3, 9])
        rows = []
        for _ in range(pick.choice([0, 1, 2, 6])):
            number += 1
            time = START + timedelta(seconds=at + pick.choice([0, 0.5, 1]) - pick.choice([0, 0, 0, 1.5, 4, 9, 20]))
            rows.append({"sym": pick.choice("aab"), "n": number, "time": time})
        found.append(rows)
    return found


CORRECTING = (100, 101, 102, 105, 106, 107, 108, 109)
"""Seeds whose rows correct panes: of others some come too late for all of them."""


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, *at_night(CORRECTING)])
def test_late_rows_correct_their_panes(seed: int, executor: Any) -> None:
    pick = random.Random(seed)
    views = {f"V{n}": (interval(pick), n % 2 == 0) for n in range(3)}
    wb = Workbench("\n".join([STREAM, *(view(name, *of) for name, of in views.items())]), spark=executor)
    simulated = {name: Simulated(kind) for name, (kind, _) in views.items()}
    greatest = None
    try:
        for number, rows in enumerate(arrivals(pick, 9)):
            wb.clock(START + timedelta(minutes=number))
            wb.insert("Trades", rows)
            wb.step()
            greatest = max(
                [*(epoch_micros(r["time"]) for r in rows), *([greatest] if greatest is not None else [])], default=None
            )
            batches = wb.batches(views) if number == 8 else {}
            for name, (_, stream) in views.items():
                if greatest is not None:
                    simulated[name].epoch(rows, greatest - DELAY * SECOND)
                expected = plain(simulated[name].rows(stream), stream)
                assert plain(wb.rows(name), stream) == expected, (name, number)
                assert not batches or plain(batches[name], stream) == expected, (name, number)
            if pick.random() < 0.2:
                wb.restart()
    finally:
        wb.close()
    late = sum(f.index or 0 for s in simulated.values() for f in s.panes.firings)
    assert late, "no pane was corrected"


def plain(rows: list[dict[str, Any]], ordered: bool) -> list[str]:
    shown = [repr([(n, v.timestamp() if isinstance(v, datetime) else v) for n, v in sorted(r.items())]) for r in rows]
    return shown if ordered else sorted(shown)
