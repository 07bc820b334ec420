"""The keys of the connector `spark`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SourceKeys, TableKey

KEYS = ConnectorKeys(
    SourceKeys(
        ("connector", "format", "options", "tables", "every_seconds"),
        formats=None,
        table_keys={
            "increasing": TableKey(str, 'increasing = "id"'),
            "version": TableKey(str, 'version = "max(changed)"'),
            "path": TableKey(str, 'path = "data/orders"', is_file=True),
            "options": TableKey(dict, 'options = { dbtable = "orders" }'),
        },
    )
)
