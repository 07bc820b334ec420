"""Contents of a cluster: topics with their partitions, and the first and last offsets.

In: settings of a client. Out: names, identities and offsets, by one request each. A recreated topic has another
identity (`Topic.id`), even if its offsets match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from belvedere.connectors.kafka.client import Heard, Settings, explaining_failures
from belvedere.errors import BelvedereError, fail

TIMEOUT_SECONDS = 5.0
Place = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True)
class Topic:
    """The present state of a topic."""

    name: str
    id: str
    partitions: tuple[int, ...]


class Cluster:
    """Client for metadata of a cluster."""

    def __init__(self, name: str, settings: Settings, kind: str = "source"):
        self.name = f'{kind} "{name}"'
        self._heard = Heard(self.name)
        with explaining_failures(f"{self.name} cannot be opened"):
            self.admin = AdminClient(settings | {"error_cb": self._heard})

    def names(self) -> list[str]:
        """Return the topics, without Kafka's internal ones. Raises B6201."""
        with self._reported("cannot be asked for its topics"):
            found = self.admin.list_topics(timeout=TIMEOUT_SECONDS).topics
        return sorted(n for n in found if not n.startswith("__"))

    def _reported(self, what: str) -> AbstractContextManager[None]:
        return explaining_failures(f"{self.name} {what}", other=self._refused)

    def _refused(self, _: KafkaError) -> BelvedereError | None:
        self.admin.poll(0)  # delivers the errors received in the meantime
        return self._heard.refusal()

    def topics(self, requested: str) -> list[Topic]:
        """Return the topic of that name, or all that match `/pattern/`. Raises B6202 if there is none, B6201."""
        is_pattern = len(requested) > 1 and requested.startswith("/") and requested.endswith("/")
        names = [n for n in self.names() if re.fullmatch(requested[1:-1], n)] if is_pattern else [requested]
        return self._described(names, f'cannot be asked for the topic "{requested}"')

    def all_topics(self) -> list[Topic]:
        """Return all topics, without Kafka's internal ones. Raises B6201."""
        return self._described(self.names(), "cannot be asked for its topics")

    def _described(self, names: list[str], what: str) -> list[Topic]:
        if not names:
            return []
        with self._reported(what):
            asked = self.admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_SECONDS)
            return [_topic(future.result()) for future in asked.values() if not _is_gone(future)]

    def deletion_retention(self, topic: str) -> int | None:
        """Return for how many milliseconds a compacted topic keeps tombstones; None if it is not compacted.

        Raises B6201.
        """
        with self._reported(f'cannot be asked for the settings of the topic "{topic}"'):
            asked = self.admin.describe_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, topic)], request_timeout=TIMEOUT_SECONDS
            )
            found = next(iter(asked.values())).result()
        return int(found["delete.retention.ms"].value) if "compact" in str(found["cleanup.policy"].value) else None

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the offsets after the last message that is visible to a reader of committed messages. Raises B6201."""
        return self._offsets(dict.fromkeys(places, OffsetSpec.latest()))

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the first available offsets. Raises B6201."""
        return self._offsets(dict.fromkeys(places, OffsetSpec.earliest()))

    def at_time(self, places: Iterable[Place], milliseconds: int) -> dict[Place, int]:
        """Return the offsets of the first messages at or after a time; the end if there is none. Raises B6201."""
        places = list(places)
        found = self._offsets(dict.fromkeys(places, OffsetSpec.for_timestamp(milliseconds)))
        ends = self.ends(places)
        return {p: ends[p] if offset < 0 else offset for p, offset in found.items()}

    def _offsets(self, requested: Mapping[Place, OffsetSpec]) -> dict[Place, int]:
        if not requested:
            return {}
        asked = {TopicPartition(topic, partition): spec for (topic, partition), spec in requested.items()}
        with self._reported("cannot be asked for its offsets"):
            found = self.admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_SECONDS
            )
            return {(p.topic, p.partition): int(future.result().offset) for p, future in found.items()}


def _is_gone(future: Any) -> bool:
    error = future.exception()
    if error is None:
        return False
    if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return True
    raise error


def _topic(found: Any) -> Topic:
    return Topic(found.name, str(found.topic_id), tuple(sorted(p.id for p in found.partitions)))


def no_topic(source: str, requested: str) -> Exception:
    """Return the diagnostic B6202."""
    hint = f'create it, or write `topic = "..."` under [sources.{source}.tables.NAME]'
    return fail("B6202", f'source "{source}" has no topic "{requested}"', hint=hint)
