"""Columns of a topic, from a schema or from its newest messages.

In: a source, a table. Out: names of tables, and an Arrow schema. Without a schema a sample is read; later messages that
do not fit are rejected one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Message

from belvedere.connectors.connector import FeedRequest, Sampled
from belvedere.connectors.kafka.client import client_settings
from belvedere.connectors.kafka.feed import KafkaFeed
from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.message_rows import METADATA
from belvedere.connectors.kafka.ranges import MessageRange, RangeReader
from belvedere.connectors.kafka.table_options import format_options, keys_of, metadata_of, topic_of
from belvedere.connectors.kafka.topics import Cluster, no_topic
from belvedere.errors import BelvedereError
from belvedere.project.settings import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_MESSAGES = 1_000
TIMEOUT_SECONDS = 10.0


def table_names(source: Source) -> list[str]:
    """Return the topics, by name. Raises B6200, B6201."""
    return Cluster(source.name, client_settings("source", source.name, source.options)).names()


def sampled_columns(source: Source, table: str) -> pa.Schema:
    """Return the columns of the schema or of the newest messages, with metadata columns."""
    return _columns(source, table, cache(lambda: newest_messages(source, table)))


def _columns(source: Source, table: str, newest: Callable[[], Sequence[Message]]) -> pa.Schema:
    metadata = metadata_of(source, table)

    def sample() -> list[bytes]:
        return [v for v in (m.value() for m in newest()) if v is not None]

    def sampled_keys() -> list[bytes]:
        return [k for k in (m.key() for m in newest()) if k is not None]

    found = format_named(source.format or "json").columns(table, sample, format_options(source, table, source.options))
    types = {n: METADATA[k][0] for n, k in metadata.items()}
    types |= keys_of(source, table, source.options).types(
        table, [n for n, k in metadata.items() if k == "key"], sampled_keys
    )
    return pa.schema([*(f for f in found if f.name not in metadata), *(pa.field(n, t) for n, t in types.items())])


def sampled(requested: FeedRequest, rows: int, spark: Callable[[], SparkSession]) -> Sampled:
    """Return messages as rows, and the types and names of their columns from the schema or the sample."""
    feed = KafkaFeed(requested)
    read = feed.sample(rows)
    arrived, messages = feed.rows_of(read, spark), [m for _, some in read for m in some]
    try:
        found = _columns(requested.source, requested.table, lambda: messages)
    except BelvedereError:  # no messages, or a schema without columns
        return Sampled(arrived, order="parts")
    types = {f.name: f.type for f in found} if requested.source.format in ("avro", "protobuf") else {}
    return Sampled(arrived, tuple(found.names), types, order="parts")


def newest_messages(source: Source, table: str) -> list[Message]:
    """Return some of the newest messages of a table's topics. Raises B6202 if there is no topic, B6201."""
    settings = client_settings("source", source.name, source.options)
    cluster, topic = Cluster(source.name, settings), topic_of(source, table)
    topics = cluster.topics(topic)
    if not topics:
        raise no_topic(source.name, topic)
    places = [(t.name, p) for t in topics for p in t.partitions]
    starts, ends = cluster.starts(places), cluster.ends(places)
    most = max(1, MAX_MESSAGES // len(places))
    reader = RangeReader(settings)
    try:
        ranges = [MessageRange(*p, max(starts[p], ends[p] - most), ends[p]) for p in places]
        return [m for _, some in reader.read(ranges, TIMEOUT_SECONDS) for m in some]
    finally:
        reader.close()
