"""Files of state that are damaged, missing or cannot be written are told by name; what no manifest names is swept."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import KEY
from belvedere.state import checksum_pass
from belvedere.state.checksum_pass import ChecksumPass
from belvedere.state.merge import WIDTH
from belvedere.state.merging import Merging
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State
from belvedere.workbench.workbench import Workbench
from tests import depth

SCHEMA = pa.schema(
    [("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False), pa.field("_h0", pa.int64(), nullable=False)]
)
ARRANGED = Arranged("R", SCHEMA, ("_h0",))


def rows(first: int, size: int) -> pa.RecordBatch:
    numbers = list(range(first, first + size))
    return pa.record_batch(
        [pa.array(numbers), pa.array(map(str, numbers)), pa.array([n % 7 for n in numbers])], schema=SCHEMA
    )


def opened(folder: Path, at: Any = None, **settings: Any) -> State:
    state = State(folder, at, **settings)
    state.start_checking()
    state.arrange([ARRANGED], frozenset({"R"} if at else ()))
    state.begin()
    return state


def filled(folder: Path, epochs: int = 3, **settings: Any) -> Any:
    """The place of the manifest after some epochs, in which rows come and go."""
    state, at = opened(folder, **settings), None
    for epoch in range(epochs):
        found = state.arrangements["R"]
        found.append([rows(epoch * 100, 100)])
        list(found.replace(KEY, pa.array(["3", str(epoch * 100)]), [rows(epoch * 100, 1)]))
        at = state.prepare()
        state.committed()
        state.begin()
    state.close()
    return at


def checked(folder: Path, at: Any) -> None:
    opened(folder, at).check()


def put(path: Path, content: bytes) -> None:
    """Another file under the name: the old one may be mapped."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def cut(path: Path) -> None:
    put(path, path.read_bytes()[:-2000])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    put(path, bytes(content))


@pytest.mark.parametrize("damage", [Path.unlink, cut, flip])
def test_a_damaged_file_is_told_by_its_name(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    at = filled(tmp_path / "state")
    files = sorted((tmp_path / "state").iterdir())
    assert len(files) == 3
    for path in files:
        content = path.read_bytes()
        damage(path)
        with pytest.raises(BelvedereError, match="B7061") as failure:
            checked(tmp_path / "state", at)
        assert path.name in failure.value.diagnostics[0].message
        put(path, content)
    checked(tmp_path / "state", at)


def test_no_epoch_is_committed_on_damaged_state(tmp_path: Path) -> None:
    at = filled(tmp_path / "state")
    flip(sorted((tmp_path / "state").iterdir(), key=lambda p: p.stat().st_mtime_ns)[0])
    state = opened(tmp_path / "state", at)
    state.arrangements["R"].append([rows(1000, 5)])
    with pytest.raises(BelvedereError, match="B7061"):
        state.prepare()


def test_a_start_reads_no_run(tmp_path: Path) -> None:
    at = filled(tmp_path / "state")
    state = opened(tmp_path / "state", at)
    found = state.arrangements["R"]
    assert [r.held for r in found.runs] == [None] * 3
    assert found.count == 299
    assert [len(r) for r in found.runs] == [99, 100, 100]
    assert all(r.held is None for r in found.runs)
    assert sorted(b["n"].to_pylist() for b in found.look_up(KEY, pa.array(["7"]))) == [[7]]
    assert all(r.held is not None for r in found.runs)


def test_a_reader_has_its_rows_although_their_files_are_deleted(tmp_path: Path) -> None:
    at = filled(tmp_path / "state")
    found = State(tmp_path / "state", at).stored("R")
    assert found is not None
    for path in (tmp_path / "state").iterdir():
        path.unlink()
    assert sum(b.num_rows for b in found.look_up(None, None)) == found.count == 299


def test_what_is_read_of_a_damaged_run_is_compared_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChecksumPass, "_run", lambda self: None)
    at = filled(tmp_path / "state")
    flip(tmp_path / "state" / opened(tmp_path / "state", at).manifest.relations["R"][1][0].place.file)
    state = opened(tmp_path / "state", at)
    with pytest.raises(BelvedereError, match="B7061"):
        list(state.arrangements["R"].look_up(KEY, pa.array(["7"])))


def test_a_slow_pass_tells_of_what_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum_pass, "FAST_SECONDS", 0.0)
    at = filled(tmp_path / "state")
    flip(sorted((tmp_path / "state").iterdir(), key=lambda p: p.stat().st_mtime_ns)[0])
    state = opened(tmp_path / "state", at)
    assert state._pass is not None
    state._pass._thread.join()
    with pytest.raises(BelvedereError, match="B7061"):
        state.prepare()
    state.rollback()
    state.close()


def test_a_pass_ends_with_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum_pass, "FAST_SECONDS", 0.0)
    monkeypatch.setattr(checksum_pass, "REST", 1e9)
    state = opened(tmp_path / "state", filled(tmp_path / "state"))
    assert state._pass is not None
    state.close()
    assert not state._pass._thread.is_alive()


def test_files_that_nobody_names_are_deleted_once_they_are_not_retained(tmp_path: Path) -> None:
    at = filled(tmp_path / "state")
    garbage = tmp_path / "state" / "0123.run"
    garbage.write_bytes(b"of an epoch that was not committed")
    for retain, there in ((3600.0, True), (0.0, False)):
        state = opened(tmp_path / "state", at, retain=retain)
        old = set(state.manifest.files)
        list(state.arrangements["R"].replace(None, None, [rows(int(retain), 9)]))
        at = state.prepare()
        state.committed()
        state.close()
        assert not garbage.exists()
        assert {(tmp_path / "state" / name).exists() for name in old} == {there}
    again = opened(tmp_path / "state", at)
    again.check()
    assert again.arrangements["R"].count == 9


