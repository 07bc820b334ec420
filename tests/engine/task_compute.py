"""Epochs whose stored rows are looked up and changed by tasks, without a cluster.

DuckDB's queries, tasks in this process.

All rows go to tasks, in four buckets. Each task is sent as Spark sends it and is run twice: only its second answer
counts.
"""

from __future__ import annotations

import pickle
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.engine.by_tasks.buckets import BUCKET, KEY_ALONE, KIND, MARK, NEW, Sent, buckets_of
from belvedere.engine.by_tasks.file_tasks import FileTask
from belvedere.engine.by_tasks.tasks import BucketTask, RunTask
from belvedere.engine.rows.epoch_rows import Rows, combined, fits_parquet
from belvedere.engine.rows.scratch_rows import NumberedFile
from belvedere.schema import KEY
from belvedere.state.hashing import text_hashes
from tests.engine.duckdb_compute import DuckDBCompute
from tests.engine.file_runner import FileRunner

BUCKETS = 4
ATTEMPTS = 2
MIXED = 0.7


class TaskCompute(DuckDBCompute):
    """Everything is large."""

    spreading = True
    """Whether tasks do the work now."""

    def __init__(self, _session: Any = None, prefix: str = "tasks", small: int = 0, memory: int = 1 << 30):
        super().__init__(_session, prefix, small, memory)
        self.scratch = Path(tempfile.mkdtemp(prefix="belvedere-tasks-"))

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def discard(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    def sweep(self) -> None:
        for path in self.scratch.glob("*.parquet"):
            path.unlink()

    def compute(self, sql: str, schema: pa.Schema | None = None, ordered: bool = False) -> Rows:
        found = super().compute(sql, schema, ordered)
        if not self.spreading or found.is_empty or not fits_parquet(found.schema):
            return found
        return Rows(schema=found.schema, files=(self._written(found),), count=found.num_rows)

    def _written(self, rows: Rows) -> Path:
        file = NumberedFile(self.scratch / f"{random.getrandbits(64)}.parquet", rows.schema)
        for batch in rows.batches():
            file.add(batch)
        file.close()
        return file.path

    def spreads(self, rows: int) -> bool:
        return self.spreading

    def buckets(self, rows: int) -> int:
        return BUCKETS

    def filed(self, rows: Rows, column: str) -> tuple[tuple[Path, str], ...]:
        if rows.files is not None:
            return tuple((f, f"c{rows.schema.get_field_index(column)}") for f in rows.files)
        return ((self._written(Rows(rows.table.select([column]))), "c0"),) if rows.num_rows else ()

    def run_tasks(self, tasks: Sequence[FileTask]) -> list[Any]:
        return FileRunner().run_tasks(tasks)

    def run_apart(self, rows: Rows, task: RunTask, schema: pa.Schema) -> pa.Table:
        parts = [rows.table.slice(n, 3).to_batches() for n in range(0, rows.num_rows, 3)]
        return _answers(task, parts, schema)

    def run_buckets(self, sent: Sequence[Sent], task: BucketTask, schema: pa.Schema) -> pa.Table:
        given = pa.schema(
            [(BUCKET, pa.int32()), (KIND, pa.int32()), *((f"c{n}", f.type) for n, f in enumerate(task.schema))]
        )
        parts: list[list[pa.RecordBatch]] = [[_mark(n, given)] for n in range(BUCKETS)]
        for found in sent:
            rows = _sent(found, task.schema, given)
            numbers = rows[BUCKET].to_numpy()
            for bucket in range(BUCKETS):
                parts[bucket] = [*rows.filter(pa.array(numbers == bucket)).to_batches(), *parts[bucket]]
        return _answers(task, parts, schema)


class MixedCompute(TaskCompute):
    """By chance each look-up and each change is done by tasks or in the driver.

    Each sees what those before it have changed.
    """

    def __init__(self, _session: Any = None, prefix: str = "mixed", small: int = 0, memory: int = 1 << 30):
        super().__init__(_session, prefix, small, memory)
        self._chance = random.Random(7)

    def spreads(self, rows: int) -> bool:
        return self._chance.random() < MIXED


def _answers(
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], parts: list[Any], schema: pa.Schema
) -> pa.Table:
    cloudpickle = __import__("pyspark.cloudpickle").cloudpickle
    pickled = cloudpickle.dumps(task)
    last: list[pa.RecordBatch] = []
    for part in parts:
        for _ in range(ATTEMPTS):
            answer = list(pickle.loads(pickled)(iter(part)))
        last += answer
    return pa.Table.from_batches(last, schema)


def _mark(bucket: int, given: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{BUCKET: bucket, KIND: MARK}], given)


def _sent(sent: Sent, schema: pa.Schema, given: pa.Schema) -> pa.Table:
    table = sent.rows.table
    new = _chosen(table.to_batches(), sent) if sent.new is not None else np.ones(table.num_rows, np.bool_)
    if sent.drops:
        table, new = table.filter(pa.array(new)), new[new]
    own = combined(table[sent.columns[sent.by]])
    hashes = text_hashes(own) if sent.by == KEY else own.to_numpy()
    kinds = np.full(len(new), KEY_ALONE) if sent.is_keys else np.where(new, NEW, KEY_ALONE)
    columns = [table[sent.columns[f.name]] if f.name in sent.columns else pa.nulls(len(new), f.type) for f in schema]
    return pa.table(
        [pa.array(buckets_of(hashes, BUCKETS), pa.int32()), pa.array(kinds, pa.int32()), *columns], names=given.names
    )


def _chosen(batches: Iterable[pa.RecordBatch], sent: Sent) -> np.ndarray:
    assert sent.new is not None
    parts = [sent.new.test(b).to_numpy(zero_copy_only=False) for b in batches]
    return np.concatenate(parts).astype(np.bool_) if parts else np.zeros(0, np.bool_)
