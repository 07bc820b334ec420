"""`python -m bench.optimize`: measured and estimated costs of the optimizer's choices under a replayed workload.

Each of four workloads consists of epochs of changes with requests between them. It runs with four placements: every
view maintained, none of those that the database can compute, DataSQRL's greedy rule, and the lowest cost. "Seconds" is
the processor time of all processes per epoch with its requests, after the first epochs. "Views" is that time without
the time of the same epoch without views and with one-row requests; the formulas estimate this value. p99 is the elapsed
time of requests in this process. The choice uses rows, distinct values, changes and rates as a store would have
measured them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from belvedere.api.graphql.api import Api
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.errors import BelvedereError
from belvedere.optimize.choice import Choice, cheapest, cost_of
from belvedere.optimize.costs import Coefficients, known_coefficients
from belvedere.optimize.greedy import greedy
from belvedere.pipeline.advice import made_operators, placed_views, workload_of
from belvedere.pipeline.placement import with_choice, with_view_at_read
from belvedere.spark.session import local_session
from belvedere.workbench.calibration import processor_time
from belvedere.workbench.workbench import Workbench

SENSORS = """
CREATE STREAM Readings (sensor INT, temp INT, at TIMESTAMP);
CREATE TABLE Sensors (id INT, machine INT, PRIMARY KEY (id));
Tops := SELECT sensor, max(temp) AS top, count(*) AS n FROM Readings GROUP BY sensor;
Machines := SELECT s.machine, max(r.temp) AS top, count(*) AS n FROM Readings r JOIN Sensors s ON r.sensor = s.id
  GROUP BY s.machine;
Hot := SELECT sensor, temp, at FROM Readings WHERE temp > 990;
"""
SHOP = """
CREATE TABLE Orders (id INT, customer INT, amount INT, at TIMESTAMP, PRIMARY KEY (id));
CREATE TABLE Customers (id INT, country INT, PRIMARY KEY (id));
Spent := SELECT customer, sum(amount) AS total, count(*) AS n FROM Orders GROUP BY customer;
Countries := SELECT c.country, sum(o.amount) AS total FROM Orders o JOIN Customers c ON o.customer = c.id
    GROUP BY c.country;
Largest := SELECT id, customer, amount FROM Orders ORDER BY amount DESC LIMIT 20;
"""
ASKED = {
    "Tops": "{ tops(limit: 100) { sensor top n } }",
    "Machines": "{ machines { machine top n } }",
    "Hot": "{ hot(limit: 100) { sensor temp at } }",
    "Spent": "{ spent(limit: 100) { customer total n } }",
    "Countries": "{ countries { country total } }",
    "Largest": "{ largest { id amount } }",
}
NOTHING = {SENSORS: "{ sensors(limit: 1) { id } }", SHOP: "{ customers(limit: 1) { id } }"}
"""Requests in runs without views."""
START = datetime(2024, 1, 1, tzinfo=UTC)
WARM = 40
"""Number of warm-up epochs: Spark compiles a query's classes after ten runs, one query per epoch."""
DISTINCT = {("Readings", "sensor"): 1000.0, ("Sensors", "machine"): 50.0}
DISTINCT |= {("Orders", "customer"): 1000.0, ("Customers", "country"): 50.0}
ROW = "{:<28}{:<12}{:>9}{:>9}{:>10}{:>7}{:>9}  {}"


@dataclass(frozen=True)
class Replay:
    """A workload: initial rows, changed rows per epoch, and requests per view between two epochs, one second apart."""

    name: str
    script: str
    history: int
    changed: int
    requests: int


REPLAYS = (
    Replay("sensor service", SENSORS, 20_000, 1_000, 20),
    Replay("many changes, few requests", SHOP, 20_000, 20_000, 1),
    Replay("few changes, many requests", SHOP, 50_000, 20, 200),
    Replay("large history", SENSORS, 300_000, 100, 5),
)