def test_a_full_disk_undoes_the_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = opened(tmp_path / "state", filled(tmp_path / "state"))
    before = state.arrangements["R"].count
    state.arrangements["R"].append([rows(1000, 5)])

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BelvedereError, match=r"B7062: the disk of .* is full"):
            state.prepare()
    state.rollback()
    state.begin()
    assert state.arrangements["R"].count == before
    state.arrangements["R"].append([rows(1000, 5)])
    at = state.prepare()
    state.committed()
    state.close()
    again = opened(tmp_path / "state", at)
    again.check()
    assert again.arrangements["R"].count == before + 5


def test_a_merge_that_fails_is_told_once_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = opened(tmp_path / "state")

    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("belvedere.state.merge.WIDTH", 2)
        for epoch in range(2):
            state.arrangements["R"].append([rows(epoch * 10_000, 9_000)])
            patched.setattr("belvedere.state.merging.Merging._run", full)
            state.prepare()
            state.committed()
            if not epoch:
                state.begin()
    assert state.merging.wait() == 1
    with pytest.raises(OSError, match="No space left"):
        state.begin()
    state.begin()
    assert state.arrangements["R"].count == 18_000
    state.close()


SCRIPT = """
CREATE TABLE T (k INT PRIMARY KEY, g INT, a INT);
CREATE STREAM S (g INT, b INT);
Sums := SELECT g, sum(a) AS total, count(*) AS n FROM T GROUP BY g;
Pairs := SELECT t.k, t.a, s.b FROM T t JOIN S s ON t.g = s.g;
Middle := SELECT g, median(b) AS middle FROM S GROUP BY g;
"""


@pytest.mark.thorough
@pytest.mark.deep
def test_a_crash_before_and_after_each_write_loses_and_repeats_nothing(
    executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step fails at its first, second, ... write, sync or commit; after a restart the same input gives what batch
    gives."""
    from belvedere.state import files
    from belvedere.store.write.transaction import EpochTransaction

    wb = Workbench(SCRIPT, spark=executor)
    calls = [0]
    crashes = [-1]

    def crashing(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            calls[0] += 1
            own = calls[0]  # it may make further calls
            if own == crashes[0]:
                raise OSError("before")
            found = function(*given)
            if own == -crashes[0]:
                raise OSError("after")
            return found

        return called

    monkeypatch.setattr(files.Writer, "add", crashing(files.Writer.add))
    monkeypatch.setattr(files.Writer, "finish", crashing(files.Writer.finish))
    monkeypatch.setattr(files, "sync_folder", crashing(files.sync_folder))
    commit = EpochTransaction.commit
    monkeypatch.setattr(EpochTransaction, "commit", lambda *given: (crashing(lambda: None)(), commit(*given)))
    reached = 0
    moments = [(point, sign) for point in range(1, 30) for sign in (1, -1)]
    if depth.quick:  # two of three calls, before one and after the next
        moments = [(point, sign) for point, sign in moments if sign == {1: 1, 2: -1}.get(point % 3)]
    for number, (point, sign) in enumerate(moments, 1):
        wb.insert("T", [{"k": k % 5, "g": k % 3, "a": number} for k in range(number, number + 3)])
        wb.insert("S", [{"g": number % 3, "b": number}])
        calls[0], crashes[0] = 0, sign * point
        last = wb.store.last_epoch()
        try:
            wb.step()
        except (OSError, BelvedereError):
            reached = point
            crashes[0] = 0
            assert wb.store.last_epoch() == last
            wb.restart()
            wb.step()
        for view, batch in wb.batches(("Sums", "Pairs", "Middle")).items():
            assert sorted(map(repr, wb.rows(view))) == sorted(map(repr, batch)), (view, point, sign)
        if reached < point:
            break  # the epoch has no more calls than these
    assert 6 < reached < 30
    wb.close()


@pytest.mark.parametrize("prepared", [False, True])
def test_an_epoch_that_fails_leaves_the_rows_as_they_were(tmp_path: Path, prepared: bool) -> None:
    """Rows that it took out are back, whatever took them; those that it brought are gone. Twice, and after a start."""
    state = opened(tmp_path / "state", filled(tmp_path / "state"))
    found = state.arrangements["R"]
    before = sorted(pa.Table.from_batches(found.look_up(None, None), SCHEMA)["n"].to_pylist())
    for _ in range(2):
        list(found.replace(KEY, pa.array(["3", "7", "250"]), [rows(3, 1)]))
        found.overwrite("_h0", pa.array([5]), [rows(1000, 4)])
        found.append([rows(2000, 3)])
        assert found.count != len(before)
        if prepared:
            state.prepare()
        state.rollback()
        assert sorted(pa.Table.from_batches(found.look_up(None, None), SCHEMA)["n"].to_pylist()) == before
        assert found.count == len(before)
        state.begin()
    state.close()


def test_what_a_merge_writes_is_not_swept_as_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epoch after a start changes nothing and starts a merge; the next one is committed while that is still
    under way."""
    with monkeypatch.context() as patched:
        patched.setattr(Merging, "start", lambda *given: None)
        at = filled(tmp_path / "state", WIDTH)
    state = opened(tmp_path / "state", at)
    assert (state.prepare() or {})["file"] == at["file"]
    state.committed()
    assert state.merging.wait() == 1
    for epoch in (100, 101):
        state.arrangements["R"].append([rows(epoch * 100, 5)])
        at = state.prepare()
        state.committed()
        state.begin()
    state.close()
    again = opened(tmp_path / "state", at)
    again.check()
    assert again.arrangements["R"].count == state.arrangements["R"].count
