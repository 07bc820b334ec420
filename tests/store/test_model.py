"""Random sequences of changes, commits and rollbacks do to a store what they do to a dict."""

from __future__ import annotations

from math import nan
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.store import Store, open_store
from belvedere.store.protocol import CHUNK_BYTES
from tests.store.samples import COUNTS, changed, delta, epoch, reader, row, stored

_numbers = st.one_of(st.none(), st.floats(width=64, allow_nan=False), st.just(nan))
_rows = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2, -(2**63)]), _numbers), max_size=8
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("replace"), st.sets(st.integers(0, 3)), _rows),
        st.tuples(st.just("streamed"), st.sets(st.integers(0, 3)), _rows),
        st.tuples(st.just("unread"), st.sets(st.integers(0, 3)), _rows),
        st.tuples(st.just("keyed"), st.sets(st.sampled_from("abcdefgh")), _rows),
        st.tuples(st.just("all"), st.none(), _rows),
        st.tuples(st.just("apply"), st.none(), _rows),
        st.tuples(st.just("commit"), st.none(), st.none()),
        st.tuples(st.just("rollback"), st.none(), st.none()),
    ),
    max_size=8,
)


def _made(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {k: row(k, path, number=number, share=share) for k, (path, number, share) in found.items()}


def _same(left: Any, right: Any) -> bool:
    return repr(left).replace("-0.0", "0.0") == repr(right).replace("-0.0", "0.0")


def _expected(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    out = []
    for key in sorted({*old, *new}):
        if key in old and key in new and _same(old[key], new[key]):
            continue
        out += [(old[key], -1)] if key in old else []
        out += [(new[key], 1)] if key in new else []
    return out


def _keys(keys: Any, streamed: bool) -> Any:
    """Keys in one array, or as a stream of batches, some of them more than once."""
    found = pa.array(sorted(keys), None if keys else pa.int64())
    if not streamed:
        return found
    batches = [pa.record_batch([found.slice(i, 2)], ["k"]) for i in range(len(found))]
    return pa.RecordBatchReader.from_batches(pa.schema([("k", found.type)]), batches)


class _Model:
    """A dict beside the store: what every call should do."""

    def __init__(self, store: Store, chunk: int):
        self.store = store
        self.chunk = chunk
        self.committed: dict[str, Any] = {}
        self.now: dict[str, Any] = {}
        self.epoch = 0
        self.transaction = store.begin(chunk)

    def step(self, action: str, keys: Any, rows: Any) -> None:
        if action in ("commit", "rollback"):
            self.end(action == "commit")
        elif action == "apply":
            self.apply(_made(rows))
        else:
            self.replace(action, keys, _made(rows))
        assert _same(dict(sorted(stored(self.transaction).items())), dict(sorted(self.now.items())))

    def replace(self, how: str, keys: Any, rows: dict[str, Any]) -> None:
        by = None if keys is None else ("_key" if how == "keyed" else "_by_word")
        new = {k: r for k, r in rows.items() if by is None or r[by] in keys}
        old = {k: r for k, r in self.now.items() if by is None or r[by] in keys or k in new}
        wanted = _keys(keys, how == "streamed") if keys is not None else None
        answer = self.transaction.replace("Counts", by, wanted, reader(new.values(), cut=2))
        if how != "unread":
            assert _same(changed(answer), _expected(old, new))
        same = {k for k in new if k in old and _same(old[k], new[k])}
        self.now = {k: r for k, r in self.now.items() if k not in old or k in same} | {k: new[k] for k in new if k not in same}
        if how == "streamed":
            found = self.transaction.lookup("Counts", by, _keys(keys, True)).read_all().to_pylist()
            assert sorted(r["_key"] for r in found) == sorted(k for k, r in self.now.items() if r["_by_word"] in keys)

    def apply(self, rows: dict[str, Any]) -> None:
        """Odd values go, the others come; both for a key that is there."""
        changes = [(self.now[k], -1) for k in rows if k in self.now] + [(r, 1) for r in rows.values() if r["_by_word"] != 3]
        self.transaction.apply("Counts", delta(changes, cut=3))
        self.now = {k: r for k, r in self.now.items() if k not in rows} | {k: r for k, r in rows.items() if r["_by_word"] != 3}

    def end(self, commit: bool) -> None:
        if commit:
            self.epoch += 1
            self.transaction.commit(epoch(self.epoch))
            self.committed = self.now
        else:
            self.transaction.rollback()
            self.now = self.committed
        self.transaction = self.store.begin(self.chunk)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps, chunk=st.sampled_from([1, 200, CHUNK_BYTES]))
def test_any_sequence_of_changes_does_what_a_dict_does(url: str, steps: list[Any], chunk: int) -> None:
    """Also where a call may hold a row at a time only."""
    store = open_store("sqlite://" if url.startswith("sqlite") else url)
    store.drop(["Counts"])
    store.create([COUNTS])
    model = _Model(store, chunk)
    last = store.last_epoch()
    model.epoch = last.epoch if last else 0
    try:
        for step in steps:
            model.step(*step)
    finally:
        model.transaction.rollback()
        store.close()
