"""Random sequences of changes, commits and rollbacks do to a store what they do to a dict."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.store import Store, StoredTable, open_store
from belvedere.store.protocol import CHUNK_BYTES
from tests.depth import examples
from tests.store.samples import COUNTS, NUMBERED, delta, epoch, numbered, reader, row, stored

_keys = st.sampled_from(["1", "2", "10", "-3", "4", "5", "2147483647", "0"])
_numbers = st.one_of(st.none(), st.floats(width=64, allow_nan=False), st.just(nan))
_rows = st.dictionaries(
    _keys, st.tuples(st.sampled_from([None, 1, 2, -(2**63)]), _numbers, st.none() | st.integers(0, 9)), max_size=8
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.tuples(st.sets(_keys), _rows)),
        st.tuples(st.just("append"), _rows),
        st.tuples(st.just("delete_range"), st.integers(0, 9)),
        st.tuples(st.just("look_up"), st.sets(_keys)),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("rollback"), st.none()),
    ),
    max_size=12,
)


def _minute(number: int) -> datetime:
    return datetime(2020, 1, 1, 8, number, tzinfo=UTC)


def _made(found: dict[str, Any], table: StoredTable) -> dict[str, dict[str, Any]]:
    make = numbered if table is NUMBERED else row
    return {
        k: make(k, number=number, share=share, at=None if at is None else _minute(at))
        for k, (number, share, at) in found.items()
    }


def _plain(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Rows as texts in which NaN equals NaN, and 0.0 equals -0.0."""
    found = (sorted({**r, "at": r["at"] and r["at"].isoformat()}.items()) for _, r in sorted(rows.items()))
    return [repr(r).replace("-0.0", "0.0") for r in found]


class _Model:
    """A dict beside the store: what every call should do."""

    def __init__(self, store: Store, chunk: int, table: StoredTable):
        self.store, self.table = store, table
        self.chunk = chunk
        self.committed: dict[str, Any] = {}
        self.now: dict[str, Any] = {}
        self.epoch = 0
        self.transaction = store.begin(chunk)

    def step(self, action: str, what: Any) -> None:
        getattr(self, action)(what)
        assert self.transaction.count(self.table.name) == len(self.now)
        assert self.transaction.gained(self.table.name) == len(self.now) - len(self.committed)
        assert _plain(stored(self.transaction, self.table)) == _plain(self.now)

    def apply(self, changes: tuple[set[str], dict[str, Any]]) -> None:
        """Some rows go, others come; both for a key that is there, whatever stands between."""
        going, coming = changes[0], _made(changes[1], self.table)
        gone = [(self.now[k], -1) for k in sorted({*going, *coming}) if k in self.now]
        changed = delta([*gone, *((r, 1) for r in coming.values())], self.table, cut=3)
        self.transaction.apply(self.table.name, changed)
        self.now = {k: r for k, r in self.now.items() if k not in going} | coming

    def append(self, rows: dict[str, Any]) -> None:
        fresh = {k: r for k, r in _made(rows, self.table).items() if k not in self.now}
        self.transaction.append(self.table.name, reader(fresh.values(), self.table, cut=2))
        self.now = self.now | fresh

    def delete_range(self, last: int) -> None:
        gone = {k for k, r in self.now.items() if r["at"] is not None and r["at"] <= _minute(last)}
        found = self.transaction.lookup_range(self.table.name, "at", None, _minute(last)).read_all()
        assert set(found["_key"].to_pylist()) == gone
        assert self.transaction.delete_range(self.table.name, "at", _minute(last)) == len(gone)
        self.now = {k: r for k, r in self.now.items() if k not in gone}

    def look_up(self, keys: set[str]) -> None:
        found = self.transaction.lookup(self.table.name, pa.array(sorted(keys), pa.string())).read_all()
        assert sorted(found["_key"].to_pylist()) == sorted(keys & self.now.keys())

    def commit(self, _: None) -> None:
        self.epoch += 1
        self.transaction.commit(epoch(self.epoch))
        self.committed = self.now
        self.transaction = self.store.begin(self.chunk)

    def rollback(self, _: None) -> None:
        self.transaction.rollback()
        self.now = self.committed
        self.transaction = self.store.begin(self.chunk)


@pytest.mark.deep
@pytest.mark.parametrize("table", [COUNTS, NUMBERED], ids=["text", "number"])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps, chunk=st.sampled_from([1, 200, CHUNK_BYTES]))
def test_any_sequence_of_changes_does_what_a_dict_does(
    url: str, table: StoredTable, steps: list[Any], chunk: int
) -> None:
    """Also where a call may hold a row at a time only."""
    store = open_store("sqlite://" if url.startswith("sqlite") else url)
    store.drop([table.name])
    store.create([table])
    model = _Model(store, chunk, table)
    last = store.last_epoch()
    model.epoch = last.epoch if last else 0
    try:
        for step in steps:
            model.step(*step)
    finally:
        model.transaction.rollback()
        store.close()
