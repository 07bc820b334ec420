"""Stored relations that tasks in other processes look up and change.

In a large epoch the driver sees only places and counts.

In: the state; keys and rows, in memory or in files. Out: rows in scratch files. The result is None if the driver must
do the work: the rows are few, there are no other processes, they cannot see the state, or the rows have types that
files do not support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from belvedere.engine.by_tasks.buckets import KeyFiles, Sent
from belvedere.engine.by_tasks.task_answers import ANSWER, TaskAnswers, read_answers
from belvedere.engine.by_tasks.tasks import AppendTask, BucketTask, MapTask, OverwriteTask, ReplaceTask, SearchTask
from belvedere.engine.compute import Compute
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, ColumnValues, Rows, fits_parquet, keys_of
from belvedere.engine.rows.selected_rows import NewRows, SelectedRows, parts_of
from belvedere.schema import KEY
from belvedere.state.arrangement import Arrangement
from belvedere.state.hashing import number
from belvedere.state.sorted_run import Run
from belvedere.state.state import State

SomeKeys: TypeAlias = ColumnValues | pa.Array | None


@dataclass(frozen=True)
class _Job:
    """One job over an arrangement: its snapshot's runs, the number of buckets, and the rows sent to them."""

    name: str
    runs: Sequence[Run]
    sent: Sequence[Sent]
    task: BucketTask


