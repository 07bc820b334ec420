"""The keys of the connector `postgres`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SinkKeys, SourceKeys

KEYS = ConnectorKeys(
    SourceKeys(("connector", "options", "tables", "url", "schema", "publication", "slot")),
    SinkKeys(("connector", "options", "url", "schema", "names")),
)
