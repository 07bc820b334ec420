"""A run that lies elsewhere is fetched block by block, also from a place that fails one request in twenty."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from belvedere.errors import BelvedereError
from belvedere.schema import KEY
from belvedere.state import files, remote_files, snapshots, sparse_copy
from belvedere.state.merging import Merging
from belvedere.state.remote_files import Remote
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("large", pa.large_binary()),
        pa.field("yes", pa.bool_()),
        pa.field("parts", pa.list_(pa.struct([("a", pa.int32())]))),
        pa.field("sum", pa.decimal128(20, 2)),
        pa.field("nothing", pa.null()),
        pa.field(KEY, pa.string(), nullable=False),
        pa.field("_h0", pa.int64(), nullable=False),
        pa.field("_h1", pa.int64(), nullable=False),
    ]
)
ARRANGED = Arranged("R", SCHEMA, ("_h0", "_h1"), ("n",))
ROWS = 1_200
BLOCK = 1_024


class Flaky:
    """A file system, and its files, of which one request in twenty fails."""

    def __init__(self, system: Any, counts: list[int]):
        self.system, self.counts = system, counts

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.system, name)
        if not callable(found):
            return found

        def called(*given: Any) -> Any:
            self.counts[0] += 1
            if self.counts[0] % 20 == 0:
                raise OSError("When reading: AWS Error SLOW_DOWN: please reduce your request rate")
            if name == "read_at":
                self.counts[1] += given[0]
            answer = found(*given)
            return Flaky(answer, self.counts) if name.startswith("open_input_file") else answer

        return called

    def __enter__(self) -> Flaky:
        return self

    def __exit__(self, *given: object) -> None:
        self.system.close()


class FlakyRemote(Remote):
    """Counts requests and bytes."""

    @cached_property
    def counts(self) -> list[int]:
        return [0, 0]

    @cached_property
    def _place(self) -> Any:
        base = f"{self.address.removeprefix('file://')}/{self.id}"
        Path(base).mkdir(parents=True, exist_ok=True)
        return Flaky(fs.LocalFileSystem(), self.counts), base


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sparse_copy, files):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
    monkeypatch.setattr(remote_files, "WAITS", (0.0, 0.0, 0.0))


def row(n: int) -> dict[str, Any]:
    return {
        "n": n if n % 5 else None,
        "text": f"text {n} " + "ä" * (n % 40) if n % 3 else None,
        "large": bytes([n % 256]) * (n % 30) if n % 4 else None,
        "yes": bool(n % 2) if n % 7 else None,
        "parts": [{"a": n}, None] if n % 6 else None,
        "sum": n if n % 9 else None,
        "nothing": None,
        KEY: str(n),
        "_h0": n * 2_654_435_761 % 1_000_003,
        "_h1": n % 50,
    }


def filled(folder: Path, remote: Remote) -> Any:
    state = State(folder, None, remote=remote)
    state.arrange([ARRANGED], frozenset())
    for first in (0, ROWS):
        state.arrangements["R"].append(
            [pa.RecordBatch.from_pylist([row(n) for n in range(first, first + ROWS)], SCHEMA)]
        )
        at = state.prepare()
        state.committed()
    state.close()
    return at


def opened(folder: Path, at: Any, remote: Remote, **given: Any) -> State:
    state = State(folder, at, remote=remote, **given)
    state.arrange([ARRANGED], frozenset({"R"}))
    state.begin()
    return state


def found(batches: Any) -> list[dict[str, Any]]:
    rows = [r for b in batches for r in b.to_pylist()]
    return sorted(rows, key=lambda r: int(r[KEY]))


def expected(numbers: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.RecordBatch.from_pylist([row(n) for n in sorted(numbers)], SCHEMA).to_pylist()
    return rows


def test_a_look_up_fetches_the_index_and_the_blocks_of_its_rows(tmp_path: Path) -> None:
    remote = FlakyRemote(f"file://{tmp_path}/there", "one")
    at = filled(tmp_path / "here", remote)
    total = sum(p.stat().st_size for p in (tmp_path / "there" / "one").iterdir())
    for by, keys, numbers in (
        ("_h0", pa.array([row(77)["_h0"]]), [n for n in range(2 * ROWS) if row(n)["_h0"] == row(77)["_h0"]]),
        (KEY, pa.array(["78", "2001", "no"]), [78, 2001]),
        ("_h1", pa.array([7]), range(7, 2 * ROWS, 50)),
    ):
        state = opened(tmp_path / "elsewhere", at, remote)
        remote.counts[1] = 0
        assert found(state.arrangements["R"].look_up(by, keys)) == expected(numbers)
        fetched = remote.counts[1]
        assert found(state.arrangements["R"].look_up(by, keys)) == expected(numbers)
        assert remote.counts[1] == fetched, "blocks are fetched once"
        assert fetched < (total / 2 if by != "_h1" else total)
        assert found(state.arrangements["R"].look_up_range("n", 100, 110)) == expected(
            [101, 102, 103, 104, 106, 107, 108, 109]
        )
        assert found(state.arrangements["R"].look_up("_h1", pa.array([8]))) == expected(range(8, 2 * ROWS, 50))
        state.close()
    assert remote.counts[0] > 40
    assert not list((tmp_path / "elsewhere").iterdir())


def test_epochs_and_merges_go_on_with_blocks_that_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = FlakyRemote(f"file://{tmp_path}/there", "one")
    at, there, start_merges = filled(tmp_path / "here", remote), set(range(2 * ROWS)), Merging.start
    for start in range(3):
        state = opened(tmp_path / str(start), at, remote, copies=60_000, run_bytes=50_000)
        monkeypatch.setattr(Merging, "start", start_merges if start else lambda *given: None)
        for epoch in range(4):
            gone = {n for n in there if n % 11 == start and n % 4 == epoch}
            list(state.arrangements["R"].replace(KEY, pa.array([str(n) for n in gone]), []))
            there -= gone
            at = state.prepare()
            state.committed()
            assert start or sum(state.files.copies(0).values()) <= 60_000
            state.merging.wait()
            state.begin()
        assert found(state.arrangements["R"].look_up(None, None)) == expected(there)
        assert len(state.arrangements["R"].runs) > 2 * (start > 0)
        state.close()


def test_a_damaged_block_is_told_when_it_is_read(tmp_path: Path) -> None:
    remote = Remote(f"file://{tmp_path}/there", "one")
    at = filled(tmp_path / "here", remote)
    state = opened(tmp_path / "elsewhere", at, remote)
    place = state.arrangements["R"].runs[0].place
    assert place is not None
    path = tmp_path / "there" / "one" / place.file
    content = bytearray(path.read_bytes())
    content[content.index(b"text 601 ")] ^= 1
    path.write_bytes(bytes(content))
    order = sorted(range(ROWS), key=lambda n: row(n)["_h0"])
    far = order[(order.index(601) + ROWS // 2) % ROWS]
    assert found(state.arrangements["R"].look_up(KEY, pa.array([str(far)]))) == expected([far])
    with pytest.raises(BelvedereError, match="B7061") as failure:
        list(state.arrangements["R"].look_up(KEY, pa.array(["601"])))
    assert place.file in failure.value.diagnostics[0].message
    state.close()


def test_a_place_that_always_fails_is_told(tmp_path: Path) -> None:
    remote = FlakyRemote(f"file://{tmp_path}/there", "one")
    at = filled(tmp_path / "here", remote)
    state = opened(tmp_path / "elsewhere", at, remote)
    (tmp_path / "there" / "one" / state.arrangements["R"].runs[0].place.file).unlink()  # type: ignore[union-attr]
    with pytest.raises(BelvedereError, match="B7061"):
        list(state.arrangements["R"].look_up(None, None))
    state.close()


def test_a_file_without_checksums_of_blocks_is_fetched_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where a backup of a state on a disk was put back into an object store."""
    remote = Remote(f"file://{tmp_path}/there", "one")
    with monkeypatch.context() as patched:
        patched.setattr(sparse_copy, "BLOCK", 1 << 20)
        at = filled(tmp_path / "here", remote)
    state = opened(tmp_path / "elsewhere", at, remote)
    assert found(state.arrangements["R"].look_up(KEY, pa.array(["601", "7"]))) == expected([7, 601])
    state.close()