class StorageByTasks:
    """Look-ups and changes by tasks, used if there are enough rows."""

    def __init__(self, state: State, compute: Compute):
        self.state, self.compute = state, compute
        self.jobs = 0
        """Jobs of this epoch that looked up or changed state."""

    def _arrangement(self, name: str, sizes: Iterable[int]) -> Arrangement | None:
        """Return the arrangement if tasks should process this number of rows or keys."""
        found = self.state.arrangements.get(name)
        if found is None or not self.state.is_seen or not self.compute.spreads(max(sizes, default=0)):
            return None
        return found if fits_parquet(found.arranged.schema) else None

    # --- look-ups

    def look_up(
        self, name: str, by: str | None, keys: SomeKeys, before: bool = False, columns: Sequence[str] | None = None
    ) -> Rows | None:
        """Return the stored rows with these keys of a path, or by `_key`; all of them for None.

        `before`: as they were before this epoch.
        """
        by = None if keys is None else by
        found = self.state.arrangements.get(name)
        if found is None or not found.count:
            return None
        found = self._arrangement(name, [found.count] if by is None else _expected(found, keys))
        if found is None:
            return None
        schema = found.arranged.schema
        names = tuple(schema.names if columns is None else columns)
        key_schema = pa.schema([schema.field(KEY)]) if by == KEY else pa.schema([])
        sent, files = self._sent_keys(by, keys)
        size = max(_sizes(keys), default=0) if by is not None else found.count

        def task(buckets: int) -> _Job:
            snapshot, runs = self.state.snapshot(name, before)
            common = (snapshot, key_schema, self.compute.scratch, buckets, by, files)
            return _Job(name, runs, sent, SearchTask(*common, columns=names))

        answers = self._run(task, size)
        return None if answers is None else self.compute.near(answers.rows(pa.schema([schema.field(n) for n in names])))

    def look_up_range(self, name: str, column: str, above: Any, up_to: Any) -> Rows | None:
        """Return the stored rows with `above < column <= up_to`; None = unbounded on that side."""
        found = self.state.arrangements.get(name)
        if found is None or not self.compute.spreads(found.count):
            return None
        low, high = (number_of(found, column, value) for value in (above, up_to))
        size = found.count_range(column, low, high)
        found = self._arrangement(name, [size])
        if found is None:
            return None

        def task(buckets: int) -> _Job:
            snapshot, runs = self.state.snapshot(name)
            common = (snapshot, pa.schema([]), self.compute.scratch, buckets, None)
            columns = tuple(found.arranged.schema.names)
            return _Job(name, runs, [], SearchTask(*common, columns=columns, between=(column, low, high)))

        answers = self._run(task, size)
        return None if answers is None else self.compute.near(answers.rows(found.arranged.schema))

    # --- changes

    def append(self, name: str, rows: Rows) -> bool:
        """Insert rows from files whose `_key`s are new.

        Return whether tasks do it, each with its part of the files.
        """
        if rows.files is None or self._arrangement(name, [rows.num_rows]) is None:
            return False
        job = AppendTask(self.state.definition(name))
        self.jobs += 1
        answers = self._taken(name, (), read_answers(self.compute.run_apart(rows, job, ANSWER)), None)
        assert answers is None or sum(r.rows for r in answers.changes.runs) == rows.num_rows
        return answers is not None

    def replace(self, name: str, by: str | None, keys: SomeKeys, rows: NewRows, is_of_key: bool) -> Rows | None:
        """Make `rows` the only ones with the keys, and return the difference.

        `is_of_key`: the path depends only on the columns of `_key`. Otherwise two tasks could have rows with the same
        `_key`, whose path has changed. In this case the keys are looked up first, and all rows are sent by `_key`.
        """
        new = parts_of(rows)
        found = self._changed(name, keys, new)
        if found is None:
            return None
        if by is None or keys is None or (by != KEY and not is_of_key):
            by, keys = KEY, self._keys_before(name, found, by, keys)
        changes = self._change(ReplaceTask, name, found, by, keys, new)
        return None if changes is None else changes.rows(found.arranged.schema.append(WEIGHT_FIELD))

    def _keys_before(self, name: str, found: Arrangement, by: str | None, keys: SomeKeys) -> ColumnValues:
        """Return the `_key`s of the stored rows with these keys."""
        before = self.look_up(name, by, keys, columns=[KEY])
        if before is None:
            schema = pa.schema([found.arranged.schema.field(KEY)])
            before = Rows(pa.Table.from_batches((b.select([KEY]) for b in found.look_up(by, _given(keys))), schema))
        return keys_of([(before, KEY)])

    def overwrite(self, name: str, by: str | None, keys: SomeKeys, rows: NewRows) -> bool:
        """Make `rows` the only ones with the keys, without the difference. Return whether tasks do it."""
        new = parts_of(rows)
        found = self._changed(name, keys, new)
        if found is None:
            return False
        if by is None or keys is None:
            found.overwrite(None, None, ())
            by, keys = (
                (found.arranged.paths or (KEY,))[0],
                pa.array([], pa.int64() if found.arranged.paths else pa.string()),
            )
        return self._change(OverwriteTask, name, found, by, keys, new) is not None

    def _changed(self, name: str, keys: SomeKeys, new: Sequence[SelectedRows]) -> Arrangement | None:
        return self._arrangement(name, [*_sizes(keys), *(p.rows.num_rows for p in new)])

    def _change(
        self,
        kind: type[ReplaceTask | OverwriteTask],
        name: str,
        found: Arrangement,
        by: str,
        keys: SomeKeys,
        new: Sequence[SelectedRows],
    ) -> TaskAnswers | None:
        schema = found.arranged.schema
        parts = keys.parts if isinstance(keys, ColumnValues) and keys.array is None else ()
        # keys that are a column of the new rows come with these
        among = [p.rows for p in new if by == KEY and any(r is p.rows and c == p.columns[KEY] for r, c in parts)]
        others, files = self._sent_keys(by, keys, among)
        sent = [
            *(
                Sent(p.rows, {n: p.columns[n] for n in schema.names}, by, p.choice, drops=not _holds(among, p.rows))
                for p in new
            ),
            *others,
        ]

        def task(buckets: int) -> _Job:
            snapshot, runs = self.state.snapshot(name)
            common = (snapshot, schema, self.compute.scratch, buckets, by, files)
            made = OverwriteTask(*common, with_new=bool(among)) if kind is OverwriteTask else ReplaceTask(*common)
            return _Job(name, runs, sent, made)

        return self._run(task, max([0, *_sizes(keys), *(p.rows.num_rows for p in new)]))

    def mapped(
        self, rows: Rows, schema: pa.Schema, function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    ) -> Rows | None:
        """Apply a function to batches of rows of any size."""
        if (
            rows.is_collected
            or not self.compute.spreads(rows.known_rows)  # a frame is not run to count it
            or not (fits_parquet(schema) and fits_parquet(rows.schema))
        ):
            return None
        self.jobs += 1
        task = MapTask(rows.schema, schema, self.compute.scratch, function)
        return read_answers(self.compute.run_apart(rows, task, ANSWER)).check(None).rows(schema)

    # --- jobs

    def _sent_keys(
        self, by: str | None, keys: SomeKeys, but: Sequence[Rows] = ()
    ) -> tuple[list[Sent], KeyFiles | None]:
        """Return how keys are sent to tasks: keys of a path in files that each task reads, `_key`s as rows."""
        if keys is None or by is None:
            return [], None
        array = keys.array if isinstance(keys, ColumnValues) else keys
        if array is None:
            assert isinstance(keys, ColumnValues)
            parts = keys.parts
        else:
            parts = ((Rows(pa.table([array], ["k"])), "k"),)
        if by == KEY:
            return [
                Sent(r, {KEY: c}, KEY, is_keys=True) for r, c in parts if not _holds(but, r) and not r.is_empty
            ], None
        return [], KeyFiles(tuple(f for r, c in parts if not r.is_empty for f in self.compute.filed(r, c)))

    def _run(self, job_of: Callable[[int], _Job], size: int) -> TaskAnswers | None:
        """Run a job, and take over its changes."""
        buckets = self.compute.buckets(size)
        job = job_of(buckets)
        self.jobs += 1
        answers = read_answers(self.compute.run_buckets(job.sent, job.task, ANSWER))
        return self._taken(job.name, job.runs, answers, buckets)

    def _taken(self, name: str, runs: Sequence[Run], answers: TaskAnswers, buckets: int | None) -> TaskAnswers | None:
        """Take over the changes of tasks. Return None if a task cannot see the state."""
        try:
            answers.check(buckets)
        except Exception:
            self.state.forget_apart(answers.changes)
            raise
        if answers.is_blind:
            self.state.is_seen = False
            self.state.forget_apart(answers.changes)
            return None
        self.state.take_over(name, runs, answers.changes)
        return answers


def number_of(found: Arrangement, column: str, value: Any) -> int | None:
    """Return a value of a range column as the number that is indexed."""
    return None if value is None else number(value, found.arranged.schema.field(column).type)


def _holds(some: Sequence[Rows], rows: Rows) -> bool:
    return any(r is rows for r in some)


def _given(keys: SomeKeys) -> pa.Array | pa.RecordBatchReader | None:
    return keys.given() if isinstance(keys, ColumnValues) else keys


def _expected(found: Arrangement, keys: SomeKeys) -> list[int]:
    """Return the estimated number of rows that keys will find, per part: the previous average per key, and at least one
    per key."""
    for_each = max(1.0, found.found / max(1, found.asked))
    return [int(size * for_each) for size in _sizes(keys)]


def _sizes(keys: SomeKeys) -> list[int]:
    """Return the number of keys per part."""
    if keys is None:
        return []
    if not isinstance(keys, ColumnValues):
        return [len(keys)]
    return [len(keys.array)] if keys.array is not None else [r.num_rows for r, _ in keys.parts]
