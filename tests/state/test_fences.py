"""A manifest says between which numbers the rows of each run lie."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from belvedere.schema import KEY
from belvedere.state.sorted_run import ANYWHERE, NOWHERE, Arranged
from belvedere.state.state import State

SCHEMA = pa.schema(
    [
        ("at", pa.int64()),
        ("late", pa.int64()),
        pa.field(KEY, pa.string(), nullable=False),
        pa.field("_h0", pa.int64(), nullable=False),
    ]
)


def test_fences_are_of_the_first_hash_and_of_ranges_and_survive_a_start(tmp_path: Path) -> None:
    by_path = Arranged("ByPath", SCHEMA, ("_h0",), ("at", "late"))
    by_key, by_time = Arranged("ByKey", SCHEMA, (), ("at",)), Arranged("ByTime", SCHEMA, (), ("at",), append_only=True)
    rows = pa.record_batch([[7, None, 3], [None] * 3, ["a", "b", "c"], [5, -9, 2]], schema=SCHEMA)
    state = State(tmp_path)
    state.arrange([by_path, by_key, by_time], frozenset())
    for arrangement in state.arrangements.values():
        arrangement.append([rows])
    at = state.prepare()
    state.committed()
    state.close()
    found = {n: entries[0].fences for n, (_, entries) in State(tmp_path, at).manifest.relations.items()}
    assert found["ByPath"] == ((-9, 5), (3, 7), NOWHERE)
    assert found["ByTime"] == ((3, 7),)
    (low, high), times = found["ByKey"]
    assert times == (3, 7)
    assert ANYWHERE[0] <= low < high <= ANYWHERE[1]


def test_fences_of_another_definition_are_those_of_the_same_columns(tmp_path: Path) -> None:
    """Ranges come, go and change places: rows are found, and the next manifest has the fences in the new order."""
    rows = pa.record_batch([[7, None, 3], [90, 80, None], ["a", "b", "c"], [5, -9, 2]], schema=SCHEMA)
    at = None
    for ranges in (("at", "late"), ("late", "at"), ("at",), ("late", "at")):
        state = State(tmp_path, at)
        state.arrange([Arranged("R", SCHEMA, ("_h0",), ranges)], frozenset({"R"} if at else ()))
        arrangement = state.arrangements["R"]
        if at is None:
            arrangement.append([rows])
        for column, above, keys in (("at", 4, ["a"]), ("late", 85, ["a"]), ("at", 2, ["c", "a"])):
            if column in ranges:
                found = arrangement.look_up_range(column, above, None)
                assert [k for b in found for k in b[KEY].to_pylist()] == keys, (ranges, column)
        at = state.prepare()
        state.committed()
        state.close()
        times = {"at": (3, 7), "late": (80, 90)}
        (entry,) = state.manifest.relations["R"][1]
        known = dict(zip(("_h0", *ranges), entry.fences, strict=True))
        assert all(known[n] in (times[n], ANYWHERE) for n in ranges), ranges
        assert known["_h0"] == (-9, 5)