def test_a_task_closes_what_no_snapshot_names_any_more(tmp_path: Path) -> None:
    """Of each arrangement the copies of its last snapshot stay, and are not fetched again."""
    remote = Remote(f"file://{tmp_path}/there", "one")
    state = State(tmp_path / "here", remote=remote, retain=0.0)
    state.arrange([ARRANGED, replace(ARRANGED, name="S")], frozenset())
    state.arrangements["S"].append([pa.RecordBatch.from_pylist([row(n) for n in range(ROWS)], SCHEMA)])
    kept = list[object]()

    def look_up(name: str, key: str) -> None:
        seen, _ = state.snapshot(name)
        with snapshots.opened(replace(seen, folder=tmp_path / "executor")) as task:
            assert task is not None
            assert [r[KEY] for r in found(task.arrangement.look_up(KEY, pa.array([key])))] == [key]
            (run,) = task.arrangement.runs
            assert run.place is not None
            if name == "S":
                kept.append(snapshots._files_of(tmp_path / "executor", remote).blocks(run.place))

    for epoch in range(4):
        state.begin()
        changed = pa.RecordBatch.from_pylist([row(n) for n in range(epoch * ROWS, (epoch + 1) * ROWS)], SCHEMA)
        state.arrangements["R"].overwrite(None, None, [changed])
        look_up("R", str(epoch * ROWS + 5))
        look_up("S", "5")
        state.prepare()
        state.committed()
    state.close()
    assert len(set(map(id, kept[1:]))) == 1  # the first one was not committed yet
    gc.collect()
    own = snapshots._files_of(tmp_path / "executor", remote).folder
    targets = [os.readlink(p) for p in map(str, Path("/proc/self/fd").iterdir()) if os.path.lexists(p)]
    assert sum(t.startswith(str(own)) for t in targets) <= 3
