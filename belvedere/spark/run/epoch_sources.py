"""The sources of a script: the new data in each, and the data that an epoch ingests.

In: the catalog's imports, the project file, and from the store the last epoch's offsets and the files read so far. Out:
per epoch the arrivals with rejected rows, files and offsets. Only the store records what was read: a feed continues
from its offset in the epoch's row.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.connectors.connector import Arrived, Feed, NoteStore, OffsetRange, RenamingFeed
from belvedere.connectors.feeds import columns_of, open_feed
from belvedere.connectors.outage_backoff import is_final
from belvedere.connectors.push import OFFSET, Pushes, Unpushed
from belvedere.connectors.replay import is_rereadable
from belvedere.connectors.run_records import RejectedRow, SourceFile
from belvedere.connectors.source_readings import OFFSET as READINGS
from belvedere.connectors.source_readings import Reading, reading_of, with_reading
from belvedere.engine.by_tasks.file_tasks import FileTasks
from belvedere.engine.change.lost_rows import changed_inputs, refuse
from belvedere.engine.change.stored_relations import DEFINITIONS
from belvedere.engine.epoch_row.source_spans import SourceSpan
from belvedere.engine.late_rows import judge
from belvedere.engine.rows.epoch_rows import Memory, Rows
from belvedere.engine.rows.scratch_rows import scratch_frame
from belvedere.errors import BelvedereError, counted, fail
from belvedere.process.activity import NOW
from belvedere.project.settings import ProjectSettings
from belvedere.schema import WEIGHT
from belvedere.store.protocol import EpochRow
from belvedere.time.arrival_columns import ArrivalTimes, earliest
from belvedere.time.event_time import Clocks, pass_time
from belvedere.time.pending_arrivals import Waiting
from belvedere.values.decimals import decimals_of
from belvedere.values.instants import microseconds
from belvedere.values.time_range import rows_beyond

SLOW_READ_SECONDS = 10.0
"""Seconds after which a slow read of a source is reported."""


@dataclass(frozen=True)
class New:
    """New data at a moment: ranges of feeds by input id, and pushed rows."""

    spans: Mapping[str, OffsetRange]
    waiting: Waiting
    retried: Mapping[str, Arrived] = field(default_factory=dict)
    """Rejected rows that are valid now, by input id."""
    is_retry: bool = False
    renames: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Recorded names of files with the present names of the same files, by input id."""

    def __bool__(self) -> bool:
        """Return whether there is new data."""
        return bool(self.spans or self.waiting.entries or self.is_retry or self.renames)


@dataclass(frozen=True)
class EpochInput:
    """The input of an epoch: arrivals by input id, pushed rows, the rows to use, and the clocks after all of it."""

    new: New
    arrived: Mapping[str, Arrived]
    arrivals: Mapping[str, pa.Table | Rows | DataFrame]
    clocks: Clocks
    spans: tuple[SourceSpan, ...] = ()
    """Ranges of re-readable sources."""
    excluded: tuple[RejectedRow, ...] = ()
    """Rows that the epoch must exclude, although they are valid."""
    times: Mapping[str, ArrivalTimes] = field(default_factory=dict)
    """Times of arrival of the rows to use, by input id, if their sources report them."""

    @property
    def rejected(self) -> list[RejectedRow]:
        pushed = [
            RejectedRow(i, "pushed", m.index + 1, m.text, m.reason)
            for i, found in self.new.waiting.malformed.items()
            for m in found
        ]
        return [r for a in self.arrived.values() for r in a.rejected] + pushed + list(self.excluded)

    @property
    def refused(self) -> dict[str, int]:
        """Return the number of rejected rows and files, by input id."""
        found = Counter({i: a.refused for i, a in self.arrived.items() if a.refused})
        found.update({i: len(m) for i, m in self.new.waiting.malformed.items()})
        found.update(r.table for r in self.excluded)
        return dict(found)

    @property
    def emptied(self) -> tuple[str, ...]:
        """Return the inputs whose earlier rows are all deleted."""
        return tuple(i for i, a in self.arrived.items() if a.is_emptied)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(n for a in self.arrived.values() for n in a.notices)

    @property
    def files(self) -> list[tuple[str, SourceFile]]:
        return [(i, f) for i, a in self.arrived.items() for f in a.files]


