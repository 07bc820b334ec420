"""How the tables of a cluster would be declared: `belvedere init --from kafka://...`.

In: a source without tables. Out: for each topic whose newest messages tell them its columns, format and key. A topic that keeps the newest
message of each key, and whose keys are values of its columns, is a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.admin import ConfigResource, ResourceType

from belvedere.connectors.kafka.client import client_settings, told
from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.sample import newest_messages, table_names
from belvedere.connectors.kafka.topics import SECONDS, Cluster
from belvedere.errors import BelvedereError, fail
from belvedere.settings import Source

KEY_COLUMN = "message_key"
FRAME = b"\0"
"""What a message of Avro with a schema registry begins with."""


@dataclass(frozen=True)
class ProposedTopic:
    """A topic as it would be declared."""

    topic: str
    format: str
    columns: pa.Schema
    primary_key: tuple[str, ...] = ()
    has_other_keys: bool = False
    """Whether messages have keys that are no columns."""


def proposed_topics(source: Source) -> Iterator[ProposedTopic | BelvedereError]:
    """All topics; why one tells no columns in its place. Raises B6200, B6201."""
    for topic in table_names(source):
        try:
            yield _proposed(source, topic)
        except BelvedereError as error:
            yield error


def _proposed(source: Source, topic: str) -> ProposedTopic:
    messages = newest_messages(source, topic)
    values = [v for v in (m.value() for m in messages) if v is not None]
    if not values:
        raise fail("B6103", f'topic "{topic}" has no messages that would tell its columns')
    if all(v.startswith(FRAME) for v in values):
        hint = 'write `format = "avro"` and `registry = "..."` by hand'
        raise fail("B6103", f'topic "{topic}" has messages that name their schema in a registry', hint=hint)
    keyed = [m for m in messages if m.key() is not None]
    rows = [r for r in map(_row, messages) if r is not None]
    if not rows:
        columns = format_named("text").columns(topic, lambda: values, {})
        return ProposedTopic(topic, "text", columns, has_other_keys=bool(keyed))
    columns = format_named("json").columns(topic, lambda: values, {})
    key = _key(keyed, columns.names)
    is_table = bool(key) and len(keyed) == len(messages) and (len(values) < len(messages) or _is_compacted(source, topic))
    return ProposedTopic(topic, "json", columns, key if is_table else (), bool(keyed) and not key)


def _row(message: Message) -> dict[str, Any] | None:
    try:
        found = json.loads(message.value())
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _key(messages: Sequence[Message], names: Sequence[str]) -> tuple[str, ...]:
    """The columns whose values the keys are: the members of an object, or one whose value is the key as it is."""
    if not messages:
        return ()
    keys = [_said(m.key()) for m in messages]
    pairs = [(k, r) for k, r in zip(keys, map(_row, messages), strict=True) if r is not None]
    if all(isinstance(k, dict) and k for k in keys):
        members = tuple(keys[0])
        return members if all(all(m in names and r.get(m) == k.get(m) for m in members) for k, r in pairs) else ()
    same = (n for n in names if all(n in r and r[n] is not None and str(r[n]) == str(k) for k, r in pairs))
    found = next(same, None)
    return () if found is None else (found,)


def _said(key: bytes) -> Any:
    text = key.decode("utf-8", "backslashreplace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _is_compacted(source: Source, topic: str) -> bool:
    cluster = Cluster(source.name, client_settings("source", source.name, source.options))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with told(f'{cluster.name} cannot be asked for the topic "{topic}"'):
        found = cluster.admin.describe_configs([resource], request_timeout=SECONDS)[resource].result()
    return "compact" in str(found["cleanup.policy"].value)
