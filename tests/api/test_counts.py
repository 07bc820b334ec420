"""Counters of the API per view and template: over all processes, in the metrics, and in the store after an epoch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from belvedere.api.http.metrics import AllCounts, Metrics
from belvedere.api.serving.processes import start_api
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import DOCUMENT, Measured
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE T (k INT, a INT, PRIMARY KEY (k));
Sums := SELECT a, count(*) AS n FROM T GROUP BY a;
T.sums := JOIN Sums s ON s.a = _.a;
By(x INT) := SELECT k FROM T WHERE a = :x;
"""


def test_endpoints_are_counted_over_all_processes() -> None:
    alone = Metrics(endpoints=("A", 'B"\\'))
    alone.read(("A", "none"), 0.25)
    alone.read(("A", 'B"\\'), 0.5)
    text = alone.text(None, None)
    assert 'belvedere_endpoint_requests_total{endpoint="A"} 2\n' in text
    assert 'belvedere_endpoint_seconds_total{endpoint="B\\"\\\\"} 0.5\n' in text
    assert "belvedere_endpoint" not in Metrics(endpoints=("A",)).text(None, None)
    assert AllCounts(None, 2, ("A",)).requests() == {"A": (0, 0.0)}


@pytest.mark.spark
def test_requests_are_kept_with_the_epoch(spark: object, tmp_path: Path) -> None:
    url, catalog = f"sqlite:///{tmp_path}/s.db", compile_script(SCRIPT).catalog
    bench = Workbench.of_catalog(catalog, url, spark=spark)
    bench.insert("T", [{"k": k, "a": k % 3} for k in range(9)])
    bench.clock("2024-01-01 00:00:00")
    bench.step()
    bench.insert("T", [{"k": 10, "a": 1}])
    bench.clock("2024-01-01 00:00:01")
    bench.step()
    with start_api(catalog, url, processes=2) as api:
        api.wait_until_listening()
        asked = [
            "{ sums { n } }",
            "{ t { k sums { n } } }",
            "{ by(x: 1) { k } }",
            "{ tPage { nodes { sums { n } } } }",
            "{ nothing }",
        ]
        for query in asked:
            request = Request(
                f"{api.url}/graphql", json.dumps({"query": query}).encode(), {"content-type": "application/json"}
            )
            with urlopen(request) as answer:
                assert ("errors" in json.load(answer)) == (query == "{ nothing }"), query
        end = time.monotonic() + 5
        while (found := {n: count for n, (count, _) in api.requests().items()}) != {"By": 1, "Sums": 3, "T": 2}:
            assert time.monotonic() < end, found
        bench.engine.meter.requests = api.requests
        bench.insert("T", [{"k": 11, "a": 1}])
        bench.clock("2024-01-01 00:00:03")
        bench.step()
    row = bench.store.last_epoch()
    bench.close()
    assert row is not None
    measured = Measured.of_document(row.extra[DOCUMENT])
    assert {n: count > 0 for n, (count, _) in measured.requests.items()} == {"By": True, "Sums": True, "T": True}
    assert (measured.latency("Sums") or 0) > 0
