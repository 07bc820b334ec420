"""The Python of Spark's workers: the driver's, or one that has the packages that the kernels need.

In: a data frame and a Python function over its rows. Out: the result as a data frame that has not run yet; a diagnostic
before anything runs if the workers' Python is not suitable. Workers on other machines are not checked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa
from pyspark import SparkContext, SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from belvedere.errors import fail
from belvedere.spark.window_by.frame_types import spark_schema

ASK = "import sys, belvedere, numpy, pyarrow, pyspark, sqlglot; print(sys.version_info[:2])"
TIMEOUT_SECONDS = 60


def in_python(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Apply `mapInArrow` to a frame. Raises B7034 as `check_workers` does."""
    if isinstance(frame, ClassicDataFrame):
        check_workers(frame.sparkSession)
    return frame.mapInArrow(function, spark_schema(schema))


def check_workers(spark: SparkSession) -> None:
    """Raise B7034 if the workers of a local session run a Python that lacks Belvedere, or has another version."""
    context = spark.sparkContext
    found = shutil.which(context.pythonExec) or context.pythonExec
    if not (context.master or "").startswith("local") or found == sys.executable:
        return
    reason = _why_unfit(found, _path(context))
    if reason is not None:
        raise fail(
            "B7034",
            f"Spark's workers use another Python: {found}",
            detail=reason,
            hint=(
                f'set os.environ["PYSPARK_PYTHON"] = "{sys.executable}" before the session is created, or '
                "PYSPARK_PYTHON in the shell"
            ),
        )


def _path(context: SparkContext) -> str:
    """Return PYTHONPATH as workers have it, with the files that the session ships."""
    root = SparkFiles.getRootDirectory()
    shipped = [os.path.join(root, name) for name in context._python_includes or ()]
    return os.pathsep.join([root, *shipped, *filter(None, [os.environ.get("PYTHONPATH")])])


@lru_cache(maxsize=16)
def _why_unfit(python: str, path: str) -> str | None:
    """Return why a Python cannot be the workers', or None if it can."""
    try:
        environment = {**os.environ, "PYTHONPATH": path}
        answer = subprocess.run(
            [python, "-c", ASK], env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if answer.returncode:
        return (answer.stderr.strip().splitlines() or ["it ends with an error"])[-1]
    here = str(tuple(sys.version_info[:2]))
    return None if answer.stdout.strip() == here else f"its version is {answer.stdout.strip()}, here it is {here}"