def batches(replay: Replay) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Yield the rows of each epoch, the history first."""
    random, last = Random(7), 0
    sizes = [replay.history, *[replay.changed] * 1000]
    for epoch, count in enumerate(sizes):
        at = START + timedelta(seconds=epoch)
        numbers = range(last, last + count)
        last += count
        rows = [{"key": random.randrange(1000), "value": random.randrange(1000)} for _ in numbers]
        if replay.script is SENSORS:
            made = {"Readings": [{"sensor": r["key"], "temp": r["value"], "at": at} for r in rows]}
            first = {"Sensors": [{"id": n, "machine": n % 50} for n in range(1000)]}
        else:
            orders = zip(numbers, rows, strict=True)
            made = {"Orders": [{"id": n, "customer": r["key"], "amount": r["value"], "at": at} for n, r in orders]}
            first = {"Customers": [{"id": n, "country": n % 50} for n in range(1000)]}
        yield made | (first if epoch == 0 else {})


def choices(replay: Replay, costs: Coefficients, epochs: int) -> Iterator[tuple[str, Catalog, float]]:
    """Yield names, catalogs with the choice, and estimated seconds per epoch with its requests."""
    catalog = compile_script(replay.script).catalog
    streams = {i: float(replay.changed) for i in catalog.inputs if i in ("Readings", "Orders")}
    half = replay.history + replay.changed * (WARM + epochs / 2)
    rows = {i: float(half if i in streams else 1000) for i in catalog.inputs}
    workload = workload_of(catalog, Measured(10, 1.0, streams, {}), rows, {"rate": float(replay.requests)})
    made = made_operators(catalog, replace(workload, distinct=DISTINCT), costs)
    everything = made.maintained_now({})
    none = catalog
    for id_ in ASKED.keys() & catalog.views.keys():
        with suppress(BelvedereError):
            none = with_view_at_read(none, id_)
    yield "maintained", catalog, cost_of(made.found, everything)
    at_read = {i: none.placement.part_paths.get(i, ()) for i in none.placement.at_read}
    yield "at read", none, cost_of(made.found, made.maintained_now(at_read))
    kept = greedy(catalog, made.found, made.nodes)
    ruled = Choice(kept, cost_of(made.found, kept))
    for name, choice in (("greedy", ruled), ("least cost", cheapest(made.found))):
        yield name, with_choice(catalog, placed_views(catalog, made, choice)), choice.cost


def replayed(catalog: Catalog, replay: Replay, spark: Any, epochs: int) -> tuple[float, float]:
    """Return the processor seconds per epoch with its requests, and the p99 of requests in seconds."""
    views = [v for v in ASKED if v in (SENSORS if replay.script is SENSORS else SHOP)]
    asked = [ASKED[v] if v in catalog.views else NOTHING[replay.script] for v in views]
    seconds, taken = 0.0, list[float]()
    api: Api | None = None
    with (
        TemporaryDirectory() as folder,
        closing(Workbench.of_catalog(catalog, f"sqlite:///{folder}/s.db", spark=spark)) as bench,
    ):
        for epoch, rows in zip(range(1 + WARM + epochs), batches(replay), strict=False):
            bench.clock(START + timedelta(seconds=epoch))
            for table, own in rows.items():
                bench.insert(table, own)
            begin = processor_time()
            bench.step()
            if api is None:
                api = Api(catalog, bench.store.reader())
            for query, _ in zip(cycle(asked), range(replay.requests * len(asked)), strict=False):
                start = time.perf_counter()
                api.answer(query)
                taken.append(time.perf_counter() - start)
            if epoch > WARM:
                seconds += processor_time() - begin
            else:
                taken.clear()
    taken.sort()
    return seconds / epochs, taken[min(len(taken) - 1, round(len(taken) * 0.99))] if taken else 0.0


def places(catalog: Catalog) -> str:
    """Return the views that requests compute."""
    return (
        ", ".join(i + " in part" * bool(catalog.placement.part_paths.get(i)) for i in catalog.placement.at_read)
        or "none"
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.optimize", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--only", default="", help="workloads whose names begin so")
    parser.add_argument("--costs", type=Path, help="the file that `belvedere calibrate` has kept")
    given = parser.parse_args()
    costs = (known_coefficients(given.costs) if given.costs else None) or Coefficients()
    spark = local_session(memory="6g")
    print(ROW.format("workload", "choice", "seconds", "views", "estimate", "ratio", "p99 ms", "computed at read"))
    done: dict[tuple[str, str], tuple[float, float]] = {}
    for replay in (r for r in REPLAYS if r.name.startswith(given.only)):
        inputs = compile_script(
            replay.script.partition("\n" + next(v for v in ASKED if v in replay.script) + " :=")[0]
        ).catalog
        base, _ = replayed(inputs, replay, spark, given.epochs)
        for name, catalog, estimate in choices(replay, costs, given.epochs):
            key = (replay.name, places(catalog))
            if key not in done:
                done[key] = replayed(catalog, replay, spark, given.epochs)
            seconds, slow = done[key]
            views = max(seconds - base, 1e-3)
            shown = f"{seconds:.3f}", f"{views:.3f}", f"{estimate:.3f}", f"{estimate / views:.2f}", f"{slow * 1000:.1f}"
            print(ROW.format(replay.name, name, *shown, key[1]), flush=True)


if __name__ == "__main__":
    main()
