"""Runs that tasks of other processes write: what came back counts, what a task wrote twice or without being asked for does not."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from belvedere.schema import KEY
from belvedere.state.runs_by_tasks import PLACES, RunTask, writing
from belvedere.state.sorted_run import FileRange
from belvedere.state.state import State
from tests.state.test_files import ARRANGED, opened, rows

PARTS = ([rows(300, 200), rows(100, 200)], [rows(1_000, 500)], [])


def tasks(run: Callable[[RunTask], RunTask] = lambda task: task) -> Callable[[RunTask], pa.Table]:
    """Three tasks, each run twice, as one that is given up: only the second answer comes back."""

    def run_all(task: RunTask) -> pa.Table:
        answers = [list(run(task)(iter(part))) for _ in range(2) for part in PARTS]
        return pa.Table.from_batches([b for found in answers[len(PARTS) :] for b in found], PLACES)

    return run_all


def numbers(state: State, by: str | None = None, keys: pa.Array | None = None) -> list[int]:
    return sorted(n for b in state.arrangements["R"].look_up(by, keys) for n in b.column("n").to_pylist())


def test_runs_of_tasks_are_found_and_survive(tmp_path: Path) -> None:
    state = opened(tmp_path)
    state.arrangements["R"].append([rows(0, 10)])
    assert state.append_apart("R", tasks(), 900)
    every = [*range(10), *range(100, 500), *range(1_000, 1_500)]
    assert numbers(state) == every
    list(state.arrangements["R"].replace(KEY, pa.array(["100", "5"]), []))
    at = state.prepare()
    state.committed()
    assert len(list(tmp_path.iterdir())) == 3  # the epoch's own file and those of two tasks: the others are swept
    state.close()
    again = opened(tmp_path, at)
    again.check()
    left = [n for n in every if n not in (5, 100)]
    assert numbers(again) == left
    assert numbers(again, "_h0", pa.array([3, 4])) == [n for n in left if n % 7 in (3, 4)]
    again.close()


def test_nothing_is_left_of_an_epoch_that_failed(tmp_path: Path) -> None:
    state = opened(tmp_path)
    assert state.append_apart("R", tasks(), 900)
    named = {r.place.file for r in state.arrangements["R"].new if isinstance(r.place, FileRange)}
    state.rollback()
    assert numbers(state) == []
    assert not named & {p.name for p in tmp_path.iterdir()}
    state.close()


def test_a_task_that_does_not_see_the_folder(tmp_path: Path) -> None:
    """One is enough: the caller stores the rows itself, and no further ones are given to tasks."""
    state = opened(tmp_path / "here")
    asked = []

    def elsewhere(task: RunTask) -> RunTask:
        asked.append(task)
        return task if len(asked) % 3 else writing(ARRANGED, tmp_path / "there", "mark", 1 << 20)

    assert not state.append_apart("R", tasks(elsewhere), 900)
    assert (numbers(state), state.is_seen) == ([], False)
    state.close()


def test_a_task_can_be_sent(tmp_path: Path) -> None:
    cloudpickle = __import__("pyspark.cloudpickle").cloudpickle
    (tmp_path / "mark").write_text("")
    task = pickle.loads(cloudpickle.dumps(writing(ARRANGED, tmp_path, "mark", 1 << 20)))
    (found,) = task(iter([rows(0, 5)]))
    assert found.column("rows").to_pylist() == [5]
