"""Whether Spark compiles a query to Java classes of its own: that pays for many rows only, and takes most of the first epochs' time.

In: a session, and per query whether its rows are few. Out: the session's settings. Those that the session had come back with `restore`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

FEW = 2_000
"""Up to so many rows of each input a query is interpreted: joins of so many make a million pairs at most, which take a second."""
COMPILED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
INTERPRETED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Interpreting:
    """The choice for one session, which is asked only where it changes."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._own = {name: spark.conf.get(name, usual) or usual for name, usual in COMPILED.items()}
        self._interprets = False

    def choose(self, few: bool) -> None:
        """Settings for a query over few rows, or over many."""
        if few != self._interprets:
            for name, value in (INTERPRETED if few else self._own).items():
                self._spark.conf.set(name, value)
            self._interprets = few

    def restore(self) -> None:
        """The settings that the session had."""
        self.choose(few=False)
