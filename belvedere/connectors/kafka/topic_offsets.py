"""Progress in the topics of a table: the feed's offset in the epoch's row.

In: offsets of partitions, or the document of a row. Out: a `TopicOffsets`. For each topic it has its identity, the
offsets after the last read messages, and the offsets at which reading began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.connectors.kafka.topics import Place


@dataclass(frozen=True)
class TopicOffsets:
    """Progress in the topics of a table."""

    topics: Mapping[str, str]
    """Identities of the topics by name."""
    places: Mapping[Place, int]
    """For each partition the offset after the last read message."""
    begun: Mapping[Place, int]
    """For each partition the offset at which reading began."""
    seen: Mapping[str, int] = field(default_factory=dict, compare=False)
    """By topic: last time at which it was read to its end, or at which a backlog was continued, in milliseconds since
    1970."""
    is_begun: bool = True
    """Whether the topics were listed before. If so, new topics are read from their beginning."""

    def without(self, names: Iterable[str]) -> TopicOffsets:
        """Remove topics.

        Callers keep a topic that a pattern no longer finds, for example after a permission was revoked.
        """
        gone = set(names)
        places, begun = ({p: o for p, o in found.items() if p[0] not in gone} for found in (self.places, self.begun))
        seen = {n: t for n, t in self.seen.items() if n not in gone}
        return TopicOffsets({n: i for n, i in self.topics.items() if n not in gone}, places, begun, seen)

    def merged(self, other: TopicOffsets) -> TopicOffsets:
        """Add other topics."""
        places, begun = {**self.places, **other.places}, {**self.begun, **other.begun}
        return TopicOffsets({**self.topics, **other.topics}, places, begun, {**self.seen, **other.seen})

    def as_document(self) -> dict[str, Any]:
        """Return the offset as JSON data."""
        found: dict[str, Any] = {
            name: {"id": id_, "seen": self.seen.get(name, 0), "partitions": {}, "begun": {}}
            for name, id_ in self.topics.items()
        }
        for key, offsets in (("partitions", self.places), ("begun", self.begun)):
            for (topic, partition), offset in sorted(offsets.items()):
                found[topic][key][str(partition)] = offset
        return {"topics": found}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> TopicOffsets:
        """Read the offset from the result of `as_document`; it is empty for an empty document."""
        topics = document.get("topics", {})
        places, begun = (
            {(t, int(p)): int(o) for t, d in topics.items() for p, o in d[key].items()}
            for key in ("partitions", "begun")
        )
        seen = {t: int(d.get("seen", 0)) for t, d in topics.items()}
        return cls({t: d["id"] for t, d in topics.items()}, places, begun, seen, "topics" in document)
