"""The feed of a table: finds new offsets in its topics, shares them fairly among partitions, and reads their rows.

In: the feed's parameters. Out: ranges of offsets by partition, and their rows with rejections. Its progress is in the
epoch's row (`topic_offsets`); Kafka stores none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

import numpy as np

from belvedere.connectors.connector import Arrived, FeedRequest, OffsetRange
from belvedere.connectors.kafka.client import client_settings
from belvedere.connectors.kafka.message_chunks import Gathered, gathered
from belvedere.connectors.kafka.message_rows import Chunk, MessageShape
from belvedere.connectors.kafka.ranges import MessageRange, RangeReader, lost_offsets
from belvedere.connectors.kafka.read_tasks import read_by_tasks
from belvedere.connectors.kafka.table_options import format_options, keys_of, metadata_of, starting_of, topic_of
from belvedere.connectors.kafka.topic_offsets import TopicOffsets
from belvedere.connectors.kafka.topics import Cluster, Place, Topic, no_topic
from belvedere.connectors.outage_backoff import Away
from belvedere.connectors.run_records import SourceFile, not_as_it_was
from belvedere.engine.epoch_row.source_spans import PastSpan
from belvedere.engine.rows.epoch_rows import fits_parquet
from belvedere.errors import BelvedereError, fail
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes, Ints
from belvedere.time.intake_entries import Act, BoundMark, ProducerAct
from belvedere.values.instants import microseconds

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

MAX_ROWS = 1_000_000
FEW_MESSAGES = 30_000
"""Maximum number of messages that are read in the driver: a Spark job takes longer."""
SAMPLE_SECONDS = 10.0
"""Maximum seconds that a sample waits for a message."""
KEPT_SECONDS = 60.0
"""Seconds between two reads of a topic's retention of tombstones."""
SHORT_MILLISECONDS = 1_000
"""Milliseconds without a read of a topic within which it loses no tombstone."""
TOPICS_SECONDS = 5.0
"""Seconds between checks for new topics and partitions."""


