"""The keys of the connector `http`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SinkKeys

KEYS = ConnectorKeys(sink=SinkKeys(("connector", "options", "url", "headers", "secret", "timeout_seconds")))
