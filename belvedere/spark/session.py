"""The Spark session of Belvedere, with the settings that small epochs need.

In: a few sizes. Out: a `SparkSession`. Every setting here has a comment with its reason; `run_epoch` relies on them.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from belvedere.spark.jvm.java import use_java
from belvedere.spark.jvm.stderr import without_incubator_warning

__all__ = ["LOOPBACK", "SETTINGS", "SparkSession", "local_session", "make_session"]

LOOPBACK = "127.0.0.1"
DRIVER_OPTIONS, EXECUTOR_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
IN_UTC = "-Duser.timezone=UTC"
"""Option of the JVM: JDBC drivers read times without a zone in the JVM's zone."""
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.explainMode": "simple",  # that interface stores a plan of each query: keep it short
    "spark.sql.session.timeZone": "UTC",  # timestamps are UTC instants throughout
    "spark.sql.ansi.enabled": "true",  # overflow and division by zero are errors, not silent NULLs
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # no call into Python's stack for each column of a plan
    "spark.sql.adaptive.enabled": "false",  # costs more than it saves on tiny epochs
    # a script's queries have more classes than the 100 that Spark remembers
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.window.segmentTree.enabled": "true",  # sliding frames in O(n log n)
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # scratch files that Arrow reads exactly
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.allowHashOnMapType": "false",
    DRIVER_OPTIONS: f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()} {IN_UTC}",
    EXECUTOR_OPTIONS: IN_UTC,
}


def local_session(cores: int | None = None, memory: str = "4g", extra: Mapping[str, str] | None = None) -> SparkSession:
    """Return the running local session, or a new one on `cores` (default: all) with `memory` for the JVM."""
    cores = cores or os.cpu_count() or 1
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    own = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.sql.shuffle.partitions": str(cores),
    }
    return make_session(f"local[{cores}]", {"spark.driver.memory": memory, **own, **(extra or {})})


def make_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """Return the running session, or a new one of a master with `settings` in addition to those of every session.

    Options of the JVM are joined. Those of `settings` take precedence, except the time zone, which is UTC.
    """
    use_java()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("belvedere")
    warehouse = Path(
        tempfile.gettempdir(), "belvedere-warehouse"
    ).as_uri()  # never used, and leaves no files in the working directory
    java = {n: f"{SETTINGS[n]} {settings[n]} {IN_UTC}" for n in (DRIVER_OPTIONS, EXECUTOR_OPTIONS) if n in settings}
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": warehouse, **settings, **java}.items():
        builder = builder.config(name, value)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # failures are reported as diagnostics
    with without_incubator_warning():
        session: SparkSession = builder.getOrCreate()
    return session
