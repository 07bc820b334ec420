"""A cluster of two brokers whose partitions move and whose leaders are killed while a run reads and sends."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.conftest import Bus
from tests.kafka.reading import committed
from tests.kafka.sender import Sender
from tests.kafka.test_kills import PROJECT, SCRIPT
from tests.run.processes import drain, first_line, linux, run_once, start_run, wait_for
from tools.servers.kafka import NoPrograms
from tools.servers.kafka_cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.nightly, linux]

PARTITIONS = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    try:
        made = Cluster(tmp_path / "cluster")
    except NoPrograms as error:
        pytest.skip(str(error))
    try:
        yield made.start()
    finally:
        made.stop()


def leaders(bus: Bus, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Of each partition who leads it, and who has all of it."""
    found = bus.admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {n: (p.leader, sorted(p.isrs)) for n, p in found.items()}


def test_partitions_move_and_leaders_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    bus = Bus(cluster)
    bus.topic(PARTITIONS, "Orders", replicas=2)
    bus.topic(1, "Totals", replicas=2)
    script = tmp_path / "s.sqrl"
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(PROJECT.format(store=f"sqlite:///{tmp_path}/s.db", address=bus.address))
    sender = Sender(bus, "Orders", lambda n: ({"n": n, "city": f"c{n % 7}", "amount": n % 13}, n % PARTITIONS))
    sender.start()
    process = start_run(script, "--yes")
    try:
        first_line(process)
        lines = drain(process)
        reads_on(process, lines)
        first, second = cluster.brokers
        for one, other in ((first, second), (second, first)):
            cluster.move("Orders", {n: [one] for n in range(PARTITIONS)})
            reads_on(process, lines)
            cluster.move("Orders", {n: [other, one] for n in range(PARTITIONS)})
            cluster.move("Totals", {0: [other, one]})
            wait_for(
                lambda: all(len(having) == 2 for _, having in leaders(bus, "Orders").values()),
                "replicas lag behind",
                60,
            )
            cluster.brokers[other].stop(signal.SIGKILL)
            wait_for(lambda: {leads for leads, _ in leaders(bus, "Orders").values()} == {one}, "nobody leads", 60)  # noqa: B023
            reads_on(process, lines)
            cluster.brokers[other].start()
            for topic in ("Orders", "Totals", "__consumer_offsets", "__transaction_state"):
                wait_for(lambda: all(len(h) == 2 for _, h in leaders(bus, topic).values()), f"{topic} lags behind", 60)  # noqa: B023
            reads_on(process, lines)
    finally:
        sender.stopped = True
        process.terminate()
        process.wait(60)
    sender.join(90)
    run_once(script)
    assert sum(sender.taken.values()) == sender.number > 1_000
    events = committed(bus, "Totals")
    assert [seq for _, _, seq in events] == list(range(1, len(events) + 1)), "each change once, in order"
    counts, amounts = Counter[str](), Counter[str]()
    for order in sender.seen:
        counts[order["city"]] += 1
        amounts[order["city"]] += order["amount"]
    last = {key: (value["n"], value["amount"]) for key, value, _ in events}
    assert last == {k: (counts[k], amounts[k]) for k in counts}


def reads_on(process: subprocess.Popen[str], lines: list[str]) -> None:
    """Returns when the run has taken orders in five epochs more."""

    def epochs() -> int:
        assert process.poll() is None, ("the run goes on", lines, process.stderr and process.stderr.read())
        return sum("Orders" in line for line in lines)

    before = epochs()
    wait_for(lambda: epochs() >= before + 5, f"no more epochs: {lines[-5:]}", 120)
