"""A Spark cluster: the setup of its session, and checks of its executors.

In: the `[spark]` settings, a session, a folder for scratch files. Out: settings; a session whose executors have this
package and were checked, or a diagnostic. It starts no cluster. The driver and the executors read and write the same
scratch files, so all of them must see one folder. The rows that an executor writes are counted, since another folder
with that name would lose them silently.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from belvedere.connectors.executor_tasks import has_executors
from belvedere.engine.rows import scratch_rows
from belvedere.engine.rows.scratch_rows import not_shared
from belvedere.errors import BelvedereError, fail
from belvedere.process.temporary_folders import share, temporary_folder
from belvedere.spark.session import LOOPBACK

MASTER = re.compile(r"local(\[.+\])?|local-cluster\[\d+,\d+,\d+\]|spark://[^/\s]+:\d+(,[^/\s]+:\d+)*|yarn|k8s://\S+")
HINT = 'write "spark://host:7077", "yarn", "k8s://https://host:port", "local[4]" or "local-cluster[2,1,1024]"'
REACH_SECONDS = 5.0
STABLE_SECONDS = 1.0
MODULES = ("numpy", "pyarrow", "pandas", "sqlglot", "belvedere")
"""Modules that Python functions import on executors. The package itself is sent to them."""
Found = tuple[str, str | None, bool]
"""Findings of a task: its machine, the packages that its Python lacks, and whether it can see the scratch folder."""


def master_of(settings: Mapping[str, str]) -> str | None:
    """Return the master that `[spark]` names, or None for this machine with all or `cores` of its cores.

    Raises B9112 for an invalid master.
    """
    master = settings.get("master", settings.get("spark.master"))
    if master is not None and not MASTER.fullmatch(master):
        raise fail("B9112", f'"{master}" is not a Spark master', hint=HINT)
    return master


def is_cluster(spark: SparkSession) -> bool:
    """Return whether a session has executors in processes of their own."""
    return has_executors(spark)


def cluster_settings(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a session on a cluster, in addition to those of every session.

    Raises B7035 if a standalone master cannot be reached.

    Executors connect to the driver at the address from which it reaches the master, unless `spark.driver.host` sets
    another one.
    """
    found = {"spark.driver.memory": settings.get("memory", "4g"), "spark.task.maxFailures": "8"}
    if "cores" in settings:
        found["spark.cores.max"] = settings["cores"]
    host = _reached(master) if master.startswith("spark://") else None
    if host == LOOPBACK or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        found["spark.driver.bindAddress"] = host = LOOPBACK
    if host is not None:
        found["spark.driver.host"] = host
    os.environ["PYSPARK_PYTHON"] = (
        settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    )
    return found


def _reached(master: str) -> str:
    """Return this machine's address as seen by one of the masters."""
    reasons = []
    for place in master.removeprefix("spark://").split(","):
        host, port = place.rsplit(":", 1)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
    hint = "start it, or set `master` under [spark] in belvedere.toml to the one that runs"
    raise fail("B7035", f"the Spark master {master} cannot be reached", detail="; ".join(reasons), hint=hint)


