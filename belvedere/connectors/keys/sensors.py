"""The keys of the connector `sensors`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SourceKeys

OPTIONS = ("rows_per_second", "sensors", "machines", "seed", "rows", "start", "fahrenheit", "move_every")
"""Option keys of `belvedere.connectors.sensor_data.SensorOptions`."""
KEYS = ConnectorKeys(SourceKeys(("connector", "options", *OPTIONS), options=OPTIONS))
