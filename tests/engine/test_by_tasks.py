"""Answers of tasks, and how the driver reads them.

Errors, exchanges that went wrong, processes that do not see the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from belvedere.engine.by_tasks.buckets import BUCKET, KIND, MARK, NEW, bucket_sql, buckets_of
from belvedere.engine.by_tasks.storage_by_tasks import StorageByTasks
from belvedere.engine.by_tasks.task_answers import read_answers
from belvedere.engine.by_tasks.tasks import SearchTask
from belvedere.engine.rows.epoch_rows import Rows, keys_of
from belvedere.errors import BelvedereError
from belvedere.schema import KEY
from belvedere.state.state import State
from tests.engine import task_compute
from tests.engine.task_compute import TaskCompute
from tests.state.test_files import SCHEMA, opened, rows


@pytest.fixture
def compute() -> Iterator[TaskCompute]:
    made = TaskCompute()
    yield made
    made.close()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = opened(tmp_path)
    made.arrangements["R"].append([rows(0, 30)])
    yield made
    made.close()


def table(*numbers: int) -> Rows:
    return Rows(pa.Table.from_batches([b for n in numbers for b in [rows(n, 1)]], SCHEMA))


def found(state: State) -> list[int]:
    return sorted(n for b in state.arrangements["R"].look_up(None, None) for n in b.column("n").to_pylist())


def test_look_ups_and_changes(compute: TaskCompute, state: State) -> None:
    """By each way: a path that follows from the key or not, `_key`, all rows."""
    storage = StorageByTasks(state, compute)
    keys = pa.array([0, 1])
    looked_up = storage.look_up("R", "_h0", keys)
    assert looked_up is not None
    assert sorted(looked_up.table["n"].to_pylist()) == [n for n in range(30) if n % 7 < 2]
    for is_of_key in (True, False):
        delta = storage.replace("R", "_h0", keys, table(0, 1, 7), is_of_key)
        assert delta is not None
        gone = {n for n in range(30) if n % 7 < 2} - {0, 1, 7} if is_of_key else set()
        assert sorted(delta.table["n"].to_pylist()) == sorted(gone)
        assert (delta.going or 0) == len(gone)
    assert found(state) == sorted([0, 1, 7, *(n for n in range(30) if n % 7 > 1)])
    new = table(40, 41)
    assert storage.replace("R", KEY, keys_of([(table(2, 40), KEY)]), new, False) is not None
    assert 2 not in found(state)
    assert found(state)[-2:] == [40, 41]
    assert storage.replace("R", None, None, table(3, 50), False) is not None
    assert found(state) == [3, 50]
    assert storage.overwrite("R", KEY, pa.array(["3"]), table(60))
    assert found(state) == [50, 60]
    assert storage.jobs == 8


def test_few_keys_of_many_rows(compute: TaskCompute, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows a key has is known from the look-ups before."""
    monkeypatch.setattr(compute, "spreads", lambda rows: rows >= 20)
    storage, keys = StorageByTasks(state, compute), pa.array(range(6))
    assert storage.look_up("R", "_h0", keys) is None
    assert len(list(state.arrangements["R"].look_up("_h0", keys))) == 1
    assert storage.look_up("R", "_h0", keys) is not None


def test_two_rows_of_one_key(compute: TaskCompute, state: State) -> None:
    with pytest.raises(BelvedereError, match="B7010"):
        StorageByTasks(state, compute).replace("R", "_h0", pa.array([1]), table(1, 1), True)


def filed(compute: TaskCompute, rows: Rows) -> Rows:
    return Rows(schema=rows.schema, files=(compute._written(rows),), count=rows.num_rows)


def test_appended_rows_survive(compute: TaskCompute, state: State, tmp_path: Path) -> None:
    """A try of a task that does not count leaves a file that the commit after a restart deletes."""
    storage, new = StorageByTasks(state, compute), filed(compute, table(*range(40, 50)))
    assert not storage.append("R", table(30))  # rows that are here already
    assert storage.append("R", new)
    assert (storage.jobs, found(state)) == (1, [*range(30), *range(40, 50)])
    assert list(state.arrangements["R"].replace(KEY, pa.array(["41", "5"]), []))
    at = state.prepare()
    state.committed()
    state.close()
    again = opened(tmp_path, at)
    again.check()
    left = [n for n in [*range(30), *range(40, 50)] if n not in (5, 41)]
    assert found(again) == left
    assert sorted(n for b in again.arrangements["R"].look_up("_h0", pa.array([3])) for n in b["n"].to_pylist()) == [
        n for n in left if n % 7 == 3
    ]
    again.prepare()
    again.committed()
    assert {p.name for p in tmp_path.glob("*.run")} == again.manifest.files | {again._at.file if again._at else ""}
    again.close()


