"""The keys of the connector `console`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SinkKeys

KEYS = ConnectorKeys(sink=SinkKeys(("connector",)))