class EpochSources:
    """All sources of a script."""

    def __init__(
        self,
        catalog: Catalog,
        feeds: Mapping[str, Feed],
        pushes: Pushes,
        offsets: Mapping[str, Any],
        readings: Mapping[str, Any] | None = None,
        reads: Mapping[str, Reading] | None = None,
        memory: Memory | None = None,
    ):
        """`memory` counts the rows that feeds have read, until their epoch is done.

        `feeds` and the `offsets` from which they continue are by input id. `readings` are the ways in which sources
        were read so far, `reads` the present ones.
        """
        self._readings, self._reads = dict(readings or {}), dict(reads or {})
        self.catalog, self.feeds, self.pushes = catalog, dict(feeds), pushes
        self.memory = memory or Memory(0)
        self._offsets = {i: dict(offsets.get(i, {})) for i in feeds}
        self._has_idle = any(w.idle_after is not None for t in catalog.inputs.values() for w in t.watermarks)
        self._reported: dict[str, str] = {}
        self.retried: Mapping[str, Arrived] | None = None
        """Rejected rows that are valid now. The next epoch ingests only these from its feeds."""

    def look(self, now: datetime, once: bool = False, notify: Callable[[str], None] = lambda text: None) -> New:
        """Return the new data; retried rejected rows come first.

        A feed that cannot be checked ends a run with `once`, or if a person has to act; otherwise the problem is
        reported and the run continues.
        """
        if self.retried is not None:
            return New({}, self.pushes.waiting(microseconds(now)), self.retried, is_retry=True)
        spans = {}
        for id_, feed in self.feeds.items():
            try:
                found = feed.look(now, once)
            except BelvedereError as error:
                if once or is_final(error):
                    raise
                self._report_once(id_, error, notify)
                continue
            self._reported.pop(id_, None)
            if found is not None:
                spans[id_] = found
        renaming = {i: f for i, f in self.feeds.items() if isinstance(f, RenamingFeed)}
        for text in (n for f in renaming.values() for n in f.notices()):
            notify(text)
        renames = {i: names for i, f in renaming.items() if (names := f.renames())}
        return New(spans, self.pushes.waiting(microseconds(now)), renames=renames)

    def _report_once(self, id_: str, error: BelvedereError, notify: Callable[[str], None]) -> None:
        """Report a problem once while it stays the same."""
        text, hint = error.diagnostics[0].message, error.diagnostics[0].hint
        is_new = text not in self._reported.values()
        self._reported[id_] = text
        if is_new:
            notify(f"{text}; trying again" + (f" ({hint})" if hint else ""))

    def report_outage(self, error: BelvedereError, notify: Callable[[str], None]) -> None:
        """Report that the data to read is unavailable."""
        self._report_once("", error, notify)

    def take(
        self,
        spark: SparkSession,
        new: New,
        now: datetime,
        since: datetime | None = None,
        tasks: FileTasks | None = None,
    ) -> EpochInput:
        """Return the new data as checked rows. `since` is the clock of the previous epoch; `tasks` check many rows."""
        arrived: dict[str, Arrived] = dict(new.retried)
        for id_, span in new.spans.items():
            (NOW.begin if arrived else NOW.read)(f"reading {self.catalog.inputs[id_].name}", SLOW_READ_SECONDS)
            found = arrived[id_] = read_span(self.feeds[id_], self.catalog.inputs[id_], spark, span)
            if isinstance(found.rows, pa.Table):
                self.memory.hold(found.rows, found.rows.nbytes)
        read = {i: a.rows for i, a in arrived.items() if a.rows.num_rows or a.marks}
        marks, producers = ({i: a.marks for i, a in arrived.items()}, {i: a.producers for i, a in arrived.items()})
        least = {i: earliest(self.catalog.inputs[i], since, now) for i, a in arrived.items() if a.times}
        times = {i: arrived[i].times.within(clock, microseconds(now)) for i, clock in least.items()}
        used, clocks, times = judge(self.catalog, new.waiting.clocks, read, now, marks, producers, times, tasks)
        used = {i: rows for i, rows in used.items() if rows.num_rows}
        for id_, taken in arrived.items():
            clocks = clocks.counted(id_, taken.refused, malformed=taken.refused) if taken.refused else clocks
        spans = tuple(self._spans(new, arrived, used, least))
        return EpochInput(new, arrived, used | new.waiting.arrivals(self.catalog), clocks, spans, times=times)

    def _spans(
        self, new: New, arrived: Mapping[str, Arrived], used: Mapping[str, Any], since: Mapping[str, int]
    ) -> Iterator[SourceSpan]:
        """Yield the ranges to record, so that the same rows can be re-read."""
        for id_, taken in arrived.items():
            if is_rereadable(self.catalog.inputs[id_]):
                end = None if id_ in new.retried else new.spans[id_].end
                clocks = Clocks(
                    {i: streams for i, streams in new.waiting.clocks.streams.items() if i == id_ and streams}
                )
                rows = used[id_].num_rows if id_ in used else 0
                yield SourceSpan(id_, self._offsets.get(id_, {}), end, rows, taken.refused, clocks, since.get(id_))

    def idles(self, now: datetime) -> bool:
        """Return whether time alone raises a bound: a producer was silent for longer than allowed."""
        if not self._has_idle:
            return False
        clocks = self.pushes.waiting().clocks
        return pass_time(clocks, self.catalog, microseconds(now)) != clocks

    def offsets(self, new: New, epoch: int = 0) -> dict[str, Any]:
        """Return the offsets of all sources by input id, after `new` is committed in an epoch.

        Reserved names hold the offset of the journal, and how sources were read.
        """
        offsets: dict[str, Any] = self._offsets | {i: dict(s.end) for i, s in new.spans.items()}
        journal = self.pushes.offset(new.waiting)
        for id_ in self._reads.keys() & new.spans.keys():
            self._readings = with_reading(self._readings, id_, epoch, self._reads[id_])
        return offsets | ({OFFSET: journal} if journal else {}) | ({READINGS: self._readings} if self._readings else {})

    def committed(self, new: New, clocks: Clocks) -> None:
        """Record that the epoch with `new` is in the store, and that the clocks are now `clocks`."""
        for id_, span in new.spans.items():
            self._offsets[id_] = dict(span.end)
            self.feeds[id_].committed(span)
        for feed in (self.feeds[i] for i in new.renames):
            assert isinstance(feed, RenamingFeed)
            feed.renamed()
        if new.is_retry:
            self.retried = None
        self.pushes.committed(new.waiting, clocks)

    def close(self) -> None:
        """Close the open resources of the feeds."""
        for feed in self.feeds.values():
            with contextlib.suppress(BelvedereError):
                feed.close()


