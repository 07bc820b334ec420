"""Re-reading of past input, to fill views that are new or changed over inputs whose rows are not stored.

In: the ranges that the store has recorded, connectors that can re-read them. Out: all earlier rows of these inputs,
unchanged: checked against the bounds of their epochs, with the same `_uid` and `_ingest_time`. They are in scratch
files: a run that stops before they are used starts again. Nothing is written to the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.connectors.connector import Arrived, OffsetRange, RereadableFeed
from belvedere.connectors.replay import Past, past_of
from belvedere.connectors.run_records import not_as_it_was
from belvedere.connectors.source_readings import SINCE, Reading, as_today, feed_of, reading_at
from belvedere.engine.epoch import Engine
from belvedere.engine.epoch_row.source_spans import PastSpan, PastSpans
from belvedere.engine.ingest import stamp
from belvedere.engine.late_rows import judge
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows, as_rows
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.errors import counted
from belvedere.pipeline.refill import DOCUMENT
from belvedere.process.activity import NOW
from belvedere.project.settings import ProjectSettings
from belvedere.spark.run.epoch_sources import conformed
from belvedere.spark.run.row_rejection import without
from belvedere.store.protocol import Store
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes
from belvedere.time.event_time import Clocks
from belvedere.values.instants import microseconds
from belvedere.values.pieces import in_pieces

FEW = 20_000
"""Maximum number of rows that are re-read before an epoch; more are re-read while views run."""
SLOW_READ_SECONDS = 10.0
"""Seconds after which a slow read of a source is reported."""


@dataclass(frozen=True)
class _SpanPart:
    """A part of the rows that an epoch ingested."""

    past: PastSpan
    content: OffsetRange | pa.Table | None
    """A range of the source, or retried rejected rows; None after the last part, when all rows are read."""
    reading: Reading | None = None
    """The way in which the epoch read the source."""
    excluded: Sequence[int] = ()
    """The positions of rows that the epoch excluded."""


class Backfill:
    """The rows so far of some inputs, read a part at a time."""

    def __init__(
        self, spark: SparkSession, catalog: Catalog, project: ProjectSettings, past: Past, ids: Collection[str]
    ):
        """Raises B7070 at once if rows read earlier are missing or have changed."""
        self.spark, self.project = spark, project
        self._inputs = {i: _InputBefore(catalog, catalog.inputs[i], project) for i in ids if i in past.spans}
        self._todo: Iterator[_SpanPart] = iter(())
        self._after = 0
        """The last epoch whose parts are known."""
        self.read = self.total = 0
        """Number of re-read rows, and of the rows of all epochs so far."""
        self.go_on(past)

    @property
    def ids(self) -> frozenset[str]:
        """Return the inputs that are re-read."""
        return frozenset(self._inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the inputs."""
        return tuple(b.table.name for b in self._inputs.values())

    def go_on(self, past: Past) -> None:
        """Add the epochs that were committed meanwhile. Raises B7070 if a part of them is missing or has changed."""
        spans = [past.spans[i].after(self._after) for i in self._inputs if i in past.spans]
        for part in self._parts(past, spans):
            self._after = max(self._after, part.past.epoch)
        self.total += sum(s.used for s in spans)
        self._todo = chain(self._todo, self._parts(past, spans))

    def _parts(self, past: Past, spans: Iterable[PastSpans]) -> Iterator[_SpanPart]:
        """Yield the parts of all epochs, created on use: there may be a million."""
        for found in merge(*spans, key=lambda s: s.epoch):
            span = replace(found, left=past.left.get((found.span.input, found.epoch), {}))
            id_, reading = span.span.input, reading_at(past.readings.get(span.span.input, ()), span.epoch)
            excluded = past.excluded.get(id_, {}).get(str(span.epoch), ())
            files = past.files.get((id_, span.epoch), [])
            again = span.span.end is None
            parts = past.retried[id_, span.epoch] if again else self._inputs[id_].feed(reading).past(span, files)
            for content in chain(parts, [None]):
                yield _SpanPart(span, content, reading, excluded)

    def step(self) -> bool:
        """Read the next part, and return whether there was one. Raises B7070 if rows are missing or have changed."""
        part = next(self._todo, None)
        if part is None:
            return False
        before = self._inputs[part.past.span.input]
        NOW.begin(f"reading {before.table.name} again, {self.read:,} of {self.total:,} rows", SLOW_READ_SECONDS)
        self.read += before.take(self.spark, part)
        return True

    @property
    def left(self) -> int:
        """Return the number of rows still to be read."""
        return self.total - self.read

    def rows(self) -> dict[str, Rows]:
        """Return all rows so far by input id, once everything is read."""
        return {i: b.rows() for i, b in self._inputs.items()}

    def close(self) -> None:
        """Close the open resources of the feeds."""
        for before in self._inputs.values():
            before.close()


