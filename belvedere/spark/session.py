"""The Spark session that Belvedere runs on locally, with the settings that small epochs need.

In: a few sizes. Out: a `SparkSession`. Every setting here has a reason beside it; `run_epoch` relies on them.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from belvedere.spark.java import use_java
from belvedere.spark.stderr import without_incubator_warning

__all__ = ["SETTINGS", "SparkSession", "local_session"]

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",  # timestamps are UTC instants throughout
    "spark.sql.ansi.enabled": "true",  # overflow and division by zero are errors, not silent NULLs
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # no call back to Python's stack for each column of a plan
    "spark.sql.adaptive.enabled": "false",  # costs more than it saves on tiny epochs
    "spark.sql.window.segmentTree.enabled": "true",  # sliding frames in O(n log n)
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # scratch files that Arrow reads exactly
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.allowHashOnMapType": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
}


def local_session(cores: int | None = None, memory: str = "4g", extra: Mapping[str, str] | None = None) -> SparkSession:
    """The running local session, or a new one on `cores` (default: all) with `memory` for the JVM."""
    use_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    cores = cores or os.cpu_count() or 1
    builder = SparkSession.builder.master(f"local[{cores}]").appName("belvedere").config("spark.driver.memory", memory)
    warehouse = Path(tempfile.gettempdir(), "belvedere-warehouse").as_uri()  # never used, and no litter where one works
    sizes = {"spark.sql.shuffle.partitions": str(cores), "spark.sql.warehouse.dir": warehouse}
    settings = {**SETTINGS, **sizes, **(extra or {})}
    for name, value in settings.items():
        builder = builder.config(name, value)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # failures are told as diagnostics
    with without_incubator_warning():
        session: SparkSession = builder.getOrCreate()
    return session
