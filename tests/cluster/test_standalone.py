"""A standalone cluster with two workers: views equal DuckDB's answers, also if a worker, the driver or the database
dies."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import Cluster
from tests.examples.example_answers import EXAMPLES, answers, differences, duckdb_over, duckdb_queries, load_prepare
from tests.run.processes import drain, first_line, kill, linux, start_run, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.spark, linux]

QUERIES = ("Q3", "Q4", "Q7", "Q9", "Q18")
TABLES = ("Person", "Auction", "Bid")
COUNTED = "Counted := SELECT auction, count(*) AS bids, sum(price) AS total FROM Bid GROUP BY auction;\n"
EVENTS, EACH = 36_000, 3_000
PROJECT = """
[sources.auctions]
connector = "files"
path = "data"
max_files = 1
[spark]
master = "{master}"
trigger = "50 ms"
memory = "1g"
"spark.executor.memory" = "700m"
[run]
driver_memory_mb = 16
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as found:
        yield found


def auctions_in(folder: Path, master: str) -> Path:
    load_prepare("nexmark").write(folder / "data", count=EVENTS, each=EACH)
    statements = re.split(r"(?<=;)\n", (EXAMPLES / "nexmark" / "nexmark.sqrl").read_text())
    requested = re.compile(rf"^(IMPORT auctions\.({'|'.join(TABLES)})\b|({'|'.join(QUERIES)}) :=)", re.MULTILINE)
    script = folder / "auctions.sqrl"
    script.write_text("\n".join(s for s in statements if requested.search(s)) + "\n" + COUNTED)
    (folder / "belvedere.toml").write_text(PROJECT.format(master=master))
    return script


def check(folder: Path, store: str) -> None:
    """Every view is what DuckDB says of all files."""
    from belvedere.store import open_store

    database = duckdb_over({n: f"SELECT * FROM read_json_auto('{folder}/data/{n}/*.jsonl')" for n in TABLES})
    queries = {n: q for n, q in duckdb_queries("nexmark").items() if n in QUERIES}
    queries["Counted"] = (
        "SELECT auction, count(*) AS bids, CAST(sum(price) AS BIGINT) AS total FROM Bid GROUP BY auction"
    )
    opened = open_store(store)
    reader = opened.reader()
    try:
        tables = {t.name: t for t in opened.tables()}
        for name, query in queries.items():
            shown = [c.name for c in tables[name].schema.columns if not c.hidden]
            ours = reader.rows(tables[name]).select(shown).to_pylist()
            assert ours, name
            assert differences(ours, answers(database, query))[:3] == [], name
    finally:
        reader.close()
        opened.close()


class Run:
    """`belvedere run` of the auctions, to be killed and started again."""

    def __init__(self, script: Path, store: str):
        self.script, self.store = script, store
        self.start()

    def start(self) -> None:
        self.process = start_run(self.script, "--store", self.store)
        self.url = first_line(self.process)
        self.lines = drain(self.process)

    def wait_for_epochs(self, count: int) -> None:
        def are_there() -> bool:
            assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""
            return sum(" epoch " in line for line in self.lines) >= count

        wait_for(are_there, "epochs do not come", 900)

    def epochs(self) -> int:
        return sum(" epoch " in line for line in self.lines)


@pytest.mark.postgres
@pytest.mark.timeout(1500)
def test_a_worker_the_driver_and_the_database_die(tmp_path: Path, cluster: Cluster, own_postgres: Any) -> None:
    store = own_postgres.get_uri()
    run = Run(auctions_in(tmp_path, cluster.url), store)
    try:
        run.wait_for_epochs(2)
        cluster.kill_worker(0)  # epochs follow each other without a pause, so this is in one
        run.wait_for_epochs(4)
        cluster.workers[0] = cluster.start_worker(0)
        run.wait_for_epochs(5)
        kill(run.process, run.url)
        run.start()
        run.wait_for_epochs(2)
        own_postgres.stop()
        own_postgres.ensure_postgres_running()
        run.wait_for_epochs(3)
        kill(run.process, run.url)
        once = start_run(run.script, "--store", store, "--once")
        _, reported = once.communicate(timeout=600)
        assert (once.returncode, "error" in reported) == (0, False), reported
        check(tmp_path, store)
    finally:
        run.process.kill()


SENSORS = """
import sys
from pathlib import Path
from belvedere.spark.jvm.quiet_session import end_spark, quiet_session
from tests.examples.test_views import test_sensors_on_machines
spark = quiet_session({"master": sys.argv[1], "spark.executor.memory": "700m"})
assert spark.sparkContext.master == sys.argv[1]
test_sensors_on_machines(Path(sys.argv[2]))
end_spark(spark)
"""


@pytest.mark.timeout(1500)
def test_sensors_step_by_step(tmp_path: Path, cluster: Cluster) -> None:
    """The test of the example, with its epochs on the cluster: one process has one session."""
    folder = tmp_path / "sensors"
    (folder / "data").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", SENSORS, cluster.url, str(folder)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
