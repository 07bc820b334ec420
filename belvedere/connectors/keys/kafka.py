"""The keys of the connector `kafka`; those with a dot are librdkafka's."""

from __future__ import annotations

from belvedere.project.connector_keys import DOTTED, ConnectorKeys, SinkKeys, SourceKeys, TableKey

MESSAGE_FORMATS = ("json", "avro", "protobuf", "text")
SOURCE = ("servers", "starting", "max_rows", "max_line_mb", "timestamp_format", "on_lost", "registry")
KEYS = ConnectorKeys(
    SourceKeys(
        ("connector", "format", "options", "tables", DOTTED, *SOURCE),
        MESSAGE_FORMATS,
        table_keys={
            "topic": TableKey(str, 'topic = "shop.orders"'),
            "metadata": TableKey(dict, 'metadata = { sent = "timestamp" }'),
            "schema": TableKey(str, 'schema = "order.avsc"', is_file=True),
            "message": TableKey(str, 'message = "shop.Order"'),
            "key_format": TableKey(str, 'key_format = "avro"'),
            "key_schema": TableKey(str, 'key_schema = "key.avsc"', is_file=True),
            "key_message": TableKey(str, 'key_message = "shop.Key"'),
        },
    ),
    SinkKeys(("connector", "options", "servers", "exactly_once", "names", DOTTED)),
)
