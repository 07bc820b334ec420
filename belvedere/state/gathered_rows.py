"""The rows at some positions of many runs, in a few batches.

In: runs with positions. Out: batches of at most about ten thousand rows. Arrow's `take` costs 20 to 70 microseconds,
even for one row; a slice costs 2 to 4. A few rows of a run therefore become slices, which are copied together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from belvedere.state.dead_rows import Positions
from belvedere.state.sorted_run import TAKE, Run

FEW = 64
"""Maximum number of rows of a run that can become slices."""
SLICES = 12
"""Maximum number of slices of a run; more cost more than a `take`."""


def gathered(found: Iterable[tuple[Run, Positions]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows, in the order of the runs and positions."""
    parts: list[pa.RecordBatch] = []
    count = 0
    for run, positions in found:
        if not len(positions):
            continue
        if len(positions) > FEW:
            yield from _together(parts)
            parts, count = [], 0
            yield from run.taken(positions)
            continue
        parts += _slices(run, positions)
        count += len(positions)
        if count >= TAKE:
            yield from _together(parts)
            parts, count = [], 0
    yield from _together(parts)


def _slices(run: Run, positions: Positions) -> list[pa.RecordBatch]:
    rows = run.rows_for(positions)
    if len(positions) == 1:
        return [rows.slice(int(positions[0]), 1)]
    begins = [0, *(np.flatnonzero(np.diff(positions) != 1) + 1).tolist(), len(positions)]
    if len(begins) - 1 > SLICES:
        return [rows.take(pa.array(positions))]
    return [rows.slice(int(positions[a]), b - a) for a, b in pairwise(begins)]


def _together(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(parts) <= 1:
        yield from parts
        return
    try:
        yield pa.concat_batches(parts)
    except pa.ArrowInvalid:  # more text than one array can hold
        yield from parts