class _InputBefore:
    """One input: the clocks and numbers that reading has reached, and the rows so far."""

    def __init__(self, catalog: Catalog, table: Input, project: ProjectSettings):
        self.catalog, self.table, self.project = catalog, table, project
        self._feeds: dict[str, RereadableFeed] = {}
        self._chunk = max(1, project.driver_memory // 16)
        self._rows = Scratch(table.schema.arrow.append(WEIGHT_FIELD))
        self._clocks: Clocks | None = None
        self._used = self._refused = self._read = 0

    def feed(self, reading: Reading | None) -> RereadableFeed:
        """Return the feed that reads in the way of an epoch."""
        how = json.dumps({} if reading is None else {k: v for k, v in reading.items() if k != SINCE}, sort_keys=True)
        if how not in self._feeds:
            self._feeds[how] = feed_of(self.table, self.project, reading)
        return self._feeds[how]

    def close(self) -> None:
        """Close the open resources of the feeds."""
        for feed in self._feeds.values():
            feed.close()

    def take(self, spark: SparkSession, part: _SpanPart) -> int:
        """Check and stamp the rows of one part. Return the number of used rows."""
        past = part.past
        if self._clocks is None:
            self._clocks, self._used, self._refused, self._read = past.span.clocks, 0, 0, 0
        if part.content is None:
            self._check(past)
            self._clocks = None
            return 0
        if isinstance(part.content, OffsetRange):
            feed = self.feed(part.reading)
            arrived = conformed(as_today(feed.read(spark, part.content), self.table), self.table)
            feed.committed(part.content)
        else:
            arrived = conformed(as_today(Arrived(part.content), self.table), self.table)
        least, clock = past.span.since, microseconds(past.clock)
        times = NO_TIMES if least is None else arrived.times.within(least, clock)
        used, self._clocks, judged = judge(
            self.catalog,
            self._clocks,
            {self.table.id: arrived.rows},
            past.clock,
            {self.table.id: arrived.marks},
            {self.table.id: arrived.producers},
            {self.table.id: times},
        )
        rows = cast("pa.Table | Rows", used[self.table.id])
        count = self._add(rows, past, part.excluded, judged.get(self.table.id, NO_TIMES))
        self._refused += arrived.refused
        return count

    def _add(self, rows: pa.Table | Rows, past: PastSpan, excluded: Sequence[int], times: ArrivalTimes) -> int:
        count, before = 0, self._read
        times = times.without([n - before for n in excluded if before <= n < before + len(times)])
        for piece in in_pieces(as_rows(rows).batches(), self._chunk, rows.schema):
            self._read += piece.num_rows
            bad = [n + piece.num_rows - self._read for n in excluded if self._read - piece.num_rows <= n < self._read]
            self._refused += len(bad)
            taken = without(piece, bad) if bad else piece
            arrived = times.of_rows(count, taken.num_rows) if times else None
            stamped = stamp(taken.combine_chunks(), self.table, past.first_uid + self._used, past.clock, arrived)
            self._rows.add(stamped.cast(self._rows.schema))
            self._used += stamped.num_rows
            count += stamped.num_rows
        return count

    def _check(self, past: PastSpan) -> None:
        """Check that the re-read rows are those of the epoch.

        If all rejected rows are recorded, the result of today's checks does not matter.
        """
        if self._used != past.span.used or (self._refused != past.span.refused and not past.left):
            then, now = (
                f"{counted(u, 'row')} used and {r:,} rejected"
                for u, r in ((past.span.used, past.span.refused), (self._used, self._refused))
            )
            raise not_as_it_was(f"the input of epoch {past.epoch} now has {now}, and had {then}", self.table.name)

    def rows(self) -> Rows:
        return as_rows(self._rows.rows())


def fill_before(
    engine: Engine, backfill: Backfill, is_stopped: Callable[[], bool], between: Callable[[], None] = lambda: None
) -> bool:
    """Pass an engine, before its first epoch, the rows so far that it needs.

    Return whether they are complete: the reading can be stopped.

    `between` is called after each part.
    """
    while not is_stopped():
        if not backfill.step():
            engine.tables.past = backfill.rows()
            return True
        between()
    return False


class ConcurrentBackfill:
    """Re-reads a part between two epochs of the running views, and reports the progress in the store and to the
    user."""

    def __init__(
        self, backfill: Backfill, views: Sequence[str], catalog: Catalog, store: Store, phase: Callable[[str], None]
    ):
        """`views` are the waiting ones; `phase` is called with the present activity."""
        self._backfill, self._views, self._catalog, self._store, self._phase = backfill, views, catalog, store, phase
        self._reported = time.monotonic()
        rows = f"{counted(backfill.total, 'row')} of {', '.join(backfill.names)}"
        phase(f"{', '.join(views)} will be available after the re-read of {rows}; the other views continue")
        self._note()

    def __call__(self) -> bool:
        """Return whether all rows except a few are read."""
        if not self._backfill.step():
            self._backfill.go_on(past_of(self._catalog, self._store, self._backfill.ids))
            return self._backfill.left <= FEW
        if time.monotonic() - self._reported >= SLOW_READ_SECONDS:
            self._reported = time.monotonic()
            self._phase(
                f"filling {', '.join(self._views)}: {self._backfill.read:,} of {self._backfill.total:,} rows read"
            )
        self._note()
        return False

    def _note(self) -> None:
        found = {"views": list(self._views), "rows": self._backfill.total, "read": self._backfill.read}
        self._store.set_document(DOCUMENT, json.dumps(found))
