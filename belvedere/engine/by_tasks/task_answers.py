"""Answers of tasks: places and counts, about 200 bytes for each file; never rows.

In: what a task has found or changed, or its error. Out: batches of one schema that Spark returns to the driver, and
there the answers again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import NumberedFile, not_shared
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.state.snapshots import ArrangementChanges, Died, NewRun
from belvedere.state.sorted_run import FileRange

ANSWER = pa.schema(
    [
        ("kind", pa.string()),
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("checksum", pa.int64()),
        ("rows", pa.int64()),
        ("number", pa.int64()),
        ("text", pa.string()),
    ]
)
_NOWHERE = FileRange("", 0, 0, 0)


def _answer(kind: str, place: FileRange = _NOWHERE, rows: int = 0, number: int = 0, text: str = "") -> tuple[Any, ...]:
    return (kind, *astuple(place), rows, number, text)


def batch_of(answers: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    """Return answers as a batch for Spark."""
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(zip(*answers, strict=True), ANSWER, strict=True)], schema=ANSWER
    )


def of_bucket(number: int) -> tuple[Any, ...]:
    """Report that the task has received this bucket."""
    return _answer("bucket", number=number)


def of_stray(number: int) -> tuple[Any, ...]:
    """Report that the task received rows of another task's bucket."""
    return _answer("stray", number=number)


def of_blind() -> tuple[Any, ...]:
    """Report that the task cannot see the folder of the state."""
    return _answer("blind")


def of_error(error: BelvedereError) -> tuple[Any, ...]:
    """Report an error that a retry would not fix."""
    return _answer("error", text=json.dumps([{k: v for k, v in asdict(d).items() if v} for d in error.diagnostics]))


def of_rows(path: Path, count: int, going: int = 0) -> tuple[Any, ...]:
    """Report rows in a scratch file, of which `going` are deletions."""
    return _answer("rows", rows=count, number=going, text=str(path))


def of_changes(changes: ArrangementChanges) -> Iterator[tuple[Any, ...]]:
    """Answer with the changes of an arrangement and the number of look-ups."""
    yield _answer("asked", rows=changes.found, number=changes.asked)
    for run in changes.runs:
        yield _answer("run", run.place, run.rows, text=json.dumps(run.fences))
    for died in changes.died:
        yield _answer("died", died.place, died.rows, died.run)


def of_file(file: NumberedFile, going: int = 0) -> Iterator[tuple[Any, ...]]:
    """Report the rows of a written file, if there is one."""
    file.close()
    if file.count:
        yield of_rows(file.path, file.count, going)


def scratch_file(folder: Path, schema: pa.Schema) -> NumberedFile:
    """Return a new file for rows of a task. A retried task gets another name."""
    return NumberedFile(folder / f"{uuid.uuid4().hex}.parquet", schema)


@dataclass
class TaskAnswers:
    """All answers of the tasks of one job."""

    changes: ArrangementChanges = field(default_factory=ArrangementChanges)
    files: list[Path] = field(default_factory=list)
    count: int = 0
    going: int = 0
    is_blind: bool = False
    buckets: list[int] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    def check(self, buckets: int | None) -> TaskAnswers:
        """Check that these answers are complete, and return them.

        With `buckets`, each bucket must have gone to exactly one task: Spark can omit an exchange, or merge two. Raises
        the error of a failed task.
        """
        if self.failures:
            raise self.failures[0]
        seen = sorted(self.buckets)
        assert buckets is None or self.is_blind or seen == list(range(buckets)), f"buckets {seen} of {buckets}"
        return self

    def rows(self, schema: pa.Schema) -> Rows:
        """Return the rows that tasks have written. Raises B7036 if this process cannot see their files."""
        for path in self.files:
            if not path.exists():
                raise not_shared(path.parent, f"a task wrote {path}, which is not there")
        if not self.files:
            return Rows(schema.empty_table())
        return Rows(schema=schema, files=tuple(self.files), count=self.count, going=self.going)


def read_answers(table: pa.Table) -> TaskAnswers:
    """Return all answers, including those of tasks beside a failed one; see `TaskAnswers.check`."""
    found = TaskAnswers()
    for kind, *place, rows, number, text in zip(*(table[n].to_pylist() for n in ANSWER.names), strict=True):
        match kind:
            case "error":
                found.failures.append(BelvedereError([Diagnostic(**d) for d in json.loads(text)]))
            case "blind":
                found.is_blind = True
            case "stray":
                found.failures.append(AssertionError(f"a task had rows of bucket {number}, which is another task's"))
            case "bucket":
                found.buckets.append(number)
            case "rows":
                found.files.append(Path(text))
                found.count += rows
                found.going += number
            case "asked":
                found.changes.asked += number
                found.changes.found += rows
            case "run":
                fences = tuple((low, high) for low, high in json.loads(text))
                found.changes.runs.append(NewRun(FileRange(*place), rows, fences))
            case "died":
                found.changes.died.append(Died(number, FileRange(*place), rows))
    return found
