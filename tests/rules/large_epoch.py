"""A separate process for the memory test: `python -m tests.rules.large_epoch ROWS MEGABYTES [STORE]`.

Two epochs over rows that only Spark has: new rows, then as many updates. Prints one line of JSON: peaks in bytes, and
what is stored.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.spark.script_engine import open_engine
from belvedere.spark.session import local_session
from belvedere.store import open_store

SCRIPT = """
CREATE STREAM Events (id BIGINT, who BIGINT, amount DOUBLE, note STRING);
CREATE TABLE Accounts (id BIGINT PRIMARY KEY, balance BIGINT, name STRING);
Totals := SELECT who, count(*) AS n, sum(amount) AS total FROM Events GROUP BY who;
Middle := SELECT name, median(balance) AS middle, count(*) AS n FROM Accounts GROUP BY name;
Rich := SELECT a.id, a.name, t.total FROM Accounts a JOIN Totals t ON a.id = t.who;
Summary := SELECT count(*) AS n, sum(n) AS rows FROM Totals;
"""
NOTE = "concat('a note that makes the row wider: ', id)"


class Peak(threading.Thread):
    """The most memory of its own that this process has meanwhile: not the JVM's, and no pages of files, which the
    system may take back."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            self.bytes = max(self.bytes, own_bytes())


def own_bytes() -> int:
    """Anonymous memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def main(rows: int, megabytes: int, url: str) -> dict[str, Any]:
    spark = local_session()
    catalog = compile_script(SCRIPT).catalog
    store = open_store(url)
    engine = open_engine(spark, catalog, maintain(catalog), store, driver_memory=megabytes << 20)
    with tempfile.TemporaryDirectory() as folder:
        arrivals = {}
        for name, columns in {
            "Events": f"id, id % {rows // 2} AS who, CAST(id AS DOUBLE) AS amount, {NOTE} AS note",
            "Accounts": "id, id % 1000 AS balance, concat('name ', id % 1000) AS name",
        }.items():
            path = str(Path(folder, name))
            spark.sql(f"SELECT {columns} FROM range({rows})").write.parquet(path)
            arrivals[name] = spark.read.parquet(path)
        engine.run_epoch({}, datetime(2024, 1, 1, tzinfo=UTC))
        before, peak = own_bytes(), Peak()
        peak.start()
        engine.run_epoch(arrivals, datetime(2024, 1, 2, tzinfo=UTC))
        updates = arrivals["Accounts"].selectExpr("id", "balance + 1 AS balance", "name")
        report = engine.run_epoch({"Accounts": updates, "Events": arrivals["Events"]}, datetime(2024, 1, 3, tzinfo=UTC))
        peak.ended.set()
    reader = store.reader()
    found = {
        "summary": reader.rows(engine.tables.by_name["Summary"]).select(["n", "rows"]).to_pylist(),
        "rich": reader.execute('SELECT count(*), sum(total) FROM "Rich"')[0],
        "middle": reader.execute('SELECT count(*), CAST(sum(n) AS BIGINT), min(middle), max(middle) FROM "Middle"')[0],
        "changes": dict(report.changes),
        "process": peak.bytes - before,
        "arrow": pa.default_memory_pool().max_memory(),
    }
    reader.close()
    engine.close()
    store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or ["sqlite://"])[0]), default=str))
