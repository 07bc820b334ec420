"""Data that describe the keys of a connector in the project file; the reader of the file checks keys with them.

In: nothing. Out: `ConnectorKeys`; each connector declares one (`belvedere.connectors.keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FORMATS = ("json", "csv", "parquet")
DOTTED = "."
"""Entry in the keys of a connector that also accepts its client's keys, which contain a dot."""


@dataclass(frozen=True)
class TableKey:
    """A key of `[sources.NAME.tables.T]`."""

    type: type
    example: str
    """Example line that sets it, for hints."""
    is_file: bool = False
    """Whether a value is a path relative to the project file, unless it is a URL."""


TABLE_KEYS: Mapping[str, TableKey] = {
    "columns": TableKey(dict, 'columns = { id = "BIGINT" }'),
    "primary_key": TableKey(list, 'primary_key = ["id"]'),
}
"""Keys of tables that all sources have."""


@dataclass(frozen=True)
class SourceKeys:
    """The keys of `[sources.NAME]`."""

    keys: tuple[str, ...]
    formats: tuple[str, ...] | None = FORMATS
    """Allowed values of `format`; None: any."""
    options: tuple[str, ...] | None = None
    """Keys of `options`; None: any, because the connector's library checks them."""
    table_keys: Mapping[str, TableKey] = field(default_factory=dict)
    """Keys of a table besides `TABLE_KEYS`."""


@dataclass(frozen=True)
class SinkKeys:
    """The keys of `[sinks.NAME]`."""

    keys: tuple[str, ...]
    formats: tuple[str, ...] | None = FORMATS


@dataclass(frozen=True)
class ConnectorKeys:
    """Keys of a connector. Without `source` it cannot be read, without `sink` it cannot be written."""

    source: SourceKeys | None = None
    sink: SinkKeys | None = None
    needs_path: bool = False
    address_hint: str | None = None
    """Hint for a path that is a URL; None: the connector checks the path."""
