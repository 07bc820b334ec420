"""The kernel of joined SPL windows against the plain simulator, cut anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.kernels.spl.join import Lives, SideRows, lives, places, results
from belvedere.kernels.spl.window_rows import steps
from belvedere.plan.operators.spl_windows import Count, Delta, Policy, Time
from tests.depth import examples
from tests.spl.join_simulator import JoinSimulator
from tests.spl.simulator import Tuple

Event = tuple[int, Tuple]
policies = st.one_of(st.builds(Count, st.integers(0, 3)), st.builds(Time, st.integers(1, 5)), st.just(Delta("v", 2)))


def matches(left: Tuple, right: Tuple) -> bool:
    return bool(left.values["k"] == right.values["k"])


class Calls:
    """The kernel call by call, with what each leaves held for the next."""

    def __init__(self, evictions: tuple[Policy, Policy], outer: tuple[bool, bool]):
        self.evictions, self.outer = evictions, outer
        self.held: tuple[list[Tuple], list[Tuple]] = ([], [])
        self.matched: tuple[set[int], set[int]] = (set(), set())
        self.results: list[tuple[int, Any, Any]] = []

    def call(self, events: list[Event], now: int) -> None:
        new = tuple([r for s, r in events if s == side] for side in (0, 1))
        *found, clocks = places(
            tuple(np.array([r.at for r in rows], np.int64) for rows in new),  # type: ignore[arg-type]
            tuple(np.array([r.number for r in rows], np.int64) for rows in new),  # type: ignore[arg-type]
        )
        rows, sides, stays = [], [], []
        for side in (0, 1):
            place = dict(zip([r.number for r in new[side]], found[side].tolist(), strict=True))
            both = sorted([*self.held[side], *new[side]], key=lambda r: (r.partition, r.number))
            rows.append(both)
            given = SideRows(
                np.array([r.partition for r in both], np.int64),
                np.array([r.number for r in both], np.int64),
                np.array([r.at for r in both], np.int64),
                np.array([place.get(r.number, 0) for r in both], np.int64),
                steps(np.array([r.values["v"] for r in both], np.int64), 2),
            )
            sides.append(given)
            stays.append(lives(self.evictions[side], given, clocks, now))
        self.gather(rows, (sides[0], sides[1]), (stays[0], stays[1]), clocks)

    def gather(
        self, rows: list[list[Tuple]], sides: tuple[SideRows, SideRows], stays: tuple[Lives, Lives], clocks: Any
    ) -> None:
        pairs = [
            (a, b)
            for a, left in enumerate(rows[0])
            for b, right in enumerate(rows[1])
            if matches(left, right)
            and (
                sides[0].place[a] < sides[1].place[b] <= stays[0].last[a]
                or sides[1].place[b] < sides[0].place[a] <= stays[1].last[b]
            )
        ]
        alone = []
        for side in (0, 1):
            self.matched[side].update(rows[side][p[side]].number for p in pairs)
            gone = np.flatnonzero(stays[side].gone)
            unmatched = [n for n in gone.tolist() if rows[side][n].number not in self.matched[side]]
            alone.append(np.array(unmatched if self.outer[side] else [], np.int64))
            self.held[side][:] = [r for r, g in zip(rows[side], stays[side].gone, strict=True) if not g]
        both = np.array(pairs, np.int64).reshape(-1, 2)
        made = results((both[:, 0], both[:, 1]), sides, stays, (alone[0], alone[1]), clocks)
        for at, left, right in zip(made.at.tolist(), *(r.tolist() for r in made.rows), strict=True):
            numbers = (None if n < 0 else rows[side][n].number for side, n in enumerate((left, right)))
            self.results.append((at, *numbers))


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    at, level, events = 0, 0, []
    for number in range(draw(st.integers(1, 14))):
        at += draw(st.sampled_from([0, 0, 1, 2, 5]))
        level += draw(st.sampled_from([0, 1, 3, -2]))
        values = {"k": draw(st.integers(0, 1)), "v": level}
        events.append((draw(st.integers(0, 1)), Tuple(number, at, draw(st.integers(0, 1)), values)))
    return events


@settings(max_examples=examples(600), deadline=None)
@given(st.tuples(policies, policies), st.tuples(st.booleans(), st.booleans()), streams(), st.data())
def test_cuts_do_not_matter(
    evictions: tuple[Policy, Policy], outer: tuple[bool, bool], events: list[Event], data: st.DataObject
) -> None:
    """The kernel's calls, wherever they are cut, give the results of the simulator."""
    simulator = JoinSimulator(evictions, outer, matches)
    cut, whole = Calls(evictions, outer), Calls(evictions, outer)
    waiting: list[Event] = []
    for side, row in events:
        simulator.tuple(side, row)
        if data.draw(st.booleans()) and waiting:
            cut.call(waiting, data.draw(st.integers(waiting[-1][1].at, row.at)))
            waiting = []
        waiting.append((side, row))
    end = events[-1][1].at + data.draw(st.integers(0, 8))
    simulator.clock(end)
    cut.call(waiting, end)
    whole.call(events, end)
    assert cut.results == simulator.results
    assert whole.results == simulator.results
