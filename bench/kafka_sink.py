"""Seconds to send changes of several views to Kafka, with a local broker: `python -m bench.kafka_sink`.

In: the number of exports, the number of changes of each per epoch, the URL of a store. Out: the minimum and the median
time of `Exports.deliver`, and of the whole epoch. The broker and the store use the same processors.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from belvedere.project.settings import ProjectSettings, Sink
from belvedere.spark.session import local_session
from belvedere.store.stage_memory import Memories
from belvedere.workbench.workbench import Workbench
from tools.servers.kafka import Broker

TABLE = "CREATE TABLE Machine (id INT NOT NULL, temp DOUBLE, PRIMARY KEY (id));"


def script(exports: int) -> str:
    """Return a script with `exports` views over all rows of a table, and their exports."""
    views = (f"V{n} := SELECT id, temp + {n} AS temp FROM Machine;\nEXPORT V{n} TO bus.V{n};" for n in range(exports))
    return "\n".join((TABLE, *views))


def measure(
    spark: Any, address: str, exports: int, rows: int, rounds: int, store: str
) -> tuple[list[float], list[float]]:
    """Return the seconds of deliveries, and of whole epochs, without the first epochs."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    names = {f"V{n}": f"of{exports}_{n}" for n in range(exports)}
    for future in admin.create_topics([NewTopic(t, 1, 1) for t in names.values()]).values():
        future.result()
    with tempfile.TemporaryDirectory() as folder:
        sinks = {"bus": Sink("bus", "kafka", options={"servers": address, "names": names})}
        project = ProjectSettings(Path(folder), sinks=sinks)
        wb = Workbench(script(exports), spark=spark, project=project, store=store or f"sqlite:///{folder}/s.db")
        delivered, epochs = [], []
        deliver = wb.engine.exports.deliver

        def timed(epoch: int, memories: Memories) -> None:
            started = time.perf_counter()
            deliver(epoch, memories)
            delivered.append(time.perf_counter() - started)

        wb.engine.exports.deliver = timed  # type: ignore[method-assign]
        for number in range(rounds + 3):
            wb.insert("Machine", [{"id": n, "temp": float(number)} for n in range(rows)])
            started = time.perf_counter()
            wb.step()
            epochs.append(time.perf_counter() - started)
        wb.close()
    return delivered[3:], epochs[3:]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka_sink")
    parser.add_argument("--exports", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--store", default="", help="an empty database; a SQLite file where none is given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "broker").start()
        spark = local_session()
        try:
            for exports in options.exports:
                found = measure(spark, broker.address, exports, options.rows, options.rounds, options.store)
                times = "  ".join(f"{min(f):6.3f} s, median {statistics.median(f):6.3f} s" for f in found)
                print(f"{exports:3} exports  delivered in and epoch in  {times}", flush=True)
        finally:
            spark.stop()
            broker.stop()


if __name__ == "__main__":
    main()
