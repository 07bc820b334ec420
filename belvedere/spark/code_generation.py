"""Choice whether Spark compiles a query to Java classes.

This pays only for many rows, and takes most of the time of the first epochs.

In: a session, and per query whether its rows are few. Out: the session's settings. `restore` resets the session's
original settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

FEW = 2_000
"""Maximum number of rows of each input for which a query is interpreted: joins of such inputs make at most a million
pairs, which take a second.
"""
SOME = 10
"""Number of interpreted runs of a query over few rows before it is worth compiling."""
MAX_TEXTS = 2_000
"""Maximum number of queries whose runs are counted."""
COMPILED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
INTERPRETED: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Interpreting:
    """The choice for one session, which is changed only if needed."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._own = {name: spark.conf.get(name, usual) or usual for name, usual in COMPILED.items()}
        self._interprets = False
        self._runs: dict[str, int] = {}
        self._compiled: set[str] = set()
        self._compiles = False
        """Whether a query was compiled since the last `restore`.

        Only one is compiled per epoch; otherwise all would be in the same epoch.
        """

    def choose(self, few: bool, sql: str = "") -> bool:
        """Set the session for a query over few or many rows. Return whether it is interpreted."""
        interprets = few and self._is_new(sql)
        if interprets != self._interprets:
            for name, value in (INTERPRETED if interprets else self._own).items():
                self._spark.conf.set(name, value)
            self._interprets = interprets
        return interprets

    def _is_new(self, sql: str) -> bool:
        """Return whether the query has run only a few times, so that compiling it would cost more than it saves."""
        if sql in self._compiled:
            return False
        if len(self._runs) >= MAX_TEXTS:
            self._runs.clear()
            self._compiled.clear()
        self._runs[sql] = runs = self._runs.get(sql, 0) + 1
        if runs <= SOME or self._compiles:
            return True
        self._compiled.add(sql)
        self._compiles = True
        return False

    def restore(self) -> None:
        """Restore the session's original settings."""
        self.choose(few=False)
        self._compiles = False