def test_appended_rows_are_counted(compute: TaskCompute, state: State) -> None:
    """Tasks must write as many rows as the files have by their count."""
    new = filed(compute, table(*range(40, 50)))
    with pytest.raises(AssertionError):
        StorageByTasks(state, compute).append("R", Rows(schema=new.schema, files=new.files, count=11))


def test_nothing_is_left_of_rows_that_were_appended_in_an_epoch_that_failed(
    compute: TaskCompute, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_compute, "ATTEMPTS", 1)
    assert StorageByTasks(state, compute).append("R", filed(compute, table(*range(40, 60))))
    state.rollback()
    assert found(state) == []
    assert list(tmp_path.rglob("*.run")) == []


def test_a_process_that_does_not_see_the_state(
    compute: TaskCompute, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller does the work itself, and gives no more to tasks."""
    storage = StorageByTasks(state, compute)
    made = state.snapshot
    definition = replace(state.definition("R"), folder=tmp_path / "elsewhere")
    with monkeypatch.context() as patched:
        patched.setattr(state, "definition", lambda name: definition)
        assert not storage.append("R", filed(compute, table(40)))
    assert not state.is_seen
    state.is_seen = True

    def elsewhere(name: str, before: bool = False) -> Any:
        snapshot, runs = made(name, before)
        return replace(snapshot, folder=tmp_path / "elsewhere"), runs

    state.snapshot = elsewhere  # type: ignore[method-assign]
    assert storage.replace("R", "_h0", pa.array([1]), table(1), True) is None
    assert not state.is_seen
    assert storage.look_up("R", "_h0", pa.array([1])) is None
    assert found(state) == list(range(30))


def test_rows_that_an_exchange_brought_to_two_tasks(compute: TaskCompute, state: State) -> None:
    """Without its mark a task does not take a bucket's rows, and a bucket whose mark came twice is refused."""
    task = SearchTask(state.snapshot("R")[0], pa.schema([]), compute.scratch, 4, "_h0", columns=("n",))

    def batch(bucket: int, kind: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{BUCKET: bucket, KIND: kind}], pa.schema([(BUCKET, pa.int32()), (KIND, pa.int32())])
        )

    stray = pa.Table.from_batches(list(task(iter([batch(0, MARK), batch(1, NEW)]))))
    with pytest.raises(AssertionError, match="bucket 1"):
        read_answers(stray).check(4)
    both = [b for _ in range(2) for n in range(4) for b in replace(task, keys=None, by=None)(iter([batch(n, MARK)]))]
    read_answers(pa.Table.from_batches(both[:4])).check(4)
    with pytest.raises(AssertionError, match="of 4"):
        read_answers(pa.Table.from_batches(both)).check(4)


def test_a_failed_task_leaves_no_runs_of_the_others(
    compute: TaskCompute, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_compute, "ATTEMPTS", 1)  # files of a try that does not count are swept at the next start
    storage = StorageByTasks(state, compute)
    with pytest.raises(BelvedereError, match="B7010"):
        storage.replace("R", KEY, pa.array(["3"]), table(*range(40, 60), 41), True)
    state.rollback()
    assert list(tmp_path.rglob("*.run")) == []


def test_buckets_are_ranges_of_hashes() -> None:
    hashes = np.array([-(2**63), -(2**62) - 1, -(2**62), -1, 0, 2**62, 2**63 - 1], np.int64)
    assert buckets_of(hashes, 4).tolist() == [0, 0, 1, 1, 2, 3, 3]
    assert set(buckets_of(hashes, 1).tolist()) == {0}
    assert bucket_sql("h", 4) == "CAST(shiftright(h, 62) + 2L AS INT)"
