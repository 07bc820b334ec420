"""Merges cut large runs into ranges of the first hash, so that a key lies in few runs however many there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from belvedere.schema import KEY
from belvedere.state.merge import BITS, WIDTH, Merge, MergedRun, MergePiece, range_of
from belvedere.state.merging import Merging
from belvedere.state.sorted_run import Arranged, Run
from belvedere.state.state import State

SCHEMA = pa.schema(
    [("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False), pa.field("_h0", pa.int64(), nullable=False)]
)
BY_PATH, BY_KEY = Arranged("R", SCHEMA, ("_h0",)), Arranged("R", SCHEMA)
EPOCHS, ROWS = 48, 500
Hashes = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def spread(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def few(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return numbers % 3


def one_is_heavy(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(numbers % 4 == 0, spread(numbers), 7)


def rows(numbers: np.ndarray[Any, Any], hashes: Hashes) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(numbers), pa.array(numbers).cast(pa.string()), pa.array(hashes(numbers))], schema=SCHEMA
    )


def opened(folder: Path, at: Any, arranged: Arranged, run_bytes: int = 40_000) -> State:
    state = State(folder, at, run_bytes=run_bytes, retain=0.0)
    state.arrange([arranged], frozenset({"R"} if at else ()))
    state.begin()
    return state


def filled(folder: Path, arranged: Arranged, hashes: Hashes) -> tuple[State, set[int]]:
    """A state after epochs in which rows come, rows of all epochs go, and all merges that are due were made; opened
    again on the way."""
    state, at, there = opened(folder, None, arranged), None, set[int]()
    for epoch in range(EPOCHS):
        new = np.arange(epoch * ROWS, (epoch + 1) * ROWS)
        found = state.arrangements["R"]
        found.append([rows(new, hashes)])
        gone = np.arange(epoch % 13, epoch * ROWS, 97)
        list(found.replace(KEY, pa.array(gone).cast(pa.string()), []))
        there = (there | set(new.tolist())) - set(gone.tolist())
        at = state.prepare()
        state.committed()
        if epoch == EPOCHS // 2:
            state.close()
            state = opened(folder, at, arranged)
        if epoch % 5 == 0:
            state.merging.wait()
        state.begin()
    while state.merging.wait():
        state.begin()
        at = state.prepare()
        state.committed()
    state.close()
    state = opened(folder, at, arranged)
    state.check()
    return state, there


def numbers_of(batches: Any) -> list[int]:
    return sorted(n for b in batches for n in b.column("n").to_pylist())


def holds(run: Run) -> bool:
    """Whether all rows of a run lie in its fence, and that in its range."""
    name = run.arranged.hashed
    assert name is not None
    values, (least, greatest) = run.index(name).values, run.fences[name]
    depth, low = range_of(run)
    inside = low <= least <= greatest < low + (1 << (BITS - depth))
    return inside and (int(values[0]), int(values[-1])) == (least, greatest)


@pytest.mark.parametrize(
    ("arranged", "hashes"),
    [(BY_PATH, spread), (BY_KEY, spread), (BY_PATH, few), (BY_PATH, one_is_heavy)],
    ids=["path", "key", "few", "heavy"],
)
def test_a_key_lies_in_few_runs_and_no_row_is_lost(tmp_path: Path, arranged: Arranged, hashes: Hashes) -> None:
    state, there = filled(tmp_path, arranged, hashes)
    found = state.arrangements["R"]
    assert found.count == len(there)
    assert numbers_of(found.look_up(None, None)) == sorted(there)
    asked = np.arange(0, EPOCHS * ROWS, 41)
    expected = [n for n in asked.tolist() if n in there]
    assert numbers_of(found.look_up(KEY, pa.array(asked).cast(pa.string()))) == expected
    runs = found.runs
    assert all(map(holds, runs))
    assert {r.depth for r in runs} - {0}
    assert max(r.bytes for r in runs) < 3 * 40_000
    if arranged is BY_PATH:
        by_hash = np.unique(hashes(asked))
        every = np.array(sorted(there))
        assert numbers_of(found.look_up("_h0", pa.array(by_hash))) == every[np.isin(hashes(every), by_hash)].tolist()
    if hashes is spread:
        held = [
            sum(1 for r in runs if r.fences[str(arranged.hashed)][0] <= h <= r.fences[str(arranged.hashed)][1])
            for h in spread(asked)
        ]
        assert len(runs) > 3 * WIDTH
        assert max(held) <= 2 * WIDTH
    if hashes is few:
        assert {r.depth for r in runs} >= {BITS}
    state.close()


def test_two_merges_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, barrier = Merge.make, Barrier(2)

    def meeting(merge: Merge, piece: MergePiece) -> MergedRun:
        barrier.wait(20)
        return make(merge, piece)

    both = [Arranged(n, SCHEMA, ("_h0",)) for n in ("A", "B")]
    state = State(tmp_path)
    state.arrange(both, frozenset())
    for epoch in range(WIDTH):
        if epoch == WIDTH - 1:
            monkeypatch.setattr(Merge, "make", meeting)
        for name in "AB":
            state.arrangements[name].append([rows(np.arange(epoch * 300, epoch * 300 + 300), spread)])
        state.prepare()
        state.committed()
        assert state.merging.wait() == (2 if epoch == WIDTH - 1 else 0)
    state.begin()
    assert [len(a.runs) for a in state.arrangements.values()] == [1, 1]
    state.close()


def test_a_merge_whose_runs_leave_before_it_reads_them_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path, None, BY_PATH, run_bytes=1 << 20)
    monkeypatch.setattr(Merging, "start", lambda *_: None)
    at: Any = None
    for epoch in range(WIDTH):
        state.arrangements["R"].append([rows(np.arange(epoch * 5_000, epoch * 5_000 + 5_000), spread)])
        at = state.prepare()
        state.committed()
    state.close()
    monkeypatch.undo()
    gate, run = Event(), Merging._run

    def late(merging: Merging, merge: Merge) -> list[MergedRun]:
        gate.wait(20)
        return run(merging, merge)

    monkeypatch.setattr(Merging, "_run", late)
    state = opened(tmp_path, at, BY_PATH, run_bytes=1 << 20)
    state.arrangements["R"].append([rows(np.arange(70_000, 70_010), spread)])
    state.prepare()
    state.committed()
    assert state.merging.has(state.arrangements["R"].runs)
    state.arrangements["R"].overwrite(None, None, [rows(np.arange(90_000, 90_010), spread)])
    state.prepare()
    state.committed()
    gate.set()
    state.merging.wait()
    state.begin()
    assert numbers_of(state.arrangements["R"].look_up(None, None)) == list(range(90_000, 90_010))
    assert not state.merging.has(state.arrangements["R"].runs)
    state.close()
