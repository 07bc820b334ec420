"""Open the feeds of a script's imports, for any connector.

In: an import, the project file, the store's records on it. Out: a feed. Nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from belvedere.catalog.inputs import Input
from belvedere.connectors.connector import Feed, FeedRequest, FormerRows, NoteStore
from belvedere.connectors.registry import reading_connector
from belvedere.connectors.run_records import SourceFile
from belvedere.engine.rows.epoch_rows import Memory
from belvedere.errors import fail
from belvedere.project.settings import ProjectSettings
from belvedere.schema import INGEST_TIME, ROWTIME, UID


def open_feed(
    table: Input,
    project: ProjectSettings,
    offset: Mapping[str, Any],
    files: frozenset[str] = frozenset(),
    former: FormerRows | None = None,
    notes: NoteStore | None = None,
    noted: Callable[[], Sequence[SourceFile]] = tuple,
    memory: Memory | None = None,
) -> Feed:
    """Open the feed of an import at an offset. `files` are the names of its files; `noted` returns them as they were
    read.

    `memory` is shared by all feeds of a run; without it the feed has the project's whole limit. Raises B6020.
    """
    requested = replace(feed_request_of(table, project, offset, files, former, notes), noted=noted)
    requested = requested if memory is None else replace(requested, memory=memory)
    return reading_connector(requested.source.connector).open_feed(requested)


def feed_request_of(
    table: Input,
    project: ProjectSettings,
    offset: Mapping[str, Any] | None = None,
    files: frozenset[str] = frozenset(),
    former: FormerRows | None = None,
    notes: NoteStore | None = None,
) -> FeedRequest:
    """Return the parameters for an import's connector. Raises B6020."""
    assert table.source is not None
    source = table.source.source_in(project)
    if source is None:
        raise fail(
            "B6020",
            f'the project file has no source "{table.source.source}"',
            span=table.span,
            hint=f"write [sources.{table.source.source}] into belvedere.toml",
        )
    options = {**source.options, **table.source.options}
    name, columns = table.source.table, columns_of(table)
    return FeedRequest(
        table, source, name, columns, options, offset or {}, files, Memory(project.driver_memory), former, notes
    )


def columns_of(table: Input) -> tuple[Any, ...]:
    """Return the columns of a source's rows, including hidden nested data that nested tables show."""
    given = (c for c in table.schema if not c.hidden or c.name not in (UID, INGEST_TIME, ROWTIME))
    return tuple(replace(c, nullable=c.nullable and c.name not in table.primary_key) for c in given)
