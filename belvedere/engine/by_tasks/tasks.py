"""The functions that run in tasks: look-ups and changes of an arrangement, each for the task's share of the keys.

In: batches that Spark sends, in another process; a snapshot of the arrangement. Out: answers (`task_answers`); rows are
written to files. `Arrangement` does the work itself, unchanged. A retried task writes other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.by_tasks.buckets import KeyFiles, Share, share_of
from belvedere.engine.by_tasks.task_answers import (
    batch_of,
    of_blind,
    of_bucket,
    of_changes,
    of_error,
    of_file,
    of_stray,
    scratch_file,
)
from belvedere.engine.rows.epoch_rows import conform, weighted_stream
from belvedere.errors import BelvedereError
from belvedere.schema import KEY, WEIGHT
from belvedere.state.arrangement import Arrangement
from belvedere.state.snapshots import ArrangementSnapshot, opened

Answers = Iterator[tuple[Any, ...]]
RunTask: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function over the batches of one task."""


@dataclass(frozen=True)
class BucketTask:
    """Parameters of all tasks. `keys` are those of a path; `_key`s are sent with the rows.

    Without `by`, all keys are included.
    """

    snapshot: ArrangementSnapshot
    schema: pa.Schema
    folder: Path
    buckets: int
    by: str | None
    keys: KeyFiles | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            answers = list(self._answers(share_of(batches, self.schema)))
        except BelvedereError as error:
            answers = [of_error(error)]
        if answers:
            yield batch_of(answers)

    def _answers(self, share: Share) -> Answers:
        if share.strays:
            yield of_stray(min(share.strays))
            return
        yield from map(of_bucket, sorted(share.own))
        if share.own:
            yield from self.run(share)

    def run(self, share: Share) -> Answers:
        """Process the task's share."""
        raise NotImplementedError

    def keys_of(self, share: Share) -> pa.Array | None:
        """Return the keys of this task."""
        return share.keys if self.keys is None else self.keys.share(share.own, self.buckets)


@dataclass(frozen=True)
class SearchTask(BucketTask):
    """Finds the rows of the task's keys. For all keys, it reads the task's share of the runs.

    Only `columns` of them are requested. `between`: a range column, above which number, up to which number.
    """

    columns: tuple[str, ...] = ()
    between: tuple[str, int | None, int | None] | None = None

    def run(self, share: Share) -> Answers:
        if self.by is not None:
            yield from self._found((0, 1), self.keys_of(share))
            return
        for number in sorted(share.own):
            yield from self._found((number, self.buckets), None)

    def _found(self, part: tuple[int, int], keys: pa.Array | None) -> Answers:
        with opened(self.snapshot, part) as own:
            if own is None:
                yield of_blind()
                return
            schema = pa.schema([own.arrangement.arranged.schema.field(n) for n in self.columns])
            file = scratch_file(self.folder, schema)
            of = own.arrangement
            found = of.look_up(self.by, keys) if self.between is None else of.look_up_range(*self.between)
            for batch in found:
                file.add(batch.select(schema.names))
            yield from of_file(file)
            yield from of_changes(own.changes())


@dataclass(frozen=True)
class ReplaceTask(BucketTask):
    """Makes the received rows the only ones with the task's keys.

    The difference is written to a file, with weights.
    """

    def run(self, share: Share) -> Answers:
        with opened(self.snapshot) as own:
            if own is None:
                yield of_blind()
                return
            yield from self._changed(own.arrangement, share)
            yield from of_changes(own.changes())

    def _changed(self, arrangement: Arrangement, share: Share) -> Answers:
        schema, going = arrangement.arranged.schema, 0

        def counted() -> Iterator[tuple[pa.RecordBatch, int]]:
            nonlocal going
            for batch, weight in arrangement.replace(self.by, self.keys_of(share), share.rows):
                going += batch.num_rows if weight < 0 else 0
                yield batch, weight

        changes = weighted_stream(schema, counted())
        file = scratch_file(self.folder, changes.schema)
        for batch in changes:
            file.add(batch)
        yield from of_file(file, going)


@dataclass(frozen=True)
class OverwriteTask(BucketTask):
    """Makes the received rows the only ones with the task's keys, without the difference.

    `with_new`: the keys of the received rows are included.
    """

    with_new: bool = False

    def run(self, share: Share) -> Answers:
        with opened(self.snapshot) as own:
            if own is None:
                yield of_blind()
                return
            keys = self.keys_of(share)
            if self.with_new and self.by == KEY:
                keys = pa.concat_arrays([keys, *(b.column(KEY) for b in share.rows)])
            own.arrangement.overwrite(self.by, keys, share.rows)
            yield from of_changes(own.changes())


@dataclass(frozen=True)
class AppendTask:
    """Inserts rows whose `_key`s are new into an arrangement. It needs none of its runs, and no exchange."""

    snapshot: ArrangementSnapshot

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield batch_of(list(self._answers(batches)))

    def _answers(self, batches: Iterator[pa.RecordBatch]) -> Answers:
        with opened(self.snapshot) as own:
            if own is None:
                yield of_blind()
                return
            own.arrangement.append(batches)
            yield from of_changes(own.changes())


@dataclass(frozen=True)
class MapTask:
    """Applies a function to batches of rows of any size. Its result is written to a file."""

    given: pa.Schema
    schema: pa.Schema
    folder: Path
    function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = scratch_file(self.folder, self.schema)
        rows = (b for given in batches for b in conform(pa.Table.from_batches([given]), self.given).to_batches())
        going = 0
        for batch in self.function(rows):
            file.add(batch)
            if WEIGHT in self.schema.names:
                going += int(pc.sum(pc.less(batch.column(WEIGHT), 0)).as_py() or 0)
        if answers := list(of_file(file, going)):
            yield batch_of(answers)
