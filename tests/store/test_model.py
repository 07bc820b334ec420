"""Random sequences of changes, commits and rollbacks do to a store what they do to a dict."""

from __future__ import annotations

from math import nan
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.store import Store, open_store
from tests.store.samples import COUNTS, changed, delta, epoch, reader, row, stored

_numbers = st.one_of(st.none(), st.floats(width=64, allow_nan=False), st.just(nan))
_rows = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2, -(2**63)]), _numbers), max_size=8
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("replace"), st.sets(st.integers(0, 3)), _rows),
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


class _Model:
    """A dict beside the store: what every call should do."""

    def __init__(self, store: Store):
        self.store = store
        self.committed: dict[str, Any] = {}
        self.now: dict[str, Any] = {}
        self.epoch = 0
        self.transaction = store.begin()

    def step(self, action: str, keys: set[int] | None, rows: Any) -> None:
        if action in ("commit", "rollback"):
            self.end(action == "commit")
        elif action == "apply":
            self.apply(_made(rows))
        else:
            self.replace(keys, _made(rows))
        assert _same(dict(sorted(stored(self.transaction).items())), dict(sorted(self.now.items())))

    def replace(self, keys: set[int] | None, rows: dict[str, Any]) -> None:
        new = {k: r for k, r in rows.items() if keys is None or r["_by_word"] in keys}
        old = {k: r for k, r in self.now.items() if keys is None or r["_by_word"] in keys or k in new}
        wanted = pa.array(sorted(keys), pa.int64()) if keys is not None else None
        by = None if keys is None else "_by_word"
        answer = changed(self.transaction.replace("Counts", by, wanted, reader(new.values(), cut=2)))
        assert _same(answer, _expected(old, new))
        same = {k for k in new if k in old and _same(old[k], new[k])}
        self.now = {k: r for k, r in self.now.items() if k not in old or k in same} | {k: new[k] for k in new if k not in same}

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
        self.transaction = self.store.begin()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_any_sequence_of_changes_does_what_a_dict_does(url: str, steps: list[Any]) -> None:
    store = open_store("sqlite://" if url.startswith("sqlite") else url)
    store.drop(["Counts"])
    store.create([COUNTS])
    model = _Model(store)
    last = store.last_epoch()
    model.epoch = last.epoch if last else 0
    try:
        for step in steps:
            model.step(*step)
    finally:
        model.transaction.rollback()
        store.close()
