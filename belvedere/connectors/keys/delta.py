"""The keys of the connector `delta`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SinkKeys

KEYS = ConnectorKeys(
    sink=SinkKeys(("connector", "options", "path", "url", "storage", "names")),
    address_hint="write it as `url`, with the options of its storage: `storage = { ... }`",
)
