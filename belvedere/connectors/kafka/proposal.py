"""Proposed declarations of a cluster's tables: `belvedere init --from kafka://...`.

In: a source without tables, which may name a schema registry. Out: for each topic whose newest messages allow it,
columns, format and key. A topic that keeps the newest message of each key, and whose keys are values of its columns,
becomes a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.admin import ConfigResource, ResourceType

from belvedere.connectors.kafka.client import client_settings, explaining_failures
from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.formats.decoded_rows import COLUMN
from belvedere.connectors.kafka.formats.registry import format_of, newest_known, number_of, of_message
from belvedere.connectors.kafka.sample import newest_messages, table_names
from belvedere.connectors.kafka.topics import TIMEOUT_SECONDS, Cluster
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import Source
from belvedere.schema import Column

KEY_COLUMN = "message_key"
FRAME = b"\0"
"""First byte of an Avro message with a schema registry."""


@dataclass(frozen=True)
class ProposedTopic:
    """A proposed declaration of a topic."""

    topic: str
    format: str
    columns: pa.Schema
    primary_key: tuple[str, ...] = ()
    has_other_keys: bool = False
    """Whether messages have text keys that are not columns."""
    key_format: str = ""
    """Format of keys that name their schema in a registry."""


def proposed_topics(source: Source) -> Iterator[ProposedTopic | BelvedereError]:
    """Yield all topics, with an error in place of a topic without columns. Raises B6200, B6201."""
    for topic in table_names(source):
        try:
            yield _proposed(source, topic)
        except BelvedereError as error:
            yield error


def _proposed(source: Source, topic: str) -> ProposedTopic:
    messages = newest_messages(source, topic)
    values = [v for v in (m.value() for m in messages) if v is not None]
    if not values:
        raise fail("B6103", f'topic "{topic}" has no messages to infer its columns from')
    if all(v.startswith(FRAME) for v in values):
        return _of_registry(source, topic, messages, values)
    keyed = [m for m in messages if m.key() is not None]
    rows = list(map(_row, messages))
    if not any(r is not None for r in rows):
        columns = format_named("text").columns(topic, lambda: values, {})
        return ProposedTopic(topic, "text", columns, has_other_keys=bool(keyed))
    columns = format_named("json").columns(topic, lambda: values, {})
    key = _key([None if m.key() is None else _said(m.key()) for m in messages], rows, columns.names)
    is_table = _is_table(source, topic, key, messages)
    return ProposedTopic(topic, "json", columns, key if is_table else (), bool(keyed) and not key)


def _of_registry(source: Source, topic: str, messages: Sequence[Message], values: Sequence[bytes]) -> ProposedTopic:
    """Return a topic whose messages name their schemas. Raises B6103, B6205."""
    address = source.options.get("registry")
    if address is None:
        hint = "give the registry's address: `--registry http://host:8081`"
        raise fail("B6103", f'topic "{topic}" has messages with a schema id of a registry', hint=hint)
    form = _registered(str(address), topic, values)
    options = {"registry": str(address)}
    columns = format_named(form).columns(topic, lambda: values, options)
    rows = _decoded(form, [m.value() for m in messages], columns, options)
    of_keys = [m.key() for m in messages if m.key() is not None]
    if not of_keys or not all(k.startswith(FRAME) for k in of_keys):
        key = _key([None if m.key() is None else _said(m.key()) for m in messages], rows, columns.names)
        is_table = _is_table(source, topic, key, messages)
        return ProposedTopic(topic, form, columns, key if is_table else (), bool(of_keys) and not key)
    key_form = _registered(str(address), topic, of_keys)
    of_key = format_named(key_form).columns(topic, lambda: of_keys, options)
    keys = [
        k if k is None or of_key.names != [COLUMN] else k[COLUMN]
        for k in _decoded(key_form, [m.key() for m in messages], of_key, options)
    ]
    key = _key(keys, rows, columns.names)
    if not _is_table(source, topic, key, messages):
        return ProposedTopic(topic, form, columns)
    return ProposedTopic(topic, form, columns, key, key_format=key_form)


def _registered(address: str, topic: str, values: Sequence[bytes]) -> str:
    """Return the format of the newest of these messages or keys. Raises B6103, B6205."""
    found = newest_known(topic, values, lambda v: of_message(number_of(v) or 0, address, format_of))
    if found not in ("avro", "protobuf"):
        raise fail(
            "B6103", f'topic "{topic}" has messages of a {found.upper()} schema in the registry, which is not supported'
        )
    return found


def _decoded(
    form: str, values: Sequence[bytes | None], columns: pa.Schema, options: Mapping[str, Any]
) -> list[dict[str, Any] | None]:
    """Return a row for each value; None if it is missing or rejected."""
    places = [n for n, v in enumerate(values) if v is not None]
    kept = [v for v in values if v is not None]
    decoded = format_named(form).decode(kept, [Column(f.name, f.type) for f in columns], options)
    found: list[dict[str, Any] | None] = [None] * len(values)
    for number, (place, row) in enumerate(zip(places, decoded.rows.to_pylist(), strict=True)):
        found[place] = None if number in decoded.refused else row
    return found


def _is_table(source: Source, topic: str, key: Sequence[str], messages: Sequence[Message]) -> bool:
    """Return whether the messages are rows of a table with this key."""
    if not key or any(m.key() is None for m in messages):
        return False
    return any(m.value() is None for m in messages) or _is_compacted(source, topic)


def _row(message: Message) -> dict[str, Any] | None:
    try:
        found = json.loads(message.value())
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _key(said: Sequence[Any], rows: Sequence[dict[str, Any] | None], names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose values are the keys (`said`; None for no key): an object's members, or one column."""
    keys = [k for k in said if k is not None]
    if not keys:
        return ()
    pairs = [(k, r) for k, r in zip(said, rows, strict=True) if k is not None and r is not None]
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
    with explaining_failures(f'{cluster.name} cannot be asked for the topic "{topic}"'):
        found = cluster.admin.describe_configs([resource], request_timeout=TIMEOUT_SECONDS)[resource].result()
    return "compact" in str(found["cleanup.policy"].value)
