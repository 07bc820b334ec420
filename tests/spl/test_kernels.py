"""The kernels of SPL windows against worked examples and against the plain simulator, cut anywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.kernels.spl.blocks import can_hold_blocks
from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    Interval,
    PartitionAge,
    PartitionCount,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)
from tests.depth import examples
from tests.spl.clauses import clause, micros
from tests.spl.runs import run, run_in_blocks, run_panes
from tests.spl.simulator import Fired, PaneSimulator, Simulator, Tuple

FIXTURE = Path(__file__).parents[1] / "fixtures" / "spl" / "firings.txt"
PARTS = FIXTURE.read_text(encoding="utf-8").split("=== ")[1:]
LATEST = 1 << 60
FIRES = re.compile(r"(\S+) (?:(\S+): )?\[(.*?)\](?: pane (\S+) \S+ (\S+) (\d+))?")


def instant(text: str) -> int:
    return LATEST if text == "MAX" else micros(text)


def value(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else text


class Case:
    """One example: the clause, the events, the firings as text."""

    def __init__(self, text: str):
        self.title, *lines = text.strip().splitlines()
        said = [line.split(maxsplit=1) for line in lines]
        self.window = clause(next(rest for word, rest in said if word == "window"))
        self.events = next(rest for word, rest in said if word == "events").split()
        self.fires = [rest for word, rest in said if word == "fires"]

    def rows(self) -> list[tuple[Tuple | None, str, int]]:
        """Each event: a row, or None with what it is; its time."""
        found: list[tuple[Tuple | None, str, int]] = []
        for number, event in enumerate(self.events):
            what, _, at = event.rpartition("@")
            partition, _, said = what.rpartition(":")
            if what in ("punct", "clock", "end", "watermark"):
                found.append((None, what, instant(at)))
                continue
            values = dict.fromkeys(("age", "v", "i", "value"), value(said)) | {"time": instant(at), "said": said}
            found.append((Tuple(number, instant(at), partition, values), said, instant(at)))
        return found

    def shown(self, fired: list[Fired]) -> list[Any]:
        said = {r.number: r.values["said"] for r, _, _ in self.rows() if r is not None}
        return [(f.at, f.partition, [said[n] for n in f.contents], f.pane, f.index) for f in fired]

    def expected(self) -> list[Any]:
        found = []
        for text in self.fires:
            at, partition, contents, pane, timing, index = FIRES.fullmatch(text).groups()  # type: ignore[union-attr]
            assert timing == (None if pane is None else ("paneLate" if int(index) else "paneOnComplete"))
            panes = (None, None) if pane is None else (instant(pane), int(index))
            found.append((instant(at), partition or "", contents.split(), *panes))
        return found

    def simulated(self) -> list[Fired]:
        if isinstance(self.window.kind, Interval):
            panes = PaneSimulator(self.window.kind)
            for row, _, at in self.rows():
                panes.advance(at) if row is None else panes.tuple(row)
            return panes.firings
        simulator = Simulator(self.window)
        for row, what, at in self.rows():
            if row is not None:
                simulator.tuple(row)
            elif what == "punct":
                simulator.punct(at)
            else:
                simulator.clock(at)
        return simulator.firings

    def found(self, every: bool) -> list[Fired]:
        """By the kernel, in one call or a call for each event."""
        kind = self.window.kind
        if isinstance(kind, Interval):
            steps: list[tuple[list[Tuple], int]] = [([], -(1 << 62))]
            for row, _, at in self.rows():
                if row is None:
                    steps[-1] = (steps[-1][0], at)
                    steps.append(([], -(1 << 62)))
                else:
                    steps[-1][0].append(row)
            return run_panes(kind, steps, whole=not every)
        rows = self.marked() if isinstance(kind, Tumbling) and isinstance(kind.eviction, Punctuation) else self.rows()
        last = max(at for _, _, at in rows)
        if not every:
            return run(self.window, [([r for r, _, _ in rows if r is not None], last)])
        return run(self.window, [([] if r is None else [r], at) for r, _, at in rows])

    def marked(self) -> list[tuple[Tuple | None, str, int]]:
        """Rows that come with the firing below: at its time, with its number."""
        found: list[tuple[Tuple | None, str, int]] = []
        waiting: list[Tuple] = []
        for row, what, at in self.rows():
            if row is not None:
                waiting.append(row)
            elif what == "punct":
                found += [(Tuple(r.number, at, r.partition, r.values | {"mark": at}), "", at) for r in waiting]
                waiting = []
        return found


@pytest.mark.parametrize("text", PARTS, ids=lambda t: t.splitlines()[0])
def test_examples(text: str) -> None:
    case = Case(text)
    assert case.shown(case.simulated()) == case.expected()
    assert case.shown(case.found(False)) == case.expected()
    if not isinstance(case.window.kind, Tumbling) or not isinstance(case.window.kind.eviction, Punctuation):
        assert case.shown(case.found(True)) == case.expected()


SECOND = 1_000_000
policies = st.one_of(
    st.builds(Count, st.integers(1, 7)),
    st.builds(Time, st.integers(1, 5).map(lambda n: n * SECOND)),
    st.builds(Delta, st.sampled_from(["a", "b", "f"]), st.integers(0, 12)),
    st.builds(Delta, st.just("f"), st.sampled_from([0.1, 0.30000000000000004, 1.5])),
)
forgettings = st.one_of(
    st.none(),
    st.builds(PartitionAge, st.integers(1, 6).map(lambda n: n * SECOND // 2)),
    st.builds(PartitionCount, st.integers(1, 3)),
    st.builds(TupleCount, st.integers(1, 8)),
)


@st.composite
def windows(draw: st.DrawFn) -> SplWindow:
    forgetting = draw(st.one_of(st.none(), forgettings))
    if draw(st.booleans()):
        return SplWindow(Tumbling(draw(policies)), forgetting, evicted=forgetting is not None and draw(st.booleans()))
    eviction = draw(st.one_of(policies, st.just(Count(0))))
    return SplWindow(Sliding(eviction, draw(policies)), forgetting, incomplete=draw(st.booleans()))


@st.composite
def streams(draw: st.DrawFn) -> list[Tuple]:
    at, rows, rising = draw(st.integers(-20, 20)) * SECOND // 2, [], draw(st.booleans())
    level = 0
    for number in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0, 0, 1, 2, 3, 9])) * SECOND // 2
        level = level + draw(st.integers(0, 3)) if rising else draw(st.integers(-6, 6))
        values = {"a": level, "b": draw(st.integers(-3, 9)), "f": level / 10}
        rows.append(Tuple(number, at, draw(st.sampled_from("aab")) if number % 3 else "c", values))
    return rows


@pytest.mark.deep
@settings(max_examples=examples(1000), deadline=None)
@given(windows(), streams(), st.data())
def test_cuts_do_not_matter(window: SplWindow, rows: list[Tuple], data: st.DataObject) -> None:
    """The kernel's calls, wherever they are cut, give the firings of the simulator."""
    simulator = Simulator(window)
    for row in rows:
        simulator.tuple(row)
    end = rows[-1].at + data.draw(st.integers(0, 8)) * SECOND
    simulator.clock(end)
    cuts: list[tuple[list[Tuple], int]] = [([], 0)]
    for row, following in zip(rows, [*(r.at for r in rows[1:]), end], strict=True):
        cuts[-1][0].append(row)
        if data.draw(st.booleans()):
            now = data.draw(st.integers(row.at, following))
            cuts[-1] = (cuts[-1][0], now)
            cuts.append(([], now))
    cuts[-1] = (cuts[-1][0], end)
    assert run(window, cuts) == simulator.firings
    assert run(window, [(rows, end)]) == simulator.firings
    if can_hold_blocks(window):
        assert run_in_blocks(window, cuts, 2) == simulator.firings


@settings(max_examples=examples(400), deadline=None)
@given(
    st.builds(Interval, st.integers(1, 6), st.integers(1, 6), st.integers(0, 8), st.integers(0, 2)),
    st.lists(
        st.tuples(st.lists(st.tuples(st.integers(-10, 20), st.sampled_from("ab")), max_size=4), st.integers(-5, 30)),
        max_size=8,
    ),
)
def test_panes(kind: Interval, steps: list[tuple[list[tuple[int, str]], int]]) -> None:
    simulator, cuts, number = PaneSimulator(kind), [], 0
    for times, watermark in steps:
        rows = [Tuple(number + n, 0, partition, {"time": time}) for n, (time, partition) in enumerate(times)]
        number += len(rows)
        for row in rows:
            simulator.tuple(row)
        simulator.advance(watermark)
        cuts.append((rows, watermark))
    assert run_panes(kind, cuts) == simulator.firings
    assert run_panes(kind, cuts, whole=True) == simulator.firings
