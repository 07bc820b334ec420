"""Rows looked up by their `_key`: by the hashes of the texts, then by the texts themselves, for many runs at once.

In: texts, and the runs that can have some of them. Out: for each run the positions of its rows, and the text of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import KEY
from belvedere.state.dead_rows import Positions
from belvedere.state.found_keys import Held, Matched, found_keys
from belvedere.state.hashing import text_hashes
from belvedere.state.sorted_run import TAKE, Run


class KeyTexts:
    """`_key`s to look up: their distinct hashes, each with its first position in `order` and its number of texts."""

    def __init__(self, array: pa.Array):
        hashes = text_hashes(array)
        self.array = array
        self.order = np.argsort(hashes, kind="stable")
        self.hashes, self.first, self.count = np.unique(hashes[self.order], return_index=True, return_counts=True)

    @property
    def are_distinct(self) -> bool:
        """Return whether no text occurs twice."""
        return len(self.hashes) == len(self.array) or bool(pc.count_distinct(self.array).as_py() == len(self.array))

    def rows_in(self, held: Iterable[Held]) -> Iterator[Matched]:
        """Yield the live rows in these runs, each with its part of the hashes. A run without any is left out."""
        for group in in_groups(self._living(*found) for found in found_keys(held, KEY, self.hashes)):
            texts = pa.concat_arrays([p for run, positions, _ in group for p in _texts(run, positions)])
            asked = self.array.take(pa.array(np.concatenate([which for _, _, which in group])))
            same = pc.equal(texts, asked).to_numpy(zero_copy_only=False)
            yield from group if same.all() else _where(group, same)

    def _living(self, run: Run, positions: Positions, which: Positions) -> Matched:
        """Return the live rows of some hashes, each with its possible texts."""
        if len(self.hashes) < len(self.array):  # texts with the same hash are compared one by one
            size = self.count[which]
            positions = np.repeat(positions, size)
            starts = np.repeat(self.first[which] - (np.cumsum(size) - size), size)
            asked = self.order[starts + np.arange(len(positions))]
        else:
            asked = self.order[which]
        if run.dead is not None:
            alive = ~run.dead.at(positions)
            positions, asked = positions[alive], asked[alive]
        return run, positions, asked


def in_groups(found: Iterable[Matched]) -> Iterator[list[Matched]]:
    """Yield matches in groups of at most about ten thousand rows."""
    group: list[Matched] = []
    count = 0
    for run, positions, which in found:
        for begin in range(0, len(positions), TAKE):  # none without positions
            part = slice(begin, begin + TAKE)
            if group and count + len(positions[part]) > TAKE:
                yield group
                group, count = [], 0
            group.append((run, positions[part], which[part]))
            count += len(positions[part])
    if group:
        yield group


def _where(group: Sequence[Matched], mask: np.ndarray) -> Iterator[Matched]:
    begin = 0
    for run, positions, which in group:
        part = mask[begin : begin + len(positions)]
        begin += len(positions)
        if part.all():
            yield run, positions, which
        elif part.any():
            yield run, positions[part], which[part]


def _texts(run: Run, positions: Positions) -> list[pa.Array]:
    column = run.rows_for(positions, (KEY,)).column(KEY)
    return [column.slice(int(positions[0]), 1) if len(positions) == 1 else column.take(pa.array(positions))]
