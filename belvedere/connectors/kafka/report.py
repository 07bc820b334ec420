"""Report on a cluster's topics for `belvedere sources`.

In: a source, the inputs that it feeds with their offsets. Out: a row for each partition of their topics, one for each
other topic. No message is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from belvedere.connectors.connector import Imported, SourcePart
from belvedere.connectors.kafka.client import client_settings
from belvedere.connectors.kafka.table_options import topic_of
from belvedere.connectors.kafka.topics import Cluster, Place, Topic
from belvedere.project.settings import Source


def topic_parts(source: Source, imports: Sequence[Imported]) -> list[SourcePart]:
    """Return the partitions of imported topics, then the other topics. Raises B6200, B6201."""
    cluster = Cluster(source.name, client_settings("source", source.name, source.options))
    requested = [(i, cluster.topics(topic_of(source, i.table))) for i in imports]
    known = {t.name for _, topics in requested for t in topics}
    others = [t for t in cluster.all_topics() if t.name not in known]
    places = [(t.name, p) for t in (*(t for _, topics in requested for t in topics), *others) for p in t.partitions]
    starts, ends = cluster.starts(places), cluster.ends(places)
    found: list[SourcePart] = []
    for imported, topics in requested:
        if not topics:
            found.append(
                SourcePart(topic_of(source, imported.table), imported=imported.name, note="there is no such topic")
            )
        found += (p for t in topics for p in _partitions(t, imported, starts, ends))
    for topic in others:
        count = sum(ends[topic.name, p] - starts[topic.name, p] for p in topic.partitions)
        found.append(SourcePart(topic.name, facts={"partitions": len(topic.partitions), "messages": count}))
    return found


def _partitions(
    topic: Topic, imported: Imported, starts: Mapping[Place, int], ends: Mapping[Place, int]
) -> Iterator[SourcePart]:
    reported = imported.offset.get("topics", {}).get(topic.name)
    for number in topic.partitions:
        first, end = starts[topic.name, number], ends[topic.name, number]
        taken = None if reported is None else reported["partitions"].get(str(number))
        if reported is not None and reported["id"] != topic.id:
            note, at = "the topic was deleted and recreated", first
        elif taken is not None and not first <= taken <= end:
            note, at = f"offset {taken:,} is no longer available", first
        else:
            note, at = "", first if taken is None else taken
        yield SourcePart(
            topic.name,
            str(number),
            imported.name,
            first=first,
            end=end,
            taken=taken,
            behind=end - at if imported.offset else None,
            unit="messages",
            note=note,
        )
