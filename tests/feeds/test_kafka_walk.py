"""Random walks over a cluster: each message of a topic is read once, in order, and a table has the newest of each key.

The model is a cluster whose topics come, go, are made anew, get partitions, are compacted, lose their oldest messages,
and are not listed for a while (a right is taken away); transactions that stay open, are committed or aborted; and runs
that are killed before their commit, or go on all the time. No broker is started: the feeds ask the model. Where a run
ends with a diagnostic, its hint is carried out.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from belvedere.connectors.connector import Feed
from belvedere.connectors.kafka import feed
from belvedere.errors import BelvedereError
from tests.feeds.broker import KEPT, Broker, Record
from tests.feeds.mirror import Mirror
from tests.feeds.walking import walks

NAMES = st.sampled_from(["pa", "pb", "pc"])
KEYS = st.integers(0, 4)
SCRIPT = "IMPORT bus.S;\nIMPORT bus.K;"
PROJECT = """
[sources.bus]
connector = "kafka"
servers = "x:1"
max_rows = 5
{}
[sources.bus.tables.S]
topic = "/p./"
columns = {{ id = "STRING", topic = "STRING", part = "INT", number = "BIGINT" }}
metadata = {{ id = "key", topic = "topic", part = "partition", number = "offset" }}
[sources.bus.tables.K]
topic = "/p./"
columns = {{ id = "STRING", v = "BIGINT" }}
primary_key = ["id"]
"""
SKIP = 'on_lost = "skip"'
CURRENT: dict[str, Broker] = {}
"""The cluster that feeds ask."""


class Follower(Mirror):
    """A store with a stream and a table of the same topics."""

    def __init__(self, folder: Path, broker: Broker):
        super().__init__(folder, SCRIPT, PROJECT.format(""))
        self.broker = broker
        self.read: dict[tuple[str, int], list[int]] = defaultdict(list)

    def _apply(self, table: Any, found: Any) -> None:
        rows: Any = found.rows if isinstance(found.rows, pa.Table) else found.rows.table
        assert not found.rejected or table.id == "S", found.rejected
        if table.id == "K":
            super()._apply(table, found)
            return
        for row in rows.to_pylist():
            self.read[self.broker.ids[row["topic"]], row["part"]].append(row["number"])

    @property
    def position(self) -> dict[tuple[str, int], int]:
        """How far the table is read: by the identity of a topic and a partition."""
        topics = self.offsets.get("K", {}).get("topics", {})
        return {(t["id"], int(p)): o for t in topics.values() for p, o in t["partitions"].items()}


class World:
    """A cluster, and what is true of its tables."""

    def __init__(self, folder: Path):
        self.broker = Broker()
        self.mirror = Follower(folder, self.broker)
        self.feeds: dict[str, Feed] | None = None
        self.number = 0
        self.final: dict[tuple[str, int], int] = defaultdict(int)
        self.truth: dict[str, dict[str, int | None]] = defaultdict(dict)
        """By the identity of a topic the value of each key, as far as transactions are over."""
        self.unknown: dict[str, set[str]] = defaultdict(set)
        """Keys of which messages have gone unread, which was told."""
        self.missed: dict[str, set[str]] = defaultdict(set)
        """Keys whose deletion was compacted away unread."""

    def settle(self) -> None:
        """Heed the messages that readers see since the last time: those before the first transaction that is open."""
        for name, logs in self.broker.logs.items():
            for number, log in enumerate(logs):
                place = self.broker.ids[name], number
                for offset in range(self.final[place], log.stable):
                    if (record := log.records.get(offset)) is not None and record.state == "committed":
                        self.sent(record)
                self.final[place] = log.stable

    def sent(self, record: Record) -> None:
        assert record.key_ is not None
        id_, key = self.broker.ids[record.place[0]], record.key_.decode()
        self.truth[id_][key] = None if record.value_ is None else json.loads(record.value_)["v"]
        self.unknown[id_].discard(key)
        self.missed[id_].discard(key)

    def unread(self, records: list[Record]) -> Iterator[tuple[str, Record]]:
        for record in records:
            id_ = self.broker.ids[record.place[0]]
            if record.state == "committed" and record.number >= self.mirror.position.get((id_, record.place[1]), 0):
                yield id_, record

    def once(self, commits: bool = True) -> str | None:
        return self.mirror.once(commits) if self.feeds is None else self.mirror.go_on(self.feeds)

    def end_run(self) -> None:
        self.feeds = None

    def follow(self, commits: bool = True) -> None:
        if not commits:
            self.end_run()
        said = self.once(commits)
        if said is not None:
            assert said.startswith("B6203") and SKIP in said, said  # noqa: PT018
            self.end_run()
            self.mirror.project = PROJECT.format(SKIP)
            again = self.mirror.once(commits)
            assert again is None, again
            self.mirror.project = PROJECT.format("")
        if commits:
            self.agree()

    def agree(self) -> None:
        self.settle()
        reported = {n.split('"')[1] for n in self.mirror.notices if "is compacted" in n}
        for topic in self.broker.topics(""):
            for number, log in enumerate(self.broker.logs[topic.name]):
                found, there = (
                    self.mirror.read[topic.id, number],
                    {n: r for n, r in log.records.items() if n < log.stable},
                )
                assert found == sorted(set(found)), "once, in order"
                assert {n for n, r in there.items() if r.state == "committed" and r.value_ is not None} <= set(found), (
                    "all"
                )
                assert not {n for n, r in there.items() if r.state in ("aborted", "marker")} & set(found), (
                    "nothing that was aborted"
                )
            stale = self.missed[topic.id] if topic.name in reported else set()
            kept = self.mirror.rows.get("K", {})
            for key, value in self.truth[topic.id].items():
                if key not in self.unknown[topic.id] | stale:
                    assert kept.get((key,), {}).get("v") == value, (topic.name, key)
        self.mirror.notices.clear()
        for name in reported & self.broker.ids.keys():
            self.unknown[self.broker.ids[name]] |= self.missed.pop(self.broker.ids[name], set())


class Walk(RuleBasedStateMachine):
    """A part of the walk."""

    def __init__(self, world: World):
        super().__init__()
        self.world, self.broker = world, world.broker
        CURRENT["broker"] = world.broker

    @rule(name=NAMES, key=KEYS, is_deletion=st.booleans(), is_open=st.booleans())
    def send(self, name: str, key: int, is_deletion: bool, is_open: bool) -> None:
        if name in self.broker.logs:
            self.world.number += 1
            text, place = f"{name}-{key}", (name, key % min(2, len(self.broker.logs[name])))
            if any(p != place[1] and self._has(name, p, text) for p in range(len(self.broker.logs[name]))):
                place = (name, next(p for p in range(len(self.broker.logs[name])) if self._has(name, p, text)))
            value = None if is_deletion else json.dumps({"id": text, "v": self.world.number}).encode()
            self.broker.send(place, text.encode(), value, "open" if is_open else "committed")

    def _has(self, name: str, partition: int, key: str) -> bool:
        return any(r.key_ == key.encode() for r in self.broker.logs[name][partition].records.values())

    @rule(commits=st.booleans())
    def end_the_transaction(self, commits: bool) -> None:
        self.broker.end_transaction("committed" if commits else "aborted")

    @rule(name=NAMES)
    def make_a_topic(self, name: str) -> None:
        if name not in self.broker.logs:
            self.broker.make(name)

    @rule(name=NAMES)
    def make_a_topic_anew(self, name: str) -> None:
        self.broker.delete(name)
        self.broker.make(name)

    @rule(name=NAMES)
    def delete_a_topic(self, name: str) -> None:
        self.broker.delete(name)

    @rule(name=NAMES)
    def add_a_partition(self, name: str) -> None:
        if name in self.broker.logs:
            self.broker.logs[name].append(type(self.broker.logs[name][0])())

    @rule(name=NAMES)
    def hide_a_topic(self, name: str) -> None:
        self.broker.hidden.add(name)

    @rule(name=NAMES)
    def list_a_topic(self, name: str) -> None:
        self.broker.hidden.discard(name)

    @rule(name=NAMES)
    def remove_old_messages(self, name: str) -> None:
        if name in self.broker.logs:
            self.world.settle()
            for id_, record in self.world.unread(self.broker.remove_old(name)):
                self.world.unknown[id_].add((record.key_ or b"").decode())

    @rule(name=NAMES)
    def compact(self, name: str) -> None:
        if name in self.broker.logs:
            self.world.settle()
            for id_, record in self.world.unread(self.broker.compact(name)):
                key = (record.key_ or b"").decode()
                if record.value_ is None and self.world.truth[id_].get(key) is None:
                    self.world.missed[id_].add(key)

    @rule(seconds=st.sampled_from([1, 10, 70]))
    def time_passes(self, seconds: int) -> None:
        self.broker.now += seconds * 1_000

    @rule()
    def a_run_goes_on_from_here(self) -> None:
        self.world.feeds = self.world.mirror.opened()

    @rule()
    def the_run_ends(self) -> None:
        self.world.end_run()

    @rule()
    def run_is_killed_before_its_commit(self) -> None:
        self.world.follow(commits=False)

    @rule()
    def follow(self) -> None:
        self.world.follow()

    def teardown(self) -> None:
        self.world.follow()


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feeds ask the model, which has a clock of its own."""
    monkeypatch.setattr(feed, "Cluster", lambda *_: CURRENT["broker"])
    monkeypatch.setattr(feed, "RangeReader", lambda *_: CURRENT["broker"])
    monkeypatch.setattr(feed, "TOPICS_SECONDS", 0.0)
    monkeypatch.setattr(feed, "KEPT_SECONDS", 0.0)
    clock = SimpleNamespace(time=lambda: CURRENT["broker"].now / 1_000, monotonic=lambda: CURRENT["broker"].now / 1_000)
    monkeypatch.setattr(feed, "time", clock)


