"""Subscribers of `belvedere run`, which ends and is started again: reference clients go on where they were.

By day the run is in this process and is stopped; at night it is a process, and killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.node_clients import NodeClient
from tests.run.in_process import HERE, RunHere, running
from tests.run.processes import RunApart, kill, linux

pytestmark = [pytest.mark.spark, pytest.mark.node]
SCRIPT = """
IMPORT shop.Orders KEEP 30 DAYS;
CREATE SUBSCRIPTION Large ON ADD AS SELECT item, amount FROM Orders WHERE amount > 10;
Totals := SELECT item, sum(amount) AS total FROM Orders GROUP BY item;
"""
PROJECT = """
[sources.shop]
connector = "files"
path = "data"

[sources.shop.tables.Orders]
columns = { item = "STRING", amount = "BIGINT" }

[spark]
trigger = "50 ms"
memory = "1g"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "data" / "Orders").mkdir(parents=True)
    (tmp_path / "belvedere.toml").write_text(PROJECT)
    path = tmp_path / "shop.sqrl"
    path.write_text(SCRIPT)
    return path


def order(script: Path, item: str, amount: int) -> None:
    """One more file, renamed into place."""
    folder = script.parent / "data" / "Orders"
    scratch = script.parent / "scratch"
    scratch.write_text(json.dumps({"item": item, "amount": amount}) + "\n")
    os.replace(scratch, folder / f"{len(list(folder.iterdir())):06}.json")


def end(run: RunHere | RunApart) -> None:
    """The end of a run of which its subscribers hear nothing before."""
    if isinstance(run, RunApart):
        kill(run.process, run.url)
    else:
        assert run.stop() == 0


@linux
@pytest.mark.parametrize("how", HERE)
def test_subscribers_go_on_over_runs(spark: Any, script: Path, subscribe: Callable[..., NodeClient], how: str) -> None:
    with running(how, spark, script) as run:
        url = run.url
        order(script, "A", 20)
        plain = subscribe("eventsource", f"{url}/streams/Large/events?after=0")
        query = "subscription($after: Long) { large(after: $after) { item amount _seq } }"
        events = subscribe("graphql-ws", f"{url}/graphql", query, variables={"after": 0}, resume="after", retries=1000)
        live = "subscription { totals(order: [{item: ASC}]) { item total } }"
        totals = subscribe("graphql-sse", f"{url}/graphql", live, retries=1000)

        def large(n: int, item: str, amount: int) -> None:
            number, row = plain.next(120)
            assert (number, row["item"], row["amount"]) == (str(n), item, amount)
            assert events.next(120) == {"data": {"large": {"item": item, "amount": amount, "_seq": n}}}

        def total(*rows: tuple[str, int]) -> None:
            requested: Any = [{"item": i, "total": t} for i, t in rows]
            while (found := totals.next(120)["data"]["totals"]) != requested:
                assert len(found) <= len(requested)

        large(1, "A", 20)
        total(("A", 20))
        end(run)
    with running(how, spark, script, "--port", url.rpartition(":")[2]) as run:
        order(script, "B", 30)
        order(script, "A", 5)
        order(script, "A", 40)
        large(2, "B", 30)
        large(3, "A", 40)
        total(("A", 65), ("B", 30))
        assert plain.is_quiet()
        assert events.is_quiet()
        assert run.stop() == 0
