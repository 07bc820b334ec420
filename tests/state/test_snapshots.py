"""Snapshots: what tasks find and change in an arrangement as it is within an epoch.

It counts with the epoch, and goes with it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from belvedere.schema import KEY
from belvedere.state.snapshots import ArrangementChanges, ArrangementSnapshot, opened
from belvedere.state.state import State
from tests.state.test_files import opened as opened_state
from tests.state.test_files import rows


def numbers(state: State, by: str | None = None, keys: pa.Array | None = None) -> list[int]:
    return sorted(n for b in state.arrangements["R"].look_up(by, keys) for n in b.column("n").to_pylist())


def before(state: State, keys: list[int]) -> list[int]:
    found = state.arrangements["R"].look_up_before("_h0", pa.array(keys))
    return sorted(n for b in found for n in b.column("n").to_pylist())


def found_by_task(snapshot: ArrangementSnapshot, by: str | None, keys: pa.Array | None) -> list[int]:
    with opened(snapshot) as own:
        assert own is not None
        return sorted(n for b in own.arrangement.look_up(by, keys) for n in b.column("n").to_pylist())


def replaced_by_task(snapshot: ArrangementSnapshot, keys: list[str], *new: pa.RecordBatch) -> ArrangementChanges:
    with opened(snapshot) as own:
        assert own is not None
        list(own.arrangement.replace(KEY, pa.array(keys), new))
        return own.changes()


def replace_twice(state: State, keys: list[str], *new: pa.RecordBatch) -> set[str]:
    """By a task that is run again: its second answer counts. The files of the first one."""
    snapshot, runs = state.snapshot("R")
    first = replaced_by_task(snapshot, keys, *new)
    state.take_over("R", runs, replaced_by_task(snapshot, keys, *new))
    return first.files


def commit(state: State) -> dict[str, int] | None:
    at = state.prepare()
    state.committed()
    return at


def test_each_sees_what_came_before_it(tmp_path: Path) -> None:
    """The driver and tasks change one run by turns, in one epoch and in the next one."""
    state = opened_state(tmp_path)
    state.arrangements["R"].append([rows(0, 20)])
    commit(state)
    left, strays = set(range(20)), set[str]()
    for first in (0, 10):
        list(state.arrangements["R"].replace(KEY, pa.array([str(first)]), []))
        state.arrangements["R"].append([rows(100 + first, 2)])
        strays |= replace_twice(state, [str(first + 1), str(100 + first)], rows(200 + first, 1))
        list(state.arrangements["R"].replace(KEY, pa.array([str(first + 2)]), []))
        now = left - {first, first + 1, first + 2} | {101 + first, 200 + first}
        assert numbers(state) == sorted(now)
        assert found_by_task(state.snapshot("R")[0], None, None) == sorted(now)
        hashes = [n % 7 for n in range(7)]
        assert (
            before(state, hashes)
            == found_by_task(state.snapshot("R", before=True)[0], "_h0", pa.array(hashes))
            == sorted(left)
        )
        left = now
        at = commit(state)
    state.close()
    again = opened_state(tmp_path, at)
    again.check()
    assert numbers(again) == sorted(left)
    assert numbers(again, KEY, pa.array(["1", "2", "200", "3"])) == [3, 200]
    assert strays & {p.name for p in tmp_path.iterdir()}
    commit(again)
    assert not strays & {p.name for p in tmp_path.iterdir()}
    again.close()


def test_nothing_is_left_of_an_epoch_that_failed(tmp_path: Path) -> None:
    state = opened_state(tmp_path)
    state.arrangements["R"].append([rows(0, 20)])
    commit(state)
    list(state.arrangements["R"].replace(KEY, pa.array(["0"]), []))
    commit(state)
    there = {p.name for p in tmp_path.iterdir()}
    list(state.arrangements["R"].replace(KEY, pa.array(["1"]), []))
    snapshot, runs = state.snapshot("R")
    state.take_over("R", runs, replaced_by_task(snapshot, ["2", "3"], rows(50, 5)))
    assert (len(numbers(state)), state.arrangements["R"].count) == (21, 21)
    state.rollback()
    assert (numbers(state), state.arrangements["R"].count) == ([*range(1, 20)], 19)
    assert {p.name for p in tmp_path.iterdir()} == there
    replace_twice(state, ["3"])
    at = commit(state)
    state.close()
    again = opened_state(tmp_path, at)
    assert numbers(again) == [1, 2, *range(4, 20)]
    again.close()


def test_rows_that_died_while_runs_were_merged(tmp_path: Path) -> None:
    """Marks of a merged run that no epoch has written yet are in the snapshot. They stay if the epoch is undone."""
    state = opened_state(tmp_path)
    for first in range(0, 80, 10):
        state.arrangements["R"].append([rows(first, 10)])
        at = commit(state)
    list(state.arrangements["R"].replace(KEY, pa.array(["5"]), []))
    commit(state)
    assert state.merging.wait() == 1
    for _ in range(2):
        state.begin()
        (run,) = state.arrangements["R"].runs
        assert len(run.carried) == 1
        assert found_by_task(state.snapshot("R")[0], KEY, pa.array(["4", "5"])) == [4]
        replace_twice(state, ["6"])
        assert numbers(state, KEY, pa.array(["4", "5", "6"])) == [4]
        state.rollback()
        assert numbers(state, KEY, pa.array(["4", "5", "6"])) == [4, 6]
    replace_twice(state, ["6"])
    at = commit(state)
    state.close()
    again = opened_state(tmp_path, at)
    assert numbers(again) == [n for n in range(80) if n not in (5, 6)]
    again.close()


def test_many_marks_become_one_piece(tmp_path: Path) -> None:
    state = opened_state(tmp_path)
    state.arrangements["R"].append([rows(0, 40)])
    commit(state)
    for n in range(12):
        replace_twice(state, [str(n)])
        commit(state)
    (run,) = state.arrangements["R"].runs
    assert len(run.dead_places) <= 8
    assert numbers(state) == [*range(12, 40)]
    state.close()


def test_a_process_that_does_not_see_the_folder(tmp_path: Path) -> None:
    state = opened_state(tmp_path / "here")
    snapshot, _ = state.snapshot("R")
    elsewhere = ArrangementSnapshot(tmp_path / "there", snapshot.place, snapshot.run_bytes)
    with opened(elsewhere) as own:
        assert own is None
    state.close()


@pytest.mark.parametrize("parts", [1, 3])
def test_all_rows_part_by_part(tmp_path: Path, parts: int) -> None:
    state = opened_state(tmp_path)
    for first in range(0, 50, 10):
        state.arrangements["R"].append([rows(first, 10)])
        commit(state)
    snapshot, _ = state.snapshot("R")
    found: list[int] = []
    for part in range(parts):
        with opened(snapshot, (part, parts)) as own:
            assert own is not None
            found += [n for b in own.arrangement.look_up(None, None) for n in b.column("n").to_pylist()]
    assert sorted(found) == list(range(50))
    state.close()