@pytest.fixture
def made(tmp_path: Path) -> World:
    """A cluster and a store."""
    return Walk(World(tmp_path)).world


def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, examples: int, steps: int) -> None:
    walks(lambda: Walk(World(tmp_path)), number, examples, steps, monkeypatch)


def test_short_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk(tmp_path, monkeypatch, 1, 12, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(int(os.environ.get("WALKS_OF_KAFKA", "20"))))
def test_long_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    walk(tmp_path, monkeypatch, number + 100, 3, 2_000)


def test_deletions_that_are_gone_are_told(made: World) -> None:
    """Also where the run was there all the time, but the topic was not listed."""
    made.broker.make("pa")
    made.broker.make("pb")
    walk = Walk(made)
    for key in (0, 1):
        walk.send("pa", key, False, False)
    made.feeds = made.mirror.opened()
    made.follow()
    made.broker.hidden.add("pa")
    walk.send("pa", 0, True, False)
    for _ in range(3):
        made.broker.now += KEPT
        walk.send("pb", 3, False, False)
        made.follow()
    walk.compact("pa")
    walk.send("pa", 2, False, False)
    made.broker.hidden.clear()
    assert made.once() is None
    assert sum('topic "pa" is compacted' in n for n in made.mirror.notices) == 1
    assert ("pa-0",) in made.mirror.rows["K"]


def test_a_topic_that_comes_after_a_start_at_the_latest_is_read_whole(made: World) -> None:
    made.mirror.project = PROJECT.format('starting = "latest"')
    assert made.once() is None
    made.broker.make("pa")
    Walk(made).send("pa", 0, False, False)
    assert made.once() is None
    assert made.mirror.read["id1", 0] == [0]


def test_messages_that_go_between_a_look_and_its_reading(made: World) -> None:
    made.broker.make("pa")
    walk = Walk(made)
    for key in range(4):
        walk.send("pa", key, False, False)
    for more in ("", SKIP):
        made.mirror.project = PROJECT.format(more)
        opened = made.mirror.open()["S"]
        span = opened.look(datetime.now(UTC), True)
        assert span is not None
        made.broker.remove_old("pa")
        if not more:
            with pytest.raises(BelvedereError, match="B6203"):
                opened.read(None, span)  # type: ignore[arg-type]
            made.broker.logs["pa"][0].first = 0
            continue
        found = opened.read(None, span)  # type: ignore[arg-type]
        assert cast(pa.Table, found.rows)["number"].to_pylist() == [2, 3]
        assert "pa[0] continues at offset 2" in found.notices[0]
