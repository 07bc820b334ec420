"""Measure a state of many runs: bytes that merges write, and processor time of look-ups, of small epochs and of a
start.

`python -m bench.large_state [RUNS]` fills a state with runs of about 60 KB, and prints a table. The costs depend on the
number of runs, not on their bytes, except for the pages that a look-up reads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.schema import KEY
from belvedere.state import key_filters
from belvedere.state.files import Writer
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State

RUN_BYTES = 60_000
ROWS = 20_000
"""Rows of a large epoch: about 20 runs."""
SCHEMA = pa.schema(
    [("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False), pa.field("_h0", pa.int64(), nullable=False)]
)
RELATION = Arranged("R", SCHEMA, ("_h0",))


def hashes(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Spread numbers over all hashes."""
    return pa.array((numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))


def rows(first: int, count: int) -> pa.RecordBatch:
    """Return rows of growing numbers."""
    numbers = np.arange(first, first + count)
    return pa.record_batch([pa.array(numbers), pa.array(numbers).cast(pa.string()), hashes(numbers)], schema=SCHEMA)


def milliseconds(work: Callable[[], object], times: int = 9) -> float:
    """Return the minimum processor time of some calls."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken) * 1_000


def filled(folder: Path, runs: int) -> tuple[State, dict[str, Any], int, int]:
    """Fill a state. Return it with the place of its manifest, its number of rows, and the number of written bytes."""
    written = [0]
    add = Writer.add

    def counted(writer: Writer, batch: pa.RecordBatch) -> Any:
        place = add(writer, batch)
        written[0] += place.length
        return place

    setattr(Writer, "add", counted)  # noqa: B010
    state = State(folder, run_bytes=RUN_BYTES)
    state.arrange([RELATION], frozenset())
    count = 0
    while True:
        state.arrangements["R"].append([rows(count, ROWS)])
        count += ROWS
        at = state.prepare()
        state.committed()
        while state.merging.wait():
            state.begin()
            at = state.prepare()
            state.committed()
        if len(state.arrangements["R"].runs) >= runs:
            assert at is not None
            return state, at, count, written[0]


def small_epoch(state: State, count: int, dice: np.random.Generator) -> None:
    """Change ten rows."""
    numbers = dice.integers(0, count, 10)
    list(state.arrangements["R"].replace(KEY, pa.array(numbers).cast(pa.string()), []))
    state.prepare()
    state.committed()
    state.begin()


def main(runs: int) -> None:
    """Print the table."""
    dice = np.random.default_rng(1)
    key_filters.MIN_ROWS = 0  # these runs have few rows, and filters are for those that have many
    with tempfile.TemporaryDirectory() as name:
        state, at, count, written = filled(Path(name), runs)
        found = state.arrangements["R"]
        numbers = dice.choice(count, 1_000, replace=False)
        by_hash, by_key = hashes(numbers), pa.array(numbers).cast(pa.string())
        lines = {
            "runs": f"{len(found.runs):,}",
            "rows": f"{count:,}",
            "bytes written for each byte of runs": f"{written / sum(r.bytes for r in found.runs):.1f}",
            "1,000 keys of the first path": f"{milliseconds(lambda: list(found.look_up('_h0', by_hash))):.1f} ms",
            "1,000 `_key`s": f"{milliseconds(lambda: list(found.look_up(KEY, by_key))):.1f} ms",
            "an epoch that removes 10 rows": f"{milliseconds(lambda: small_epoch(state, count, dice)):.1f} ms",
        }
        state.close()
        lines["a start"] = f"{milliseconds(lambda: State(Path(name), at).close(), 1):.1f} ms"
        for what, figure in lines.items():
            print(f"| {what} | {figure} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
