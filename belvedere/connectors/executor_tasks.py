"""Tasks on files in Spark's executors: each gives an answer, and no rows.

In: functions without arguments that can be pickled. Out: their answers, of attempts that ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.engine.by_tasks.file_tasks import FileTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER = pa.schema([("number", pa.int64()), ("answer", pa.string())])


def is_local(master: str) -> bool:
    """Return whether executors are threads of the driver's process."""
    return master == "local" or master.startswith("local[")


def has_executors(spark: SparkSession) -> bool:
    """Return whether a session has executors in processes of their own."""
    return not is_local(spark.sparkContext.master or "local")


@dataclass(frozen=True)
class SparkTasks:
    """The executors of a session; `least`: the number of rows from which on they should work (None: never)."""

    spark: SparkSession
    least: int | None = None

    def spreads(self, rows: int) -> bool:
        """Return whether executors should work on this number of rows."""
        return self.least is not None and rows >= self.least

    def run_tasks(self, tasks: Sequence[FileTask]) -> list[Any]:
        """Return the answers in the order of the tasks. Raises what Spark raises where a task fails each time."""

        def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (n for batch in numbers for n in batch.column(0).to_pylist()):
                answer = json.dumps(tasks[number]())
                yield pa.RecordBatch.from_pydict({"number": [number], "answer": [answer]}, ANSWER)

        numbers = self.spark.range(0, len(tasks), 1, len(tasks))
        answers = numbers.mapInArrow(run, from_arrow_schema(ANSWER)).collect()
        found = {row["number"]: json.loads(row["answer"]) for row in answers}
        return [found[n] for n in range(len(tasks))]
