"""Executors of a standalone cluster read, judge and stamp files: the store is that of one process.

That is also so when a worker and the driver die in an epoch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.run_records import REJECTED
from belvedere.store import open_reader, open_store
from tests.cluster.standalone import Cluster
from tests.cluster.test_standalone import Run
from tests.run.processes import kill, linux, start_run

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.spark, linux]

ROWS, FILES, EPOCHS = 60_000, 3, 4
START = datetime(2026, 1, 1, tzinfo=UTC)
SCRIPT = """
IMPORT in.Readings WATERMARK FOR at AS at - INTERVAL '5' SECOND LATE DROP;
Late := SELECT id FROM LATE(Readings);
Newest := SELECT name, count(*) AS many, max(id) AS top, sum(price) AS total FROM Readings GROUP BY name;
Copy := SELECT id, _uid AS number FROM Readings WHERE id % 100 = 0;
"""
PROJECT = """
[sources.in]
connector = "files"
path = "{data}"
max_files = {files}
[sources.in.tables.Readings]
columns = {{ id = "BIGINT NOT NULL", at = "TIMESTAMP", name = "STRING", price = "DECIMAL(6, 2)" }}
[spark]
trigger = "50 ms"
memory = "1g"
{spark}
"""
ON_CLUSTER = 'master = "{master}"\n"spark.executor.memory" = "700m"'


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as found:
        yield found


def write(folder: Path) -> None:
    chosen = random.Random(3)
    folder.mkdir(parents=True)
    for number in range(FILES * EPOCHS):
        lines = ["id,at,name,price"]
        for n in range(number * ROWS, (number + 1) * ROWS):
            late = chosen.randrange(60) if chosen.random() < 0.001 else 0
            price = "x" if chosen.random() < 0.0005 else f"{n % 999}.5"
            at = START + timedelta(milliseconds=10 * n, seconds=-late)
            lines.append(f"{n},{at:%Y-%m-%dT%H:%M:%S.%f}Z,{'abc' * 20}{n % 700},{price}")
        (folder / f"{number:02}.csv").write_text("\n".join(lines) + "\n")


def project(folder: Path, data: Path, spark: str) -> Path:
    folder.mkdir()
    (folder / "belvedere.toml").write_text(PROJECT.format(data=data, spark=spark, files=FILES))
    script = folder / "s.sqrl"
    script.write_text(SCRIPT)
    return script


def stored(url: str) -> dict[str, Any]:
    store, reader = open_store(url), open_reader(url)
    try:
        tables = {t.name: t for t in store.tables()}
        found: dict[str, Any] = {}
        for name in ("Late", "Newest", "Copy", REJECTED.name):
            rows = reader.rows(tables[name]).to_pylist()
            hidden = {"_ingest_time", "rejected_at", "_key"} if name in ("Late", REJECTED.name) else {"_ingest_time"}
            found[name] = sorted(({k: v for k, v in r.items() if k not in hidden} for r in rows), key=repr)
        last = reader.last_epoch()
        assert last is not None
        state = last.extra["state"]
        return {**found, "counts": last.bounds["counts"], "next": last.extra["next_uid"], "state": state}
    finally:
        reader.close()
        store.close()


@pytest.mark.timeout(1500)
def test_a_worker_and_the_driver_die(tmp_path: Path, cluster: Cluster) -> None:
    write(tmp_path / "data" / "Readings")
    alone = project(tmp_path / "alone", tmp_path / "data", "")
    once = start_run(alone, "--once")
    assert (once.communicate(timeout=900), once.returncode)[1] == 0
    run = Run(
        project(tmp_path / "many", tmp_path / "data", ON_CLUSTER.format(master=cluster.url)),
        url := f"sqlite:///{tmp_path}/many/s.db",
    )
    try:
        run.wait_for_epochs(1)
        cluster.kill_worker(0)  # epochs follow each other without a pause, so this is in one
        run.wait_for_epochs(2)
        cluster.workers[0] = cluster.start_worker(0)
        kill(run.process, run.url)
        again = start_run(run.script, "--store", url, "--once")
        _, reported = again.communicate(timeout=600)
        assert (again.returncode, "error" in reported) == (0, False), reported
    finally:
        run.process.kill()
    expected, found = stored(f"sqlite:///{tmp_path}/alone/s.db"), stored(url)
    assert found["state"]["intake_jobs"] > 2
    for name in expected.keys() - {"state"}:
        assert found[name] == expected[name], name
    assert len(expected[REJECTED.name]) > 100
    assert len(expected["Late"]) > 100
