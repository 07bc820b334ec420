"""An arrangement against a dictionary and DuckDB: random rows, epochs, merges, undone epochs and restarts.

After every step fixed look-ups are compared with the dictionary; at random moments random ones with what DuckDB says of
the same rows.
"""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from belvedere.schema import KEY
from belvedere.state import files, merge, sparse_copy, state
from belvedere.state.manifest import read_manifest
from belvedere.state.remote_files import Remote
from belvedere.state.sorted_run import Arranged, FileRange
from belvedere.state.state import State
from tests.depth import examples

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("value", pa.float64()),
        pa.field("parts", pa.list_(pa.struct([("n", pa.int32())]))),
        pa.field("note", pa.string()),
        pa.field(KEY, pa.string(), nullable=False),
        pa.field("_by", pa.int64(), nullable=False),
        pa.field("_too", pa.int64(), nullable=False),
    ]
)
ARRANGED = Arranged("R", SCHEMA, ("_by", "_too"), ("at",), (("_by", "at"),), frozenset({"note"}))
Row = dict[str, Any]

keys = st.sampled_from(
    ["", "a", "b", "ä", "long key beyond eight bytes", "long key beyond eight bytez", *map(str, range(12))]
)
rows = st.fixed_dictionaries(
    {
        "at": st.none() | st.integers(0, 9).map(lambda n: START + timedelta(hours=n)),
        "value": st.sampled_from([None, 1.0, 2.5, math.nan, 0.0, -0.0]),
        "parts": st.sampled_from([None, [], [{"n": 1}], [{"n": None}], [{"n": 1}, None]]),
        "note": st.sampled_from([None, "x", "y"]),
        KEY: keys,
        "_by": st.integers(0, 3),
        "_too": st.sampled_from([-(2**63), 0, 2**63 - 1]),
    }
)
distinct_rows = st.lists(rows, max_size=8, unique_by=lambda r: r[KEY])


