"""How an input's source was read: its columns, format and options, recorded with the epochs that read it so.

In: an input, the project file. Out: a document for the epoch's row, and from it a feed that reads a past epoch's rows
in the same way, whatever the present columns and options are. Its rows are converted to the present columns: NULL in
new columns, values in wider types.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from belvedere.catalog.inputs import Input
from belvedere.connectors.connector import Arrived, RereadableFeed
from belvedere.connectors.feeds import columns_of, feed_request_of
from belvedere.connectors.registry import reading_connector
from belvedere.engine.change.schema_evolution import evolved_rows
from belvedere.engine.rows.epoch_rows import as_rows
from belvedere.project.settings import ProjectSettings
from belvedere.schema import Column

OFFSET = "~readings"
"""Key among the sources' offsets in an epoch's row: by input id, the readings and the first epoch of each, earliest
first."""
SINCE = "since"
Reading = Mapping[str, Any]


def reading_of(table: Input, project: ProjectSettings) -> dict[str, Any]:
    """Return how the source of an input is read now, as JSON data."""
    requested = feed_request_of(table, project)
    options = {n: v for n, v in requested.options.items() if n in MATTERING}
    columns = pa.schema([pa.field(c.name, c.type, c.nullable) for c in requested.columns])
    text = base64.b64encode(columns.serialize().to_pybytes()).decode()
    return {
        "columns": text,
        "options": options,
        "format": requested.source.format,
        "new_columns": requested.source.new_columns,
    }


MATTERING = ("header", "delimiter", "null", "timestamp_format", "max_line_mb", "appends")
"""Options that determine how text is parsed into rows."""


def with_reading(known: Mapping[str, Any], id_: str, epoch: int, reading: Reading) -> dict[str, Any]:
    """Add to the document how an input is read from an epoch on."""
    past: Sequence[Reading] = known.get(id_, ())
    if past and {k: v for k, v in past[-1].items() if k != SINCE} == reading:
        return dict(known)
    return {**known, id_: [*past, {SINCE: epoch, **reading}]}


def reading_at(past: Iterable[Reading], epoch: int) -> Reading | None:
    """Return how an input was read in an epoch; None if that was not recorded."""
    found = None
    for reading in past:
        if reading[SINCE] <= epoch:
            found = reading
    return found


def feed_of(table: Input, project: ProjectSettings, reading: Reading | None) -> RereadableFeed:
    """Return a feed that reads as a recorded epoch did; for None as now."""
    requested = feed_request_of(table, project)
    if reading is not None:
        columns = tuple(Column(f.name, f.type, f.nullable) for f in _schema(reading))
        others = {n: v for n, v in requested.options.items() if n not in MATTERING}
        grows = {"appends": True} if requested.options.get("appends") else {}  # files may have grown since then
        source = replace(requested.source, format=reading["format"], new_columns=reading["new_columns"])
        requested = replace(
            requested, columns=columns, options={**others, **reading["options"], **grows}, source=source
        )
    feed: Any = reading_connector(requested.source.connector).open_feed(requested)
    return feed  # type: ignore[no-any-return]


def as_today(found: Arrived, table: Input) -> Arrived:
    """Return the rows of a feed with the present columns of its input."""
    schema = pa.schema([pa.field(c.name, c.type) for c in columns_of(table)])
    rows = as_rows(found.rows)
    if rows.frame is not None or rows.schema.equals(schema):
        return found
    return replace(found, rows=pa.Table.from_batches(evolved_rows(rows.reader(), schema), schema))


def _schema(reading: Reading) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(reading["columns"])))
