"""Measurement of the optimizer's cost coefficients on this machine: epochs on Spark, requests on SQLite.

In: a Spark session, numbers of rows. Out: `Coefficients`, in seconds of processor time. Small scripts run epochs with
few and with many rows. The differences give four costs: a stage without rows, a row that an aggregate reads, a row that
it outputs, a row that a view writes. Costs too small to measure (a filtered row, maintenance of a stored row) keep
their ratio to a changed row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from statistics import mean, median

from belvedere.optimize.costs import Coefficients
from belvedere.process.temporary_folders import temporary_folder
from belvedere.spark.session import SparkSession
from belvedere.workbench.workbench import Workbench

TABLE = "CREATE TABLE T (k INT, a INT, d DOUBLE, PRIMARY KEY (k));\n"
SCRIPTS = {
    "a table": TABLE,
    "a filter": TABLE + "V := SELECT k, a + 1 AS a, d * 2 AS d FROM T WHERE a >= 0;",
    "few groups": TABLE + "V := SELECT k % 100 AS a, count(*) AS n, sum(a) AS s FROM T GROUP BY k % 100;",
    "a join": TABLE + "V := SELECT t.k, u.d FROM T t JOIN T u ON t.k = u.k;",
    "an index": TABLE + "By(x INT) := SELECT k, d FROM T WHERE a = :x;",
    "groups": TABLE + "V := SELECT a, count(*) AS n, sum(k) AS s FROM T GROUP BY a;",
}
FEW, MANY = 10, 50_000
"""Number of changed rows in a small and in a large epoch."""
SMALL_EPOCHS = 4
"""Factor for the number of epochs with few rows: Spark compiles a query after ten runs."""
ROWS_OF_A_GROUP = 10
REQUESTS = 5
LEAST = 0.05
"""Minimum ratio of a coefficient to the shipped one; noise may make differences negative."""


@dataclass(frozen=True)
class EpochSeconds:
    """Seconds of an epoch with few rows and of one with many rows."""

    few: float
    many: float

    @property
    def rows(self) -> float:
        """Return the cost of the rows without that of the epoch."""
        return self.many - self.few


def processor_time() -> float:
    """Return processor seconds of this process and its descendants; wall-clock seconds if there is no /proc."""
    known: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        known[int(path.parent.name)] = int(parts[1]), sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")
    if os.getpid() not in known:
        return time.perf_counter()
    own = added = {os.getpid()}
    while added:
        added = {p for p, (parent, _) in known.items() if parent in own} - own
        own |= added
    return sum(known[p][1] for p in own)


def calibrate(
    spark: SparkSession, reported: Callable[[str], None] = lambda _: None, many: int = MANY, epochs: int = 7
) -> Coefficients:
    """Return the coefficients of this machine; `reported` receives a text before each measurement."""
    found: dict[str, EpochSeconds] = {}
    asked: dict[str, float] = {}
    folder = temporary_folder("calibrate-")
    try:
        reported("nothing yet: Spark compiles what epochs run")
        with closing(Workbench(SCRIPTS["groups"], "sqlite://", spark=spark)) as bench:
            _epochs(bench, many // 5, epochs)
        for name, script in SCRIPTS.items():
            reported(f"epochs of a script with {name}")
            with closing(Workbench(script, f"sqlite:///{folder}/{name}.db", spark=spark)) as bench:
                found[name] = _epochs(bench, many, epochs)
                if name == "a table":
                    reported("requests on SQLite")
                    asked = _requests(bench)
    finally:
        rmtree(folder, ignore_errors=True)
    return coefficients(found, asked, many)


def coefficients(found: dict[str, EpochSeconds], asked: dict[str, float], many: int) -> Coefficients:
    """Return the coefficients that explain the measured seconds."""
    shipped = Coefficients()
    groups = 2 * many / ROWS_OF_A_GROUP
    base = found["a table"]
    filtered = (found["a filter"].rows - base.rows) / many
    changed = max((found["few groups"].rows - base.rows) / many, LEAST * shipped.changed)
    made_rows = found["groups"].rows - base.rows - changed * many - filtered * groups
    ratio = changed / shipped.changed
    made = {
        "stage": found["groups"].few - base.few,
        "joined": found["a join"].few - base.few,
        "changed": changed,
        "indexed": (found["an index"].rows - base.rows) / many,
        "made": made_rows / groups,
        "linear": shipped.linear * ratio,
        "kept": shipped.kept * ratio,
        "write": filtered - shipped.linear * ratio,
        **asked,
    }
    return Coefficients(**{name: max(value, LEAST * getattr(shipped, name)) for name, value in made.items()})


def _epochs(bench: Workbench, many: int, count: int) -> EpochSeconds:
    """Return the median seconds of epochs with few and with many new rows."""
    last = 0

    def seconds(rows: int, count: int) -> Iterator[float]:
        nonlocal last
        for _ in range(count):
            numbers = range(last, last + rows)
            last += rows
            bench.insert("T", [{"k": n, "a": n // ROWS_OF_A_GROUP, "d": float(n % 997)} for n in numbers])
            begin = processor_time()
            bench.step()
            yield processor_time() - begin

    few = sorted(
        list(seconds(FEW, SMALL_EPOCHS * count))[count * SMALL_EPOCHS // 2 :]
    )  # the first ones compile their code
    large = list(seconds(many, count))
    return EpochSeconds(
        mean(few[: len(few) * 4 // 5]), median(large[count // 3 :])
    )  # a tick of the clock is a fifth of a small one


def _requests(bench: Workbench) -> dict[str, float]:
    """Return seconds per operator of a request, and per row that a request reads, filters or groups."""
    reader = bench.store.reader()
    try:
        rows = reader.execute("SELECT count(*) FROM T")[0][0]

        def seconds(sql: str, times: int = 1) -> float:
            taken = []
            for _ in range(REQUESTS):
                begin = time.process_time()
                for _ in range(times):
                    reader.execute(sql)
                taken.append((time.process_time() - begin) / times)
            return min(taken)

        one = seconds("SELECT k, a, d FROM T WHERE k = 17", 200)
        four = seconds(
            "SELECT a, count(*) FROM (SELECT k, a + 1 AS a FROM T WHERE k = 17) WHERE a > 0 GROUP BY a ORDER BY a", 200
        )
        return {
            "request": (four - one) / 4,  # a projection, a filter, groups and their order
            "projected": (seconds("SELECT count(a) FROM T") - one) / rows,
            "read": (seconds("SELECT count(*) FROM T WHERE d * 2 + a > -1") - one) / rows,
            "matched": (seconds("SELECT count(u.d) FROM T t JOIN T u ON u.k = t.a") - one) / (2 * rows),
            "grouped": (seconds("SELECT count(*) FROM (SELECT d, a, count(*) FROM T GROUP BY d, a)") - one) / rows,
        }
    finally:
        reader.close()
