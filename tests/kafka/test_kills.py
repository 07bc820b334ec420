"""kill -9 of the run and of the broker at random moments: every message counts once, and every change is sent once."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka.conftest import Bus
from tests.kafka.reading import committed
from tests.kafka.sender import Sender
from tests.run.processes import kill, linux, run_once, started

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.nightly, linux]

SCRIPT = """
IMPORT bus.Orders;
Totals := SELECT city, sum(amount) AS amount, count(*) AS n FROM Orders GROUP BY city;
EXPORT Totals TO bus.Totals;
"""
PROJECT = """
store = "{store}"
[sources.bus]
connector = "kafka"
servers = "{address}"
max_rows = 2000
[sources.bus.tables.Orders]
columns = {{ n = "BIGINT", city = "STRING", amount = "BIGINT" }}
[sinks.bus]
connector = "kafka"
servers = "{address}"
"""


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_run_and_broker_are_killed(own_bus: Bus, tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    own_bus.topic(3, "Orders")
    own_bus.topic(1, "Totals")
    script = tmp_path / "s.sqrl"
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(PROJECT.format(store=url, address=own_bus.address))
    sender = Sender(own_bus, "Orders", lambda n: ({"n": n, "city": f"c{n % 7}", "amount": n % 13}, n % 3))
    chance = random.Random(store)
    sender.start()
    process: subprocess.Popen[str] | None = None
    address = ""
    for _ in range(8):
        if process is None:
            process, address = started(script, "Orders")
        time.sleep(chance.uniform(0, 4))
        what = chance.choice(["run", "broker", "both"])
        if what != "broker":
            kill(process, address)
            process = None
        if what != "run":
            own_bus.broker.stop(signal.SIGKILL)
            time.sleep(chance.uniform(0, 3))
            own_bus.broker.start()
    if process is not None:
        kill(process, address)
    sender.stopped = True
    sender.join(90)
    run_once(script)
    events = committed(own_bus, "Totals")
    assert [seq for _, _, seq in events] == list(range(1, len(events) + 1)), "each change once, in order"
    last = {key: value for key, value, _ in events}
    assert sum(sender.taken.values()) == sender.number
    counts, amounts = Counter[str](), Counter[str]()
    for order in sender.seen:
        counts[order["city"]] += 1
        amounts[order["city"]] += order["amount"]
    assert {k: (v["n"], v["amount"]) for k, v in last.items()} == {k: (counts[k], amounts[k]) for k in counts}