def table(found: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(found, schema=SCHEMA)


def shown(row: Row, *without: str) -> str:
    """A row so that equal ones have equal texts."""
    values = {n: v for n, v in row.items() if n not in without}
    values["at"] = values["at"] and values["at"].timestamp()
    if values["value"] == 0.0:
        values["value"] = 0.0
    return repr(sorted(values.items()))


def same(found: Any, expected: list[Row]) -> None:
    batches = list(found)
    assert sorted(shown(r) for b in batches for r in b.to_pylist()) == sorted(map(shown, expected))


def micros(hour: int | None) -> int | None:
    return None if hour is None else int((START + timedelta(hours=hour)).timestamp() * 1_000_000)


def keys_in(found: Any) -> list[str]:
    return sorted(k for b in found for k in b.column(KEY).to_pylist())


hours = st.none() | st.integers(-1, 10)


class Arrangements(RuleBasedStateMachine):
    """`model` is the relation by `_key`; `saved` what it was after the last epoch."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.patches = [patch.object(merge, "MIN_ROWS", 2), patch.object(state, "MIN_ROWS", 2)]
        self.patches += [
            patch.object(merge, "WIDTH", 2),
            patch.object(state, "WIDTH", 2),
            patch.object(state, "DEAD_PLACES", 2),
        ]
        for found in self.patches:
            found.start()
        self.model: dict[str, Row] = {}
        self.saved: dict[str, Row] = {}
        self.at: dict[str, Any] | None = None
        self.chain = 0
        self.database = duckdb.connect()
        self.database.execute(f"CREATE TABLE r (moment BIGINT, {KEY} VARCHAR, _by BIGINT, _too BIGINT, new BOOLEAN)")
        self.open()

    def open(self) -> None:
        self.state = State(Path(self.folder.name) / "state", self.at, run_bytes=400, retain=0.0)
        self.state.check()
        self.state.arrange([ARRANGED], frozenset({"R"} if self.at else ()))
        self.state.begin()
        self.relation = self.state.arrangements["R"]

    @rule(new=distinct_rows)
    def append(self, new: list[Row]) -> None:
        new = [r for r in new if r[KEY] not in self.model]
        self.relation.append([table(new[:3]), table(new[3:])])
        self.model |= {r[KEY]: r for r in new}

    @rule(new=distinct_rows, by=st.sampled_from(["_by", KEY, None]), asked=st.data(), stream=st.booleans())
    def replace(self, new: list[Row], by: str | None, asked: st.DataObject, stream: bool) -> None:
        requested = asked.draw(st.lists(st.integers(0, 3) if by == "_by" else keys, max_size=4)) if by else None
        gone = {k: r for k, r in self.model.items() if requested is None or r[by] in requested}
        before = {k: r for k, r in self.model.items() if k in gone or k in {n[KEY] for n in new}}
        after = {r[KEY]: r for r in new}
        found = list(self.relation.replace(by, self._asked(by, requested, stream), [table(new[:2]), table(new[2:])]))
        changes = sorted((shown(r, "note"), weight) for b, weight in found for r in b.to_pylist())
        expected = []
        for key in before.keys() | after.keys():
            texts = [shown(side[key], "note") if key in side else None for side in (before, after)]
            if texts[0] != texts[1]:
                expected += [(text, weight) for text, weight in zip(texts, (-1, 1), strict=True) if text is not None]
        assert changes == sorted(expected)
        self.model = {k: r for k, r in self.model.items() if k not in before} | after

    @staticmethod
    def _asked(by: str | None, requested: list[Any] | None, stream: bool) -> pa.Array | pa.RecordBatchReader | None:
        if requested is None:
            return None
        array = pa.array(requested, pa.int64() if by == "_by" else pa.string())
        if not stream:
            return array
        halves = [pa.record_batch([a], ["k"]) for a in (array[:2], array[2:], array[:1])]
        return pa.RecordBatchReader.from_batches(halves[0].schema, halves)

    @rule(hour=st.integers(-1, 10))
    def delete_up_to(self, hour: int) -> None:
        last = START + timedelta(hours=hour)
        gone = {k for k, r in self.model.items() if r["at"] is not None and r["at"] <= last}
        assert self.relation.delete_up_to("at", int(last.timestamp() * 1_000_000)) == len(gone)
        self.model = {k: r for k, r in self.model.items() if k not in gone}

    @rule()
    def commit(self) -> None:
        self.at = self.state.prepare()
        self.state.committed()
        if self.at is not None:
            stored = read_manifest(FileRange(*list(self.at.values())[:4]), self.state.files.read)
            assert stored == self.state.manifest
            self.chain = max(self.chain, len(stored.chain))
        self.saved = dict(self.model)
        self.state.begin()

    @rule()
    def let_merge(self) -> None:
        self.state.merging.wait()
        self.commit()

    @rule(prepared=st.booleans())
    def undo(self, prepared: bool) -> None:
        if prepared:
            self.state.prepare()
        self.state.rollback()
        self.model = dict(self.saved)
        self.state.begin()

    @precondition(lambda self: self.at is not None)
    @rule()
    def restart(self) -> None:
        self.state.close()
        self.model = dict(self.saved)
        self.open()

    def fill_database(self) -> None:
        """The rows as they are now (`new`), and as they were after the last epoch."""
        self.database.execute("DELETE FROM r")
        both = [(r, True) for r in self.model.values()] + [(r, False) for r in self.saved.values()]
        values = [
            [r["at"] and int(r["at"].timestamp() * 1_000_000), r[KEY], r["_by"], r["_too"], new] for r, new in both
        ]
        if values:
            self.database.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?)", values)

    def asked(self, where: str, *given: Any) -> list[str]:
        return [r[0] for r in self.database.execute(f"SELECT {KEY} FROM r WHERE {where} ORDER BY 1", given).fetchall()]

    @rule(requested=st.lists(keys, max_size=9), groups=st.lists(st.integers(-1, 4), max_size=4), low=hours, high=hours)
    def finds_what_duckdb_finds(
        self, requested: list[str], groups: list[int], low: int | None, high: int | None
    ) -> None:
        self.fill_database()
        texts, numbers = pa.array(requested, pa.string()), pa.array(groups, pa.int64())
        assert keys_in(self.relation.look_up(KEY, texts)) == self.asked(
            f"new AND list_contains(?::VARCHAR[], {KEY})", requested
        )
        assert keys_in(self.relation.look_up("_by", numbers)) == self.asked(
            "new AND list_contains(?::BIGINT[], _by)", groups
        )
        before = keys_in(self.relation.look_up_before("_by", numbers))
        assert before == self.asked("NOT new AND list_contains(?::BIGINT[], _by)", groups)
        first, last = micros(low), micros(high)
        ranged = self.asked("new AND moment > coalesce(?, moment - 1) AND moment <= coalesce(?, moment)", first, last)
        assert keys_in(self.relation.look_up_range("at", first, last)) == ranged
        for group in {*groups, 1}:
            inside = "coalesce(moment >= ?::BIGINT, ?::BIGINT IS NULL) AND coalesce(moment <= ?::BIGINT, true)"
            spanned = self.asked(f"new AND _by = ? AND {inside}", group, first, first, last)
            assert keys_in(self.relation.look_up_span("_by", group, "at", first, last)) == spanned

    @rule(group=st.integers(0, 3), hour=st.integers(-1, 10), count=st.integers(1, 5), after=st.booleans())
    def finds_the_place_that_duckdb_finds(self, group: int, hour: int, count: int, after: bool) -> None:
        self.fill_database()
        side, order = (">", "ASC") if after else ("<", "DESC")
        query = (
            f"SELECT moment FROM r WHERE new AND _by = ? AND moment {side} ? ORDER BY moment {order} LIMIT 1 OFFSET ?"
        )
        found = self.database.execute(query, [group, micros(hour), count - 1]).fetchone()
        place = self.relation.place("_by", group, "at", int(micros(hour) or 0), count, after)
        assert place == (found and found[0])

    @invariant()
    def finds_what_the_model_has(self) -> None:
        every = list(self.model.values())
        assert self.relation.count == len(every)
        same(self.relation.look_up(None, None), every)
        same(self.relation.look_up("_by", pa.array([1, 2, 2, 9])), [r for r in every if r["_by"] in (1, 2)])
        same(self.relation.look_up("_too", pa.array([2**63 - 1])), [r for r in every if r["_too"] == 2**63 - 1])
        asked = ["a", "3", "nobody", "a"]
        same(self.relation.look_up(KEY, pa.array(asked)), [r for r in every if r[KEY] in asked])

    @invariant()
    def finds_ranges(self) -> None:
        timed = [r for r in self.model.values() if r["at"] is not None]
        low, high = (START + timedelta(hours=n) for n in (2, 6))
        first, last = (int(t.timestamp() * 1_000_000) for t in (low, high))
        same(self.relation.look_up_range("at", first, last), [r for r in timed if low < r["at"] <= high])
        same(self.relation.look_up_range("at", None, None), timed)
        own = [r for r in self.model.values() if r["_by"] == 1]
        inside = [r for r in own if r["at"] is not None and low <= r["at"] <= high]
        same(self.relation.look_up_span("_by", 1, "at", first, last), inside)
        below = [r for r in own if r["at"] is None or r["at"] <= high]
        same(self.relation.look_up_span("_by", 1, "at", None, last), below)
        times = sorted(int(r["at"].timestamp() * 1_000_000) for r in own if r["at"] is not None)
        before, after = [t for t in times if t < last], [t for t in times if t > last]
        for count in (1, 3):
            assert self.relation.place("_by", 1, "at", last, count, False) == (
                before[-count] if len(before) >= count else None
            )
            assert self.relation.place("_by", 1, "at", last, count, True) == (
                after[count - 1] if len(after) >= count else None
            )

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.state.close()
            self.database.close()
            for found in self.patches:
                found.stop()
            self.folder.cleanup()


class ArrangementsElsewhere(Arrangements):
    """The same with state on another file system: each start knows nothing of it, and fetches blocks of a few rows."""

    def open(self) -> None:
        if not hasattr(self, "starts"):
            self.starts = 0
            self.patches += [patch.object(module, "BLOCK", 128) for module in (sparse_copy, files)]
            for found in self.patches[-2:]:
                found.start()
        self.starts += 1
        folder = Path(self.folder.name)
        remote = Remote(f"file://{folder}/elsewhere", "one")
        self.state = State(folder / str(self.starts), self.at, run_bytes=400, retain=0.0, remote=remote, copies=3_000)
        self.state.arrange([ARRANGED], frozenset({"R"} if self.at else ()))
        self.state.begin()
        self.relation = self.state.arrangements["R"]


TestArrangements = pytest.mark.deep(Arrangements.TestCase)
TestArrangementsElsewhere = pytest.mark.deep(ArrangementsElsewhere.TestCase)
TestArrangementsElsewhere.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
TestArrangements.settings = settings(max_examples=examples(120), stateful_step_count=25, deadline=None)
