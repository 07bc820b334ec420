"""Random walks over a cluster: each message of a topic is read once, in order, or the run ends and its hint leads on.

The model is a cluster of which topics come, go, are made anew, lose their oldest messages, get partitions, and are not listed for a while
(a right is taken away); and runs that are killed before their commit. No broker is started: the feed asks the model.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from belvedere.catalog import Input
from belvedere.compiler import compile_script
from belvedere.connectors.feeds import wanted_of
from belvedere.connectors.kafka import feed
from belvedere.connectors.kafka.topics import Place, Topic
from belvedere.errors import BelvedereError
from belvedere.settings import ProjectSettings, load_project

NAMES = st.sampled_from(["pa", "pb", "pc"])
PROJECT = """
[sources.bus]
connector = "kafka"
servers = "x:1"
max_rows = 5
{}
[sources.bus.tables.T]
topic = "/p./"
columns = {{ id = "BIGINT" }}
"""


class Cluster:
    """Topics by name, each with an identity and the first and last offsets of its partitions."""

    def __init__(self) -> None:
        self.made = 0
        self.known: dict[str, tuple[str, list[list[int]]]] = {}
        self.hidden: set[str] = set()

    def make(self, name: str) -> None:
        self.made += 1
        self.known[name] = (f"id{self.made}", [[0, 0]])

    def topics(self, wanted: str) -> list[Topic]:
        return [Topic(n, i, tuple(range(len(p)))) for n, (i, p) in sorted(self.known.items()) if n not in self.hidden]

    def ends(self, places: Any) -> dict[Place, int]:
        return {(t, p): self.known[t][1][p][1] for t, p in places}

    def starts(self, places: Any) -> dict[Place, int]:
        return {(t, p): self.known[t][1][p][0] for t, p in places}


@cache
def configured(more: str) -> tuple[ProjectSettings, Input]:
    """The project with a line more, and its input."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "belvedere.toml").write_text(PROJECT.format(more))
        project = load_project(Path(folder))
        return project, compile_script("IMPORT bus.T;", path=Path(folder) / "s.sqrl", project=project).catalog.inputs["T"]


class Walk(RuleBasedStateMachine):
    """A cluster, what happens to it, and what runs have read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.make("pa")
        self.offset: dict[str, Any] = {}
        self.read: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.gone: dict[tuple[str, int], int] = defaultdict(int)
        self.configure("")

    def configure(self, more: str) -> None:
        self.project, self.input = configured(more)

    @rule(name=NAMES, count=st.integers(1, 8), partition=st.integers(0, 2))
    def send(self, name: str, count: int, partition: int) -> None:
        if name in self.cluster.known:
            partitions = self.cluster.known[name][1]
            partitions[partition % len(partitions)][1] += count

    @rule(name=NAMES)
    def make_a_topic(self, name: str) -> None:
        if name not in self.cluster.known:
            self.cluster.make(name)

    @rule(name=NAMES)
    def make_a_topic_anew(self, name: str) -> None:
        self.cluster.make(name)

    @rule(name=NAMES)
    def delete_a_topic(self, name: str) -> None:
        self.cluster.known.pop(name, None)

    @rule(name=NAMES)
    def add_a_partition(self, name: str) -> None:
        if name in self.cluster.known:
            self.cluster.known[name][1].append([0, 0])

    @rule(name=NAMES)
    def hide_a_topic(self, name: str) -> None:
        self.cluster.hidden.add(name)

    @rule(name=NAMES)
    def list_a_topic(self, name: str) -> None:
        self.cluster.hidden.discard(name)

    @rule(name=NAMES)
    def remove_old_messages(self, name: str) -> None:
        if name in self.cluster.known:
            id_, partitions = self.cluster.known[name]
            for number, bounds in enumerate(partitions):
                bounds[0] = (bounds[0] + bounds[1] + 1) // 2
                self.gone[id_, number] = max(self.gone[id_, number], bounds[0])

    @rule(is_killed=st.booleans())
    def follow(self, is_killed: bool) -> None:
        """A run, to its end; what it reads and commits is noted."""
        try:
            self.run(is_killed)
        except BelvedereError as error:
            told = error.diagnostics[0]
            if told.code != "B6203" or 'on_lost = "skip"' not in str(told.hint):
                raise
            self.configure('on_lost = "skip"')
            self.run(is_killed)
            self.configure("")
        if not is_killed:
            self.agree()

    def run(self, is_killed: bool) -> None:
        opened = feed.KafkaFeed(wanted_of(self.input, self.project, json.loads(json.dumps(self.offset))))
        now = datetime.now(UTC)
        while (span := opened.look(now, once=True)) is not None and not is_killed:
            for range_ in span.content:
                id_ = self.cluster.known[range_.topic][0]
                self.read[id_, range_.partition] += range(range_.start, range_.end)
            opened.committed(span)
            self.offset = dict(span.end)

    def agree(self) -> None:
        for topic in self.cluster.topics(""):
            for number, (first, end) in enumerate(self.cluster.known[topic.name][1]):
                found = self.read[topic.id, number]
                assert found == sorted(set(found)), "once, in order"
                assert set(range(first, end)) <= set(found), "all that are there"
                assert set(range(end)) - set(found) <= set(range(self.gone[topic.id, number])), "the others were removed before"


def walks(monkeypatch: pytest.MonkeyPatch, examples: int, steps: int) -> None:
    cluster: dict[str, Cluster] = {}

    class Watched(Walk):
        def __init__(self) -> None:
            super().__init__()
            cluster["now"] = self.cluster

    monkeypatch.setattr(feed, "Cluster", lambda *_: cluster["now"])
    monkeypatch.setattr(feed, "TOPICS_SECONDS", 0.0)
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(Watched, settings=chosen)


def test_short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    walks(monkeypatch, 25, 30)


@pytest.mark.nightly
def test_long_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    walks(monkeypatch, 1_000, 60)