def read_span(feed: Feed, table: Input, spark: SparkSession, span: OffsetRange) -> Arrived:
    """Read a span's rows with the columns of the input, from any connector."""
    return conformed(feed.read(spark, span), table)


def conformed(found: Arrived, table: Input) -> Arrived:
    """Return a connector's rows with the columns of the input. Raises B6024."""
    rows = scratch_frame(found.rows) if isinstance(found.rows, DataFrame) else found.rows
    if found.times and len(found.times) != rows.num_rows:
        assert table.source is not None
        what = f"{counted(len(found.times), 'time')} of arrival for {counted(rows.num_rows, 'row')}"
        hint = "return in `Arrived.times` a time for each row, or none"
        raise fail("B6024", f'the connector "{table.source.connector}" gives "{table.name}" {what}', hint=hint)
    if not isinstance(rows, pa.Table):
        return replace(found, rows=rows)
    return _without_times_beyond(found, _conformed(rows, table), table)


def _without_times_beyond(found: Arrived, rows: pa.Table, table: Input) -> Arrived:
    """Return a connector's rows, without those whose time no column can hold, if the connector has not
    rejected them.
    """
    bad = rows_beyond(rows, columns_of(table))
    if not bad:
        return replace(found, rows=rows)
    rejected = tuple(RejectedRow(table.id, None, None, None, reason) for reason in bad.values())
    kept = rows.filter(pa.array(np.isin(np.arange(rows.num_rows), list(bad), invert=True)))
    refused = found.refused + len(bad)
    times = found.times.without(bad)
    return replace(found, rows=kept, rejected=(*found.rejected, *rejected), refused=refused, producers=(), times=times)


