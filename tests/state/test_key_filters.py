"""Filters pass every key that a run has, and few of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from belvedere.schema import KEY
from belvedere.state.hashing import Numbers
from belvedere.state.key_filters import MIN_ROWS, KeyProbes, filter_of, words_of
from belvedere.state.sorted_run import GREATEST, LEAST, Arranged, RunIndex
from belvedere.state.state import State

SCHEMA = pa.schema([("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False)])
SCHEMA = pa.schema([*SCHEMA, *(pa.field(n, pa.int64(), nullable=False) for n in ("_h0", "_h1"))])
DICE = np.random.default_rng(1)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000, 50_001])
def test_every_key_that_is_there_passes_and_few_others(size: int) -> None:
    hashes = np.unique(np.concatenate([DICE.integers(LEAST, GREATEST, size - 1, endpoint=True), [GREATEST]]))
    words = words_of(filter_of(hashes))
    if size < 4:
        assert not len(words), "a run so small has no filter"
        return
    own = KeyProbes(hashes)
    assert own.find_held(words, 0, len(hashes)).tolist() == list(range(len(hashes)))
    others = np.sort(DICE.integers(LEAST, GREATEST, 20_000))
    passed = KeyProbes(others).find_held(words, 100, 20_000)
    assert len(passed) < 200
    assert not len(passed) or passed.min() >= 100


def spread(numbers: np.ndarray, factor: int) -> pa.Array:
    return pa.array((numbers.astype(np.uint64) * np.uint64(factor)).view(np.int64))


def test_look_ups_search_only_runs_that_may_have_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, at, size = State(tmp_path), None, MIN_ROWS + 7
    state.arrange([Arranged("R", SCHEMA, ("_h0", "_h1"))], frozenset())
    for first in (0, size):
        n = np.arange(first, first + size)
        columns = [
            pa.array(n),
            pa.array(n).cast(pa.string()),
            spread(n, 0x9E3779B97F4A7C15),
            spread(n, 0xC4CEB9FE1A85EC53),
        ]
        state.arrangements["R"].append([pa.record_batch(columns, schema=SCHEMA)])
        at = state.prepare()
        state.committed()
        state.begin()
    state.close()
    state = State(tmp_path, at)
    state.arrange([Arranged("R", SCHEMA, ("_h0", "_h1"))], frozenset({"R"}))
    asked = [(run, name) for run in state.arrangements["R"].runs for name in (KEY, "_h1")]
    assert all(run.filter(name) is not None for run, name in asked)
    assert all(run.filter("_h0") is None for run, _ in asked), "the first hash has fences"
    searched = [0]
    of_keys = RunIndex.of_keys

    def counted(index: RunIndex, keys: Numbers) -> Any:
        searched[0] += len(keys)
        return of_keys(index, keys)

    monkeypatch.setattr(RunIndex, "of_keys", counted)
    for first in (0, size):
        numbers = np.arange(first + 5, first + 105)
        for by, keys in ((KEY, pa.array(numbers).cast(pa.string())), ("_h1", spread(numbers, 0xC4CEB9FE1A85EC53))):
            searched[0] = 0
            rows = [r for b in state.arrangements["R"].look_up(by, keys) for r in b.column("n").to_pylist()]
            assert sorted(rows) == numbers.tolist()
            assert 100 <= searched[0] < 110, "of two runs"
    none = pa.array(np.arange(-1_000, -1).astype(str))
    assert not list(state.arrangements["R"].look_up(KEY, none))
    state.close()
