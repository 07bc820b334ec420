"""What the state survives: a crash at every point of an epoch and of a merge, a disk that is full, a store put back
from a backup."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import KEY
from belvedere.state import files, merge, merging, state
from belvedere.state.merge import Merge
from belvedere.state.merging import Merging
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State
from tests import depth

SCHEMA = pa.schema(
    [("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False), pa.field("_h0", pa.int64(), nullable=False)]
)
ARRANGED = Arranged("R", SCHEMA, ("_h0",))
EPOCHS = 5
Model = dict[str, int]


def batch(rows: Model) -> pa.RecordBatch:
    arrays = (
        pa.array(rows.values(), pa.int64()),
        pa.array(rows.keys(), pa.string()),
        pa.array(range(len(rows)), pa.int64()),
    )
    return pa.record_batch(list(arrays), schema=SCHEMA)


def opened(folder: Path, at: Any, **given: Any) -> State:
    found = State(folder, at, **{"run_bytes": 300, **given})
    found.check()
    found.arrange([ARRANGED], frozenset({"R"} if at else ()))
    return found


def contents(found: State) -> Model:
    batches = list(found.arrangements["R"].look_up(None, None))
    pairs = [(r[KEY], r["n"]) for b in batches for r in b.to_pylist()]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def change(found: State, model: Model, epoch: int) -> Model:
    """Rows come; of the rows of each epoch before, one is another now and one goes."""
    new = {f"{epoch}-{n}": n for n in range(8)}
    found.arrangements["R"].append([batch(new)])
    other = {f"{e}-{epoch - e}": -epoch for e in range(epoch)}
    gone = [f"{e}-{7 - (epoch - e)}" for e in range(epoch) if epoch - e < 4]
    list(found.arrangements["R"].replace(KEY, pa.array([*other, *gone], pa.string()), [batch(other)]))
    return {k: v for k, v in (model | new | other).items() if k not in gone}


class Driver:
    """Runs epochs; a merge ends between the changes of the next epoch and its commit, so that rows die meanwhile."""

    def __init__(self, folder: Path, gate: Event):
        self.folder, self.gate = folder, gate
        self.at: Any = None
        self.model = Model()
        self.epoch = self.merges = 0

    def run(self) -> None:
        """From the last commit on, as a new process."""
        self.gate.clear()
        found = opened(self.folder, self.at)
        assert contents(found) == self.model
        try:
            while self.epoch < EPOCHS:
                self._step(found)
        finally:
            self.gate.set()
            found.merging._threads.shutdown(wait=True)  # a dead process deletes nothing

    def _step(self, found: State) -> None:
        found.begin()
        assert contents(found) == self.model
        model = change(found, self.model, self.epoch)
        self.gate.set()
        self.merges += found.merging.wait()
        self.gate.clear()
        at = found.prepare()
        self.at, self.model, self.epoch = at, model, self.epoch + 1
        found.committed()


def test_a_crash_before_and_after_each_write_sync_and_step_of_a_merge_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, crash, gate = [0], [0], Event()
    names: set[str] = set()

    def crashing(owner: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def called(*given: Any) -> Any:
            calls[0] += 1
            if calls[0] == crash[0]:
                names.add(name)
                raise OSError("before")
            found = function(*given)
            if calls[0] == -crash[0]:
                raise OSError("after")
            return found

        monkeypatch.setattr(owner, name, called)

    for module in (merge, state):
        monkeypatch.setattr(module, "WIDTH", 2)
        monkeypatch.setattr(module, "MIN_ROWS", 2)
    monkeypatch.setattr(merging, "AT_ONCE", 1)  # the calls of two would come in another order each time
    points = [(files.Writer, "add"), (files.Writer, "finish"), (files, "sync_folder")]
    points += [(Merge, "pieces"), (Merge, "make"), (Merge, "carry_over"), (Merging, "start"), (Merging, "install")]
    for owner, name in points:
        crashing(owner, name)
    run = Merging._run
    monkeypatch.setattr(Merging, "_run", lambda *given: (gate.wait(), run(*given))[1])
    number = cut = 0
    while calls[0] >= number:  # there are so many calls
        number += 1
        for sign in ((1, -1)[number % 2],) if depth.quick else (1, -1):
            driver = Driver(tmp_path / f"{number}{sign}", gate)
            calls[0], crash[0] = 0, sign * number
            try:
                driver.run()
            except (OSError, BelvedereError):
                reached, crash[0] = calls[0], 0
                driver.run()
                calls[0] = reached
            assert driver.epoch == EPOCHS
            last = opened(driver.folder, driver.at)
            assert contents(last) == driver.model
            cut += any(r.depth for r in last.arrangements["R"].runs)
            last.close()
    assert driver.merges
    assert cut, "merges have cut runs into ranges"
    assert names == {name for _, name in points}


@pytest.mark.parametrize("retain", [3600.0, 0.0])
def test_state_of_a_backup_goes_on_while_its_files_are_retained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retain: float
) -> None:
    for module in (merge, state):
        monkeypatch.setattr(module, "WIDTH", 2)
    then: list[tuple[Any, Model]] = []
    model, at = Model(), None
    found = opened(tmp_path, None, retain=retain)
    for epoch in range(8):
        found.begin()
        model = change(found, model, epoch)
        at = found.prepare()
        found.committed()
        then.append((at, model))
    found.close()
    if not retain:
        with pytest.raises(BelvedereError, match="B7061") as failure:
            opened(tmp_path, then[2][0])
        assert "backup" in (failure.value.diagnostics[0].hint or "")
        return
    back = opened(tmp_path, then[2][0], retain=retain)
    assert contents(back) == then[2][1]
    back.begin()
    model = change(back, then[2][1], 3)
    at = back.prepare()
    back.committed()
    back.close()
    again = opened(tmp_path, at)
    assert contents(again) == model
    again.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 512 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"only root may mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full_ends_at_the_last_epoch_and_with_space_it_goes_on(small_disk: Path) -> None:
    """The epoch or a merge beside it is what finds the disk full; neither leaves half a file behind."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300 << 10))
    model, at = Model(), None

    def run(found: State, first: int, last: int) -> None:
        nonlocal model, at
        for number in range(first, last):
            found.begin()
            rows = {f"{number}-{n}": n for n in range(100)}
            found.arrangements["R"].append([batch(rows)])
            at = found.prepare()
            found.committed()
            model |= rows

    found = opened(small_disk / "state", None, run_bytes=1 << 26)
    with pytest.raises(BelvedereError, match=r"B7062: the disk of .* is full"):
        run(found, 0, 200)
    found.rollback()
    found.close()
    assert at is not None
    assert len(model) > 500
    named = found.manifest.files | found.manifest.retired.keys() | {at["file"]}
    merged = [*found.arrangements["R"].runs]  # a whole run that no committed epoch has taken over is no half a file
    merged += [o.run for m in found.merging._under_way if m.future.exception() is None for o in m.future.result()]
    named |= {r.place.file for r in merged if r.place is not None}
    assert {p.name for p in (small_disk / "state").iterdir()} <= named
    ballast.unlink()
    again = opened(small_disk / "state", at)
    run(again, 200, 202)
    assert contents(again) == model
    again.close()


def test_who_was_suspended_after_its_first_commit_deletes_no_file_of_the_next_process(tmp_path: Path) -> None:
    first = opened(tmp_path, None)
    first.begin()
    model = change(first, {}, 0)
    at = first.prepare()
    second = opened(tmp_path, at)  # the first one has committed, and is suspended before it tidies up
    second.begin()
    model = change(second, model, 1)
    at = second.prepare()
    second.committed()
    first.committed()
    first.close()
    second.close()
    again = opened(tmp_path, at)
    assert contents(again) == model
    again.close()