def not_started(master: str, error: Exception) -> BelvedereError:
    """Return the diagnostic B7035 for a session that does not start."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    hint = (
        "check that its Spark has this version (4.3), that it accepts this application, and that it reaches "
        "this machine"
    )
    return fail(
        "B7035", f"no session could be started on the Spark master {master}", detail=lines[-1].strip(), hint=hint
    )


def has_ended(spark: SparkSession) -> bool:
    """Return whether the cluster has ended the application although its JVM is running."""
    return is_cluster(spark) and bool(spark.sparkContext._jsc.sc().isStopped())


def join_cluster(
    spark: SparkSession, folder: Path, seconds: float = 120.0, stopped: Callable[[], bool] = lambda: False
) -> bool:
    """Send this package to the executors, check each of them, and put scratch files into `folder` from now on.

    Waits `seconds` for the first executor. Returns False if it was stopped meanwhile. Raises B7034, B7035, B7036 for
    problems.
    """
    context = spark.sparkContext
    context.addPyFile(str(_packed()))
    if not _has_executors(spark, seconds, stopped):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f"probe-{os.getpid()}"
    probe.write_text("")
    tasks = max(1, 2 * context.defaultParallelism)
    try:
        found = (
            context.parallelize(range(tasks), tasks)
            .mapPartitions(_look(str(probe), MODULES, sys.version_info[:2]))
            .collect()
        )
    except (PySparkException, Py4JJavaError) as error:
        raise _no_python(context.pythonExec, str(error)) from error
    finally:
        probe.unlink(missing_ok=True)
    _judge(found, folder, context.pythonExec)
    if spark.conf.get("spark.sql.shuffle.partitions", None) in (None, "200"):
        spark.conf.set("spark.sql.shuffle.partitions", str(max(2, context.defaultParallelism)))
    share(folder)
    scratch_rows.observe = _observed
    return True


def _packed() -> Path:
    """Return this package as a zip. Executors run the driver's version, independent of any installed one."""
    root = Path(__file__).parents[1]
    path = temporary_folder("package-") / "belvedere.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for file in sorted(root.rglob("*")):
            if file.suffix == ".py" or (file.is_dir() and file.name != "__pycache__"):  # a package can be only a folder
                packed.write(file, Path("belvedere") / file.relative_to(root))
    return path


def _has_executors(spark: SparkSession, seconds: float, stopped: Callable[[], bool]) -> bool:
    """Wait until no more executors arrive. Raises B7035 if there are none."""
    status = spark.sparkContext._jsc.sc()
    end, known, since = time.monotonic() + seconds, 0, time.monotonic()
    while not stopped():
        now, count = time.monotonic(), status.getExecutorMemoryStatus().size() - 1  # the driver is among them
        if count != known:
            known, since = count, now
        if known and now - since >= STABLE_SECONDS:
            return True
        if not known and now >= end:
            memory = spark.conf.get("spark.executor.memory", "1g")
            raise fail(
                "B7035",
                f"the Spark master {spark.sparkContext.master} gave no executor within {seconds:.0f} seconds",
                hint=f"check that it has workers with a free core and {memory} of free memory "
                "(`spark.executor.memory` under [spark]), "
                "and that they reach this machine (`spark.driver.host`)",
            )
        time.sleep(0.1)
    return False


def _look(probe: str, modules: tuple[str, ...], version: tuple[int, ...]) -> Callable[[Iterable[int]], Iterator[Found]]:
    """Return the function of each task; a nested function is sent to executors by value, which may lack this module."""

    def look(_: Iterable[int]) -> Iterator[Found]:
        import importlib  # executors may lack this module
        import os
        import socket
        import sys

        lacks = (
            None if sys.version_info[:2] == version else f"its version is {sys.version_info[:2]}, here it is {version}"
        )
        for name in modules:
            try:
                importlib.import_module(name)
            except ImportError as error:
                lacks = lacks or str(error)
        yield socket.gethostname(), lacks, os.path.exists(probe)

    return look


def _judge(found: Iterable[Found], folder: Path, python: str) -> None:
    unfit = {host: lacks for host, lacks, _ in found if lacks}
    if unfit:
        raise _no_python(python, "; ".join(f"{host}: {lacks}" for host, lacks in unfit.items()))
    blind = sorted({host for host, _, sees in found if not sees})
    if blind:
        raise not_shared(folder, f"executors on {', '.join(blind)} do not see a file that the driver created there")


def _no_python(python: str, text: str) -> BelvedereError:
    reasons = [
        line.strip() for line in text.splitlines() if re.search(r"PYTHON_VERSION|Cannot run program|Error:", line)
    ]
    needed = ", ".join(MODULES[:-1])
    return fail(
        "B7034",
        f"Spark's executors have no Python {sys.version_info[0]}.{sys.version_info[1]} with what Belvedere needs: "
        f"{python}",
        detail=reasons[0] if reasons else text.strip().splitlines()[0],
        hint=(
            f"install {needed} there, and set `spark.pyspark.python` under [spark] to that Python; belvedere "
            "itself is sent"
        ),
    )


def _observed(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return the frame, and a function that returns its number of rows once it has run."""
    seen = Observation()
    return frame.observe(seen, F.count(F.lit(1)).alias("rows")), lambda: int(seen.get["rows"])
