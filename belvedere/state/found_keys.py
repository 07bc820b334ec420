"""Look-up of keys in the indexes of many runs at once.

In: runs, each with its part of the keys. Out: the positions of the rows found, run by run. If each of many runs has
only a few keys, numpy's calls cost more than the look-up. They are therefore made once for all runs, except the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from belvedere.state.dead_rows import Positions
from belvedere.state.hashing import Numbers
from belvedere.state.key_filters import KeyProbes
from belvedere.state.sorted_run import GREATEST, Run, RunIndex

Held: TypeAlias = tuple[Run, int, int]
"""A run, and the range of positions in the sorted keys that it can contain."""
Matched: TypeAlias = tuple[Run, Positions, Positions]
"""A run, positions in it, and for each position the number of the matching key or new row."""
FEW = 32
"""Maximum number of keys of a run that is looked up together with other runs."""
TOGETHER = 4_096
"""Number of runs that are looked up together."""


def found_keys(held: Iterable[Held], name: str, keys: Numbers) -> Iterator[Matched]:
    """Yield the rows, including dead ones, whose number in an index is among the keys (sorted, distinct), run
    by run."""
    few, ends, probes = _Few(), _with_next(keys), None
    for run, first, last in held:
        if (last - first > FEW or run.blocks is not None) and (words := run.filter(name)) is not None:
            probes = probes or KeyProbes(keys)
            passed = probes.find_held(words, first, last)
            if not len(passed):
                continue
            if len(passed) < (last - first) // 2:
                yield from _of_passed(run, name, keys, passed)
                continue
        index = run.index(name)
        if last - first <= FEW and ends is not None:
            few.add(run, index, first, ends[2 * first : 2 * last])
            if len(few.runs) >= TOGETHER:
                yield from few.found()
                few = _Few()
            continue
        places, which = index.of_keys(keys[first:last])
        if len(places):
            yield run, index.at(places), which + first
    yield from few.found()


def _of_passed(run: Run, name: str, keys: Numbers, passed: Positions) -> Iterator[Matched]:
    index = run.index(name)
    places, which = index.of_keys(keys[passed])
    if len(places):
        yield run, index.at(places), passed[which]


def _with_next(keys: Numbers) -> Numbers | None:
    """Return each key and its successor, so that one search finds both ends of its rows.

    Return None if the last has no successor.
    """
    if not len(keys) or keys[-1] == GREATEST:
        return None
    return np.column_stack((keys, keys + 1)).ravel()


class _Few:
    """Runs with a few keys each, and the positions of these keys in their indexes."""

    def __init__(self) -> None:
        self.runs: list[tuple[Run, RunIndex]] = []
        self.firsts: list[int] = []
        self.ends: list[Positions] = []

    def add(self, run: Run, index: RunIndex, first: int, ends: Numbers) -> None:
        self.runs.append((run, index))
        self.firsts.append(first)
        self.ends.append(index.values.searchsorted(ends))

    def found(self) -> Iterator[Matched]:
        if not self.runs:
            return
        ends = np.concatenate(self.ends)
        low = ends[::2]
        count = ends[1::2] - low
        hits = count.nonzero()[0]
        sizes = np.array([len(n) // 2 for n in self.ends])
        owner = np.repeat(np.arange(len(sizes)), sizes)[hits]
        which = hits + (np.array(self.firsts) - (np.cumsum(sizes) - sizes))[owner]
        places, many = low[hits], count[hits]
        if len(hits) and many.max() > 1:
            places = np.repeat(places - (np.cumsum(many) - many), many) + np.arange(many.sum())
            owner, which = np.repeat(owner, many), np.repeat(which, many)
        edges = (np.diff(owner).nonzero()[0] + 1).tolist()
        for begin, end in pairwise([0, *edges, len(owner)] if len(owner) else []):
            run, index = self.runs[int(owner[begin])]
            yield run, index.at(places[begin:end]), which[begin:end]
