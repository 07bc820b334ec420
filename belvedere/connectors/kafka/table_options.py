"""Settings of a topic's table in the project file: topic, metadata columns, formats of values and keys, first offset.

In: a source of the project file, the name of a table. Out: settings for feeds, samples and reports. Only schema files
are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from belvedere.connectors.kafka.message_keys import KeyFormat, key_format
from belvedere.connectors.kafka.message_rows import METADATA
from belvedere.errors import fail
from belvedere.project.settings import Source


def topic_of(source: Source, table: str) -> str:
    """Return the topic of a table, or a pattern between slashes: `topic` of `[sources.name.tables.T]`, else its own
    name."""
    return str(source.declared(table).get("topic", table))


def metadata_of(source: Source, table: str) -> dict[str, str]:
    """Return the metadata columns of a table. Raises B6206."""
    found = {str(n): str(k) for n, k in source.declared(table).get("metadata", {}).items()}
    for name, kind in found.items():
        if kind not in METADATA:
            listed = ", ".join(f'"{k}"' for k in METADATA)
            raise fail(
                "B6206",
                f'column "{name}" of table "{table}" cannot be "{kind}" of a message',
                hint=f"write one of {listed}",
            )
    return found


def format_options(source: Source, table: str, options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the options of the table's format, or with `prefix` "key_" of its keys. Raises B6205.

    These are `timestamp_format`, `registry`, `message`, and the contents of the file `schema`.
    """
    found = {k: v for k, v in options.items() if k in ("timestamp_format", "registry")}
    declared = source.declared(table)
    if f"{prefix}message" in declared:
        found["message"] = declared[f"{prefix}message"]
    file = declared.get(f"{prefix}schema")
    if file is not None:
        try:
            found["schema"] = Path(file).read_bytes()
        except OSError as error:
            raise fail("B6205", f"the schema {file} cannot be read: {error}") from error
    return found


def keys_of(source: Source, table: str, options: Mapping[str, Any]) -> KeyFormat:
    """Return the format of the keys of a table's messages: `key_format` of `[sources.name.tables.T]`.

    Raises B6205, B6206.
    """
    reported = format_options(source, table, options, "key_")
    return key_format(source.name, table, source.declared(table).get("key_format"), reported)


def starting_of(source: str, options: Mapping[str, Any]) -> str | datetime:
    """Return `starting`: "earliest" (the default), "latest" or a time. Raises B6204."""
    said = options.get("starting", "earliest")
    if isinstance(said, datetime):
        return said if said.tzinfo is not None else said.replace(tzinfo=UTC)
    if str(said) in ("earliest", "latest"):
        return str(said)
    try:
        found = datetime.fromisoformat(str(said))
    except ValueError:
        hint = 'write "earliest", "latest" or a time such as "2026-01-01T00:00:00Z"'
        raise fail("B6204", f'source "{source}" cannot start at {said!r}', hint=hint) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
