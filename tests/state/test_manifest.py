"""An epoch writes what changed in the manifest, and a start reads the chain of changes back to a whole one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.schema import KEY
from belvedere.state import state as state_module
from belvedere.state.manifest import Manifest, read_manifest
from belvedere.state.merging import Merging
from belvedere.state.sorted_run import Arranged, FileRange
from belvedere.state.state import CHAIN, State
from tests.state.test_files import SCHEMA, rows

FIRST, SECOND = Arranged("R", SCHEMA, ("_h0",)), Arranged("S", SCHEMA, ("_h0",), ("n",))
EPOCHS = 90


def stored(state: State, at: Any) -> Manifest:
    return read_manifest(FileRange(*(at[n] for n in ("file", "offset", "length", "checksum"))), state.files.read)


def opened(folder: Path, at: Any, *arranged: Arranged) -> State:
    state = State(folder, at, retain=0.0)
    state.check()
    state.arrange(arranged, frozenset(state.manifest.relations) & {a.name for a in arranged})
    state.begin()
    return state


def test_an_epoch_writes_what_changed_and_now_and_then_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Merging, "start", lambda *given: None)
    monkeypatch.setattr(state_module, "MIN_ROWS", 0)
    at, lengths, chains, wholes = None, [], [], []
    state = opened(tmp_path, at, FIRST, SECOND)
    for epoch in range(EPOCHS):
        found = state.arrangements["R"]
        found.append([rows(epoch * 10, 10)])
        if epoch % 3 == 0:
            list(found.replace(KEY, pa.array([str(epoch * 5)]), []))  # a row of a run in the middle goes
        if epoch % 20 == 0:
            state.arrangements["S"].append([rows(epoch, 1)])
        if epoch == 50:
            list(found.replace(KEY, pa.array([str(n) for n in range(200, 300)]), []))  # ten runs go whole
        at = state.prepare()
        assert at is not None
        state.committed()
        found_there = stored(state, at)
        assert found_there == state.manifest
        lengths.append(at["length"])
        chains.append(len(found_there.chain))
        wholes.append(found_there.whole().nbytes)
        named = state.manifest.files | state.manifest.retired.keys() | {at["file"]}
        assert {p.name for p in tmp_path.iterdir()} == named, "files of the chain stay, others go"
        if epoch % 17 == 0:
            state.close()
            state = opened(tmp_path, at, FIRST, SECOND)
        state.begin()
    assert max(chains) > 5
    assert max(chains) < CHAIN
    assert chains.count(0) > 1
    assert sum(lengths) < sum(wholes) / 2
    state.close()
    again = opened(tmp_path, at, FIRST, SECOND)
    assert again.arrangements["R"].count == EPOCHS * 10 - 100 - sum(
        1 for e in range(0, EPOCHS, 3) if not 200 <= e * 5 < 300
    )
    again.close()


def test_relations_come_go_and_change(tmp_path: Path) -> None:
    wider = Arranged("S", pa.schema([*SCHEMA, pa.field("more", pa.int64())]), ("_h0",))
    at = None
    for arranged in ([FIRST], [FIRST, SECOND], [FIRST, wider], [wider], [FIRST, SECOND]):
        state = State(tmp_path, at)
        known = {n for n, (a, _) in state.manifest.relations.items() if a in arranged}
        state.arrange(arranged, frozenset(known))
        for one in arranged:
            batch = rows(0, 500) if one is not wider else rows(0, 500).append_column("more", pa.array(range(500)))
            if one.name not in known:
                state.arrangements[one.name].append([batch])
        at = state.prepare()
        assert stored(state, at) == state._prepared
        state.committed()
        assert {n: a for n, (a, _) in stored(state, at).relations.items()} == {a.name: a for a in arranged}
        state.close()


def test_an_epoch_that_fails_while_it_writes_the_manifest_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path, None, FIRST)
    for epoch in range(3):
        state.arrangements["R"].append([rows(epoch * 10, 10)])
        at = state.prepare()
        state.committed()
        state.begin()
    state.arrangements["R"].append([rows(100, 10)])
    with monkeypatch.context() as patched:
        patched.setattr(State, "_write_manifest", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            state.prepare()
    state.rollback()
    unchanged = state.prepare()
    assert unchanged is not None
    assert at is not None
    assert {n: unchanged[n] for n in ("file", "offset", "length")} == {n: at[n] for n in ("file", "offset", "length")}
    state.committed()
    state.arrangements["R"].append([rows(100, 10)])
    at = state.prepare()
    state.committed()
    assert state.arrangements["R"].count == 40
    assert stored(state, at) == state.manifest
    state.close()


def test_an_epoch_counts_again_what_has_changed_alone(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.arrange([FIRST, Arranged("Other", SCHEMA, ("_h0",))], frozenset())
    for name in ("R", "Other"):
        state.arrangements[name].append([rows(0, 10)])
    state.prepare()
    state.committed()
    before = state.manifest
    list(state.arrangements["R"].replace(KEY, pa.array(["3"]), []))
    at = state.prepare()
    state.committed()
    assert state.manifest.relations["Other"] is before.relations["Other"]
    assert state.manifest.figures["Other"] is before.figures["Other"]
    assert state.manifest.figures["R"].rows == 9
    assert at is not None
    assert at["rows"] == 19
    assert state.manifest.before is None
    state.close()
    again = State(tmp_path, at)
    assert again.sizes()["R"].rows == 9
    assert {n: f.files for n, f in again.manifest.figures.items()} == {
        n: f.files for n, f in state.manifest.figures.items()
    }
