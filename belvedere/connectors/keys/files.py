"""The keys of the connector `files`."""

from __future__ import annotations

from belvedere.project.connector_keys import ConnectorKeys, SinkKeys, SourceKeys

OPTIONS = ("header", "delimiter", "null", "timestamp_format", "max_files", "max_line_mb", "appends")
KEYS = ConnectorKeys(
    SourceKeys(("connector", "path", "format", "options", "tables", "new_columns", *OPTIONS), options=OPTIONS),
    SinkKeys(("connector", "path", "format", "options")),
    needs_path=True,
    address_hint="only folders of this machine are supported: mount the bucket, or copy its files",
)
