"""How far the topics of a table were read: the offset that the epoch's row has.

In: offsets of partitions, or the document of a row. Out: a `TopicOffsets`. For each topic it has its identity, the offsets behind what was
read and those at which reading began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.connectors.kafka.topics import Place


@dataclass(frozen=True)
class TopicOffsets:
    """How far topics were read."""

    topics: Mapping[str, str]
    """Their identities by name."""
    places: Mapping[Place, int]
    """For each partition the offset behind the last message that was taken."""
    begun: Mapping[Place, int]
    """And that at which reading began."""
    seen: Mapping[str, int] = field(default_factory=dict, compare=False)
    """By topic when it was read to its end, or where there was more, when reading went on, in milliseconds since 1970."""
    is_begun: bool = True
    """Whether the topics were ever asked for: those that come later are read from their beginning."""

    def without(self, names: Iterable[str]) -> TopicOffsets:
        """Without topics: of those that a pattern found once and now does not (a right was taken away) the places are kept."""
        gone = set(names)
        places, begun = ({p: o for p, o in found.items() if p[0] not in gone} for found in (self.places, self.begun))
        seen = {n: t for n, t in self.seen.items() if n not in gone}
        return TopicOffsets({n: i for n, i in self.topics.items() if n not in gone}, places, begun, seen)

    def merged(self, other: TopicOffsets) -> TopicOffsets:
        """With other topics, too."""
        places, begun = {**self.places, **other.places}, {**self.begun, **other.begun}
        return TopicOffsets({**self.topics, **other.topics}, places, begun, {**self.seen, **other.seen})

    def as_document(self) -> dict[str, Any]:
        """The offset as JSON data."""
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
        """The offset that `as_document` wrote; none for an empty document."""
        topics = document.get("topics", {})
        places, begun = (
            {(t, int(p)): int(o) for t, d in topics.items() for p, o in d[key].items()}
            for key in ("partitions", "begun")
        )
        seen = {t: int(d.get("seen", 0)) for t, d in topics.items()}
        return cls({t: d["id"] for t, d in topics.items()}, places, begun, seen, "topics" in document)
