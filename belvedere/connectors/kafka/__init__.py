"""The connector `kafka`: topics as streams, and with a primary key as tables.

In: a source with `servers`, offsets from the epoch's row. Out: exactly the messages of ranges of offsets, as rows.
No source commits offsets to Kafka. The modules:

- `client` connects to a cluster, `topics` lists its contents
- `feed` finds new offsets, `ranges` reads their messages, in the driver or in Spark's tasks (`read_tasks`)
- `message_rows` and `formats` convert messages to rows, `message_chunks` collects the rows of an epoch
- `report` describes topics for users, `sink` sends exports
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from belvedere.connectors.connector import FeedRequest, Imported, Outgoing, Sampled, SourcePart
from belvedere.connectors.kafka.feed import KafkaFeed
from belvedere.connectors.kafka.report import topic_parts
from belvedere.connectors.kafka.sample import sampled, sampled_columns, table_names
from belvedere.connectors.kafka.sink import KafkaOutlet
from belvedere.project.settings import Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

reads_again = True


def tables(source: Source) -> Sequence[str]:
    """Return the topics whose names are valid in a script. Raises B6200, B6201."""
    return table_names(source)


def columns(source: Source, table: str) -> pa.Schema:
    """Return the columns of a table, from its newest messages. Raises B6103 (no messages), B6202 (no topic), B6201."""
    return sampled_columns(source, table)


def parts(source: Source, imports: Sequence[Imported]) -> Sequence[SourcePart]:
    """Return the partitions of imported topics, and all other topics. Raises B6200, B6201."""
    return topic_parts(source, imports)


def sample(requested: FeedRequest, rows: int, spark: Callable[[], SparkSession]) -> Sampled:
    """Return the first and last messages of each partition; commits no offset. Raises B6200 to B6206."""
    return sampled(requested, rows, spark)


def open_feed(requested: FeedRequest) -> KafkaFeed:
    """Open the feed of a table's topics at its offset."""
    return KafkaFeed(requested)


def open_shared_outlet(outgoings: Sequence[Outgoing]) -> KafkaOutlet:
    """Open the writer of all exports to a sink."""
    return KafkaOutlet(outgoings)


def place(sink: Sink, target: str) -> None:
    """Return None: exports may share a topic."""


__all__ = ["columns", "open_feed", "open_shared_outlet", "parts", "place", "sample", "tables"]
