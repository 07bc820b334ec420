"""The keys that a connector has in the project file, as data: what it declares, and what the reader of the file checks by it.

In: nothing. Out: `ConnectorKeys`, of which each connector declares one (`belvedere.connectors.keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FORMATS = ("json", "csv", "parquet")
DOTTED = "."
"""Among the keys of a connector: it takes keys with a dot, which are its client's, too."""


@dataclass(frozen=True)
class TableKey:
    """A key of `[sources.NAME.tables.T]`."""

    type: type
    example: str
    """A line that sets it, for hints."""
    is_file: bool = False
    """Whether a value is a path from the project file on, unless it is an address."""


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
    """The keys of `options`; None: any, for others check them."""
    table_keys: Mapping[str, TableKey] = field(default_factory=dict)
    """The keys of a table beside `TABLE_KEYS`."""


@dataclass(frozen=True)
class SinkKeys:
    """The keys of `[sinks.NAME]`."""

    keys: tuple[str, ...]
    formats: tuple[str, ...] | None = FORMATS


@dataclass(frozen=True)
class ConnectorKeys:
    """Keys of a connector. Without `source` it cannot be read, without `sink` it cannot be written to."""

    source: SourceKeys | None = None
    sink: SinkKeys | None = None
    needs_path: bool = False
    address_hint: str | None = None
    """Replacement for an address as the path; None: the connector checks it."""