class KafkaFeed:
    """The feed of one table's topics, with the progress in each partition."""

    def __init__(self, requested: FeedRequest):
        source, table = requested.source, requested.input
        self.source, self.input, self.topic = source.name, table, topic_of(source, requested.table)
        self.settings = client_settings("source", source.name, requested.options)
        self.cluster = Cluster(source.name, self.settings)
        self.starting, self.skips = (
            starting_of(source.name, requested.options),
            requested.options.get("on_lost") == "skip",
        )
        self.most = int(requested.options.get("max_rows", MAX_ROWS))
        options = format_options(source, requested.table, requested.options)
        self.shape = MessageShape(
            source.format or "json",
            tuple(requested.columns),
            metadata_of(source, requested.table),
            table.primary_key,
            options,
            keys_of(source, requested.table, requested.options),
        )
        self.memory = requested.memory
        self.offset = TopicOffsets.of_document(requested.offset)
        self.goes_through_files = fits_parquet(self.shape.schema)
        self._reader: RangeReader | None = None
        self._topics: list[Topic] = []
        self._asked = -TOPICS_SECONDS
        self._last: dict[Place, int] | None = None
        """With `once`: the end offsets at the first look."""
        self._away = Away()
        self._notices: list[str] = []
        self._found: tuple[Mapping[str, Topic], Mapping[Place, int]] | None = None
        self._asked_past = 0.0
        self._looked: dict[str, int] = {}
        """Last time at which this run had read all of a topic, in milliseconds since 1970."""
        self._behind: dict[str, int] = {}
        """Time since which the topics of the last range have unread messages."""
        self._kept: dict[str, tuple[float, int | None]] = {}

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the range of unread offsets; if there are more than `max_rows`, an equal share of each partition."""
        if self._away.failure is not None and self._away.is_pausing and not once:
            raise self._away.failure
        try:
            found = self._look(once)
        except BelvedereError as error:
            self._away.failed(error)
            raise
        self._away.answered()
        return found

    def _look(self, once: bool) -> OffsetRange | None:
        topics = self._known_topics()
        places = [(t.name, p) for t in topics for p in t.partitions]
        ends = self.cluster.ends(places)
        if once:
            self._last = self._last or ends
            ends = {p: min(end, self._last.get(p, 0)) for p, end in ends.items()}
        fresh = [p for p in places if p not in self.offset.places]
        self._behind = dict(self.offset.seen) | self._looked
        now = int(time.time() * 1_000)
        if self.offset.is_begun and not fresh and all(ends[p] == self.offset.places[p] for p in places):
            self._looked |= dict.fromkeys((t.name for t in topics), now)
            return None
        topics = self._known_topics(again=True)  # the offsets of a recreated topic are not comparable
        at = self._positions(topics, ends, fresh)
        new = {p: end - at[p] for p, end in ends.items() if end > at[p]}
        shares = shared_out(new, self.most)
        ranges = tuple(MessageRange(*p, at[p], at[p] + n) for p, n in shares.items())
        unlisted = self.offset.without(t.name for t in topics)
        begun = at | {p: o for p, o in self.offset.begun.items() if self.offset.topics[p[0]] in {t.id for t in topics}}
        reached = at | {r.place: r.end for r in ranges}
        late = {p[0] for p, end in ends.items() if reached[p] < end}
        seen = {t.name: self._behind.get(t.name, now) if t.name in late else now for t in topics}
        end = unlisted.merged(TopicOffsets({t.name: t.id for t in topics}, reached, begun, seen))
        if not ranges and end == self.offset:
            return None
        return OffsetRange(end.as_document(), ranges)

    def _known_topics(self, again: bool = False) -> list[Topic]:
        if again or time.monotonic() - self._asked >= TOPICS_SECONDS:
            self._topics = self.cluster.topics(self.topic)
            self._asked = time.monotonic()
            if not self._topics and not self.topic.startswith("/"):
                raise no_topic(self.source, self.topic)
        for topic in self._topics:
            known = self.offset.topics.get(topic.name)
            if known is not None and known != topic.id and not self.skips:
                hint = (
                    'its old messages are gone: set `on_lost = "skip"` in the source to read the new ones, '
                    "or start with a new store"
                )
                raise fail("B6203", f'topic "{topic.name}" was deleted and recreated', hint=hint)
        return self._topics

    def _positions(self, topics: list[Topic], ends: Mapping[Place, int], fresh: list[Place]) -> dict[Place, int]:
        """Return the next offsets. New partitions are read from their beginning."""
        known = {p: o for p, o in self.offset.places.items() if p in ends}
        renewed = {t.name for t in topics if self.offset.topics.get(t.name, t.id) != t.id}
        starts = self.cluster.starts(ends)
        first = [] if self.offset.is_begun else fresh
        at = starts | known | {p: starts[p] for p in ends if p[0] in renewed}
        at |= self._started(first, ends, starts)
        for place, offset in at.items():
            if starts[place] <= offset <= max(ends[place], starts[place]):
                continue
            label, kept = f"{place[0]}[{place[1]}]", f"{starts[place]:,} to {ends[place]:,}"
            if not self.skips:
                raise lost_offsets(label, f"the next offset is {offset:,}, available are {kept}")
            at[place] = starts[place]
            why = f'offset {offset:,} is not available, and `on_lost` is "skip"'
            self._notices.append(f"{label} continues at offset {starts[place]:,}: {why}")
        return at

    def _started(self, first: list[Place], ends: Mapping[Place, int], starts: Mapping[Place, int]) -> dict[Place, int]:
        if self.starting == "earliest":
            return {p: starts[p] for p in first}
        if self.starting == "latest":
            return {p: ends[p] for p in first}
        return self.cluster.at_time(first, microseconds(cast(datetime, self.starting)) // 1_000)

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Return the rows of these offsets: few are read in the driver, many by Spark tasks."""
        ranges: Sequence[MessageRange] = cast(tuple[MessageRange, ...], span.content)
        try:
            found = self._found_in(spark, ranges)
        except BelvedereError as error:
            if not self.skips or error.diagnostics[0].code != "B6203":
                raise
            ranges = self._still_there(ranges)
            found = self._found_in(spark, ranges)
        self._notices += self._compacted(ranges, found)
        notices, self._notices = tuple(self._notices), []
        new = TopicOffsets.of_document(span.end).places.keys() - self.offset.places.keys()
        return self._arrived(found, new, notices)

    def _found_in(self, spark: SparkSession, ranges: Sequence[MessageRange]) -> Gathered:
        count = sum(r.end - r.start for r in ranges)
        if count > FEW_MESSAGES and self.goes_through_files:
            return read_by_tasks(spark, self.input.id, self.settings, ranges, self.shape)
        self._reader = self._reader or RangeReader(self.settings)
        chunks = self._chunks(self._reader.read(ranges))
        return gathered(spark, self.input.id, self.shape, chunks, by_time=not self.input.watermarks, memory=self.memory)

    def _still_there(self, ranges: Sequence[MessageRange]) -> list[MessageRange]:
        """Return the available part of ranges whose first messages were removed."""
        starts, left = self.cluster.starts([r.place for r in ranges]), list[MessageRange]()
        for range_ in ranges:
            start = min(max(range_.start, starts[range_.place]), range_.end)
            left.append(replace(range_, start=start))
            if start > range_.start:
                why = f'offset {range_.start:,} is no longer available, and `on_lost` is "skip"'
                self._notices.append(f"{range_.label} continues at offset {start:,}: {why}")
        return left

    def _chunks(self, read: Iterable[tuple[MessageRange, list[Message]]]) -> Iterator[Chunk]:
        latest: dict[str, int] = {}
        for range_, messages in read:
            chunk = self.shape.chunk(range_.label, messages)
            sent = np.array([latest.get(range_.label, 0), *(m.timestamp()[1] for m in messages)], np.int64)
            times = np.maximum.accumulate(sent)[1:]
            latest[range_.label] = int(times[-1]) if len(times) else latest.get(range_.label, 0)
            yield replace(chunk, times=times)

    def _compacted(self, ranges: Sequence[MessageRange], found: Gathered) -> list[str]:
        """Return notices if a run continues after messages that compaction may have removed, including deletions."""
        known = [r for r in ranges if r.place in self.offset.places]
        came = found.rows.num_rows + found.refused
        if not self.shape.primary_key or not known or came >= sum(r.end - r.start for r in ranges):
            return []
        reported = []
        for topic in dict.fromkeys(r.topic for r in known):
            away = int(time.time() * 1_000) - self._behind.get(topic, 0)
            kept = self._deletion_retention(topic) if away >= SHORT_MILLISECONDS else None
            if kept is not None and away >= kept:
                reported.append(
                    f'topic "{topic}" is compacted, and keeps deletions for {kept / 1_000:,.0f} s '
                    f"(delete.retention.ms): this run continues after {away / 1_000:,.0f} s, and some messages are "
                    "gone; rows deleted in the meantime may remain. "
                    "To read the topic as it is now, start with a new store"
                )
        return reported

    def _deletion_retention(self, topic: str) -> int | None:
        """Return how long a topic keeps tombstones in milliseconds, cached for `KEPT_SECONDS`.

        Offset gaps alone do not show compaction, since each transaction has gaps too.
        """
        asked, kept = self._kept.get(topic, (-KEPT_SECONDS, None))
        if time.monotonic() - asked >= KEPT_SECONDS:
            kept = self.cluster.deletion_retention(topic)
            self._kept[topic] = time.monotonic(), kept
        return kept

    def _arrived(self, found: Gathered, new: Collection[Place], notices: tuple[str, ...] = ()) -> Arrived:
        marks = self._openings(new) if self.input.watermarks else ()
        times = message_times(found.times)
        return Arrived(
            found.rows,
            found.rejected,
            found.refused,
            marks=marks,
            notices=notices,
            producers=found.producers,
            times=times,
        )

    def sample(self, rows: int) -> list[tuple[MessageRange, list[Message]]]:
        """Return the first (from `starting` on) and last messages of each partition; only the last with "latest".
        Raises B6201."""
        topics = self._known_topics(again=True)
        places = [(t.name, p) for t in topics for p in t.partitions]
        starts, ends = self.cluster.starts(places), self.cluster.ends(places)
        at = starts if self.starting == "latest" else self._started(places, ends, starts)
        most = max(1, rows // max(1, len(places)))
        first = 0 if self.starting == "latest" else most - most // 2
        reader = RangeReader(self.settings)
        try:
            ranges = [r for p in places for r in _end_ranges(p, at[p], ends[p], first, most)]
            return list(reader.read(ranges, SAMPLE_SECONDS))
        finally:
            reader.close()

    def rows_of(
        self, found: Iterable[tuple[MessageRange, list[Message]]], spark: Callable[[], SparkSession]
    ) -> Arrived:
        """Return messages of a sample as an epoch would accept them."""
        chunks = [self.shape.chunk(r.label, messages) for r, messages in found]
        session = spark() if any(c.undecided for c in chunks) else None
        return self._arrived(
            gathered(session, self.input.id, self.shape, chunks),
            {(t.name, p) for t in self._topics for p in t.partitions},
        )

    def past(self, past: PastSpan, files: Sequence[SourceFile]) -> Iterator[OffsetRange]:
        """Yield the offsets that an epoch read. Raises B7070 if messages are gone, or the topic was recreated."""
        begin, end = TopicOffsets.of_document(past.span.begin), TopicOffsets.of_document(past.span.end or {})
        now, starts = self._there(end.places)
        ranges = [MessageRange(*p, begin.places.get(p, end.begun[p]), o) for p, o in sorted(end.places.items())]
        ranges = [r for r in ranges if r.start < r.end]
        for name in dict.fromkeys(r.topic for r in ranges):
            if name not in now or now[name].id != end.topics[name]:
                raise not_as_it_was(
                    f'the topic "{name}", which epoch {past.epoch} read, is gone or was recreated', self.input.name
                )
        for range_ in ranges:
            if starts[range_.place] > range_.start:
                what = (
                    f"{range_.label} starts at offset {starts[range_.place]:,}, "
                    f"but epoch {past.epoch} read from {range_.start:,}"
                )
                raise not_as_it_was(what, self.input.name)
        if ranges:
            yield OffsetRange(end.as_document(), tuple(ranges))

    def _there(self, places: Collection[Place]) -> tuple[Mapping[str, Topic], Mapping[Place, int]]:
        """Return the existing topics and their first offsets, queried once for all epochs and cached for a while."""
        known = self._found
        if known is None or time.monotonic() - self._asked_past >= TOPICS_SECONDS or not set(places) <= known[1].keys():
            topics = {t.name: t for t in self.cluster.topics(self.topic)}
            there = [(t.name, p) for t in topics.values() for p in t.partitions]
            known = self._found = topics, dict.fromkeys(places, 0) | self.cluster.starts(there)
            self._asked_past = time.monotonic()
        return known

    def _openings(self, new: Iterable[Place]) -> tuple[BoundMark, ...]:
        """Return opening bounds: each partition is a producer of its own, and the bound is the least over them."""
        return tuple(BoundMark(0, ProducerAct(Act.OPEN, self.input.id, 0, f"{t}[{p}]")) for t, p in sorted(new))

    def committed(self, span: OffsetRange) -> None:
        """Continue after the range."""
        self.offset = TopicOffsets.of_document(span.end)

    def close(self) -> None:
        """Close the connection to the cluster."""
        if self._reader is not None:
            self._reader.close()


def message_times(sent: Ints | None) -> ArrivalTimes:
    """Return arrival times from message times in milliseconds, rounded to seconds.

    A finer resolution would split an epoch into single rows.
    """
    if sent is None or not len(sent):
        return NO_TIMES
    seconds = sent // 1_000
    starts = np.concatenate([[0], np.flatnonzero(np.diff(seconds)) + 1])
    return ArrivalTimes(np.diff([*starts, len(sent)]), seconds[starts] * 1_000_000)


def _end_ranges(place: Place, start: int, end: int, first: int, most: int) -> list[MessageRange]:
    """Return the first and last offsets of a partition, `most` in total."""
    if end - start <= most:
        return [MessageRange(*place, start, end)] if start < end else []
    halves = [MessageRange(*place, start, start + first), MessageRange(*place, end - (most - first), end)]
    return [r for r in halves if r.start < r.end]


def shared_out(new: Mapping[Place, int], most: int) -> dict[Place, int]:
    """Return the number of messages to read from each partition: all if they are few, else an equal share."""
    shares: dict[Place, int] = {}
    left, places = most, sorted(new, key=lambda p: new[p])
    for number, place in enumerate(places):
        shares[place] = min(new[place], max(1, left // (len(places) - number)))
        left -= shares[place]
    return {p: shares[p] for p in sorted(shares)}