def _cast(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_decimal(type_) or values.type == type_:
        return values.cast(type_)
    return pa.chunked_array([decimals_of(chunk, type_) for chunk in values.chunks], type_)


def open_sources(
    catalog: Catalog,
    project: ProjectSettings,
    last: EpochRow | None,
    read_files: Mapping[str, set[str]],
    fresh: Iterable[str] = (),
    ingest_service: Pushes | None = None,
    misfits: Mapping[str, str] | None = None,
    former: Callable[[str, pa.Table], pa.Table] | None = None,
    notes: NoteStore | None = None,
    noted: Callable[[str], Sequence[SourceFile]] = lambda id_: (),
) -> EpochSources:
    """Return the sources of a catalog's imports, from the positions that the store has recorded; from their start for
    inputs in `fresh`.

    `ingest_service` receives the rows that clients push. `misfits` are the reasons why rows of changed inputs are no
    longer valid. `former` looks up stored rows of an input by their keys. `notes` are texts that the store keeps for
    feeds. `noted` returns an input's files as they were when they were read.

    Raises B7031 if an input to which clients push has changed: its rows cannot be re-read.
    """
    renewed = set(fresh)
    if last is not None:
        refuse(changed_inputs(catalog, renewed & set(last.extra.get(DEFINITIONS, {})), misfits or {}))
    offsets = {} if last is None else {i: o for i, o in last.offsets.items() if i not in renewed}
    feeds: dict[str, Feed] = {}
    memory = Memory(project.driver_memory)
    try:
        for id_, table in catalog.inputs.items():
            if table.source is not None:
                known = set() if id_ in renewed else read_files.get(id_, set())
                found = None if former is None else partial(former, id_)
                files = partial(noted, id_)
                feeds[id_] = open_feed(
                    table, project, offsets.get(id_, {}), frozenset(known), found, notes, files, memory
                )
    except BelvedereError:
        for feed in feeds.values():
            feed.close()
        raise
    clocks = Clocks.of_document(last.bounds) if last else Clocks()
    reads = {i: reading_of(t, project) for i, t in catalog.inputs.items() if is_rereadable(t)}
    return EpochSources(
        catalog, feeds, ingest_service or Unpushed(catalog, clocks), offsets, offsets.get(READINGS), reads, memory
    )


def _conformed(rows: pa.Table, table: Input) -> pa.Table:
    """Return the input's columns in its types. Raises B6024 if a connector returns others."""
    assert table.source is not None
    columns = {c.name: c for c in columns_of(table)}
    types = {n: c.type for n, c in columns.items()} | ({} if table.append_only else {WEIGHT: pa.int64()})
    names = [n for n in rows.schema.names if n in types]
    try:
        return pa.table(
            [_cast(rows[n], types[n]) for n in names], schema=pa.schema([pa.field(n, types[n]) for n in names])
        )
    except (pa.ArrowException, ValueError) as error:
        raise fail(
            "B6024",
            f'the connector "{table.source.connector}" returned rows that do not fit "{table.name}"',
            detail=str(error).split("\n")[0],
            hint="rows must have the names and types of the table's columns",
        ) from error
