"""Runs of the SPL kernels over a stream in several calls, with the state of each call passed to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belvedere.kernels.search import LEAST, Bools, Ints
from belvedere.kernels.spl.blocks import Blocks, closed, cut, in_one_order, taken
from belvedere.kernels.spl.firings import find
from belvedere.kernels.spl.panes import PaneRows, find_panes
from belvedere.kernels.spl.sliding import falls
from belvedere.kernels.spl.window_rows import Partitions, Steps, WindowRows, steps
from belvedere.plan.operators.spl_windows import Delta, Interval, Punctuation, Sliding, SplWindow, Tumbling
from tests.spl.simulator import Fired, Tuple

Cut = tuple[Sequence[Tuple], int]
"""The new rows of a call, and its clock."""


def run_in_blocks(window: SplWindow, cuts: Sequence[Cut], size: int) -> list[Fired]:
    """The same with blocks of `size` rows in place of held rows, as far as a call does not cut them."""
    keys = list(dict.fromkeys(r.partition for rows, _ in cuts for r in rows))
    known, until = Partitions.fresh(len(keys)), np.zeros(len(keys), np.int64)
    held: list[tuple[Tuple, int]] = []
    made: set[tuple[int, int]] = set()
    ticked, fired = LEAST, []
    for new, now in cuts:
        ends, came = until.copy(), []
        for row in new:
            came.append((row, int(until[keys.index(row.partition)])))
            until[keys.index(row.partition)] += 1
        marked = sorted(
            [(*h, False) for h in held] + [(*c, True) for c in came], key=lambda m: (keys.index(m[0].partition), m[1])
        )
        rows = [r for r, _, _ in marked]
        given = window_rows(window, rows, [n for _, _, n in marked], keys)
        number = np.array([place // size for _, place, _ in marked], np.int64)
        of = list(zip(given.partition.tolist(), number.tolist(), strict=True))
        first = np.array([of.index(b) for b in sorted(made)], np.int64)
        blocks = blocks_at(given, first, first + size - 1, number[first] * size if len(first) else first)
        remaining = ~cut(window, blocks, ends, taken(given, given.is_new), now)
        loose = np.array([b not in made or not remaining[sorted(made).index(b)] for b in of], np.bool_)
        both, order = in_one_order(taken(given, loose), blocks.take(remaining), size)
        if both.evicting is not None and falls(both.evicting.codes, both.partition).any():
            loose[:], remaining = True, remaining & False
            both, order = given, np.arange(len(given))
        members = [[n] for n in np.flatnonzero(loose)] + [list(range(n, n + size)) for n in first[remaining]]
        found = find(window, both, known, ticked, now)
        for place in range(len(found.firings)):
            contents = [rows[m].number for i in found.rows_of(place) for m in members[order[i]]]
            fired.append(Fired(int(found.firings.at[place]), keys[found.firings.partition[place]], tuple(contents)))
        kept = np.zeros(len(rows), np.bool_)
        for i in np.flatnonzero(found.kept):
            kept[members[order[i]]] = True
        made = {b for b in made if all(kept[n] for n in range(of.index(b), of.index(b) + size))}
        stay = np.flatnonzero(kept & loose)
        made |= {of[n] for n in stay[closed(taken(given, stay), number[stay], size)]}
        held = [(r, place) for (r, place, _), k in zip(marked, kept, strict=True) if k]
        known, ticked = found.partitions, now
        forget(known, found.forgotten)
        until[found.forgotten] = 0
    return fired


def blocks_at(rows: WindowRows, first: Ints, last: Ints, place: Ints) -> Blocks:
    """Blocks from some rows to others."""
    steps = [None if s is None else Steps(s.codes[last], s.limits[first]) for s in (rows.evicting, rows.triggering)]
    plain = (rows.partition[first], rows.number[first], rows.at[last], np.zeros(len(first), np.bool_))
    return Blocks(WindowRows(*plain, steps[0], steps[1]), rows.at[first], place)


def forget(known: Partitions, forgotten: Bools) -> None:
    for name, values in vars(known).items():
        values[forgotten] = getattr(Partitions.fresh(1), name)[0]


def run(window: SplWindow, cuts: Sequence[Cut]) -> list[Fired]:
    """The firings of a tumbling or sliding window."""
    keys = list(dict.fromkeys(r.partition for rows, _ in cuts for r in rows))
    known = Partitions.fresh(len(keys))
    held: list[Tuple] = []
    ticked, fired = LEAST, []
    for new, now in cuts:
        marked = [(r, False) for r in held] + [(r, True) for r in new]
        marked.sort(key=lambda m: (keys.index(m[0].partition), m[0].number))
        rows = [r for r, _ in marked]
        given = window_rows(window, rows, [n for _, n in marked], keys)
        found = find(window, given, known, ticked, now)
        for place in range(len(found.firings)):
            contents = found.rows_of(place)
            part = keys[found.firings.partition[place]]
            fired.append(Fired(int(found.firings.at[place]), part, tuple(rows[i].number for i in contents)))
        held = [r for r, k in zip(rows, found.kept, strict=True) if k]
        known, ticked = found.partitions, now
        forget(known, found.forgotten)
    return fired


def window_rows(window: SplWindow, rows: list[Tuple], new: list[bool], keys: list[Any]) -> WindowRows:
    assert isinstance(window.kind, Tumbling | Sliding)
    eviction = window.kind.eviction
    trigger = window.kind.trigger if isinstance(window.kind, Sliding) else eviction

    def column(policy: Any) -> Any:
        if not isinstance(policy, Delta):
            return None
        values = np.array([r.values[policy.column] for r in rows])
        whole = all(isinstance(r.values[policy.column], int) for r in rows)
        return steps(values.astype(np.int64 if whole else np.float64), float(policy.step))

    marks = None
    if isinstance(eviction, Punctuation):
        marks = np.array([r.values["mark"] for r in rows], np.int64)
    return WindowRows(
        np.array([keys.index(r.partition) for r in rows], np.int64),
        np.array([r.number for r in rows], np.int64),
        np.array([r.at for r in rows], np.int64),
        np.array(new, np.bool_),
        column(eviction) if isinstance(window.kind, Sliding) else None,
        column(trigger),
        marks,
    )


def run_panes(kind: Interval, cuts: Sequence[tuple[Sequence[Tuple], int]], whole: bool = False) -> list[Fired]:
    """The firings of panes: after the rows of each cut its watermark. `whole`: all in one call."""
    keys = list(dict.fromkeys(r.partition for rows, _ in cuts for r in rows))
    held: list[tuple[Tuple, int]] = []
    before, fired = -(1 << 62), []
    calls: list[tuple[list[tuple[Tuple, int]], list[int]]] = [([], [])]
    for new, watermark in cuts:
        calls[-1][0].extend((r, before) for r in new)
        if watermark > before:
            calls[-1][1].append(watermark)
        before = max(before, watermark)
        if not whole:
            calls.append(([], []))
    before = -(1 << 62)
    for arrived, watermarks in calls:
        held = sorted([*held, *arrived], key=lambda m: (keys.index(m[0].partition), m[0].number))
        numbers = [r.number for r, _ in held]
        rows = PaneRows(
            np.array([keys.index(r.partition) for r, _ in held], np.int64),
            np.array(numbers, np.int64),
            np.array([r.values["time"] for r, _ in held], np.int64),
            np.array([u for _, u in held], np.int64),
        )
        found = find_panes(kind, rows, before, np.array(watermarks, np.int64))
        firings = found.firings
        assert firings.pane is not None
        assert firings.index is not None
        for place in range(len(firings)):
            contents = found.members[firings.first[place] : firings.last[place] + 1]
            fired.append(
                Fired(
                    int(firings.at[place]),
                    keys[firings.partition[place]],
                    tuple(numbers[i] for i in contents),
                    int(firings.pane[place]),
                    int(firings.index[place]),
                )
            )
        held = [m for m, k in zip(held, found.kept, strict=True) if k]
        before = watermarks[-1] if watermarks else before
    return fired
