"""No run is larger than the driver's memory allows, however its rows came; more memory than a run needs changes
nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from belvedere.engine.store_folders import MAX_RUN_BYTES, MIN_RUN_BYTES, open_state
from belvedere.schema import KEY
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State
from belvedere.store import open_store

SCHEMA = pa.schema(
    [("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False), pa.field("_h0", pa.int64(), nullable=False)]
)
ROWS = 10_000
NUMBERS = pa.array(range(ROWS))
BATCH = pa.record_batch([NUMBERS, NUMBERS.cast(pa.string()), NUMBERS], schema=SCHEMA)


def test_appended_and_replaced_rows_become_runs_of_the_bytes_that_are_allowed(tmp_path: Path) -> None:
    for name in ("appended", "replaced"):
        state = State(tmp_path / name, run_bytes=20_000)
        state.arrange([Arranged("R", SCHEMA, ("_h0",))], frozenset())
        state.begin()
        found = state.arrangements["R"]
        if name == "appended":
            found.append([BATCH])
        else:
            assert sum(len(b) for b, _ in found.replace(None, None, [BATCH])) == ROWS
        sizes = [r.rows.nbytes for r in found.new]
        assert max(sizes) < 25_000
        assert len(sizes) >= BATCH.nbytes // 20_000
        assert found.count == ROWS
        state.close()


@pytest.mark.parametrize(("given", "bound"), [(1, MIN_RUN_BYTES), (8 << 20, 8 << 20), (64 << 30, MAX_RUN_BYTES)])
def test_the_bound_of_a_run_follows_the_memory_within_reason(tmp_path: Path, given: int, bound: int) -> None:
    store = open_store(f"sqlite:///{tmp_path / 's.db'}")
    state = open_state(store, None, given)
    assert state.run_bytes == bound
    state.close()
    store.close()
