"""Tables of sources from their connectors, cached until they may have changed.

In: sources. Out: names and columns, as from `belvedere.connectors.registry.SourceTables`. Files are compared by name,
size and modification time. Answers and failures of other sources are cached for a minute, because an editor asks at
every key press.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.connectors.reading.column_inference import table_files, table_names
from belvedere.connectors.registry import SourceTables
from belvedere.errors import BelvedereError
from belvedere.project.settings import Source

FRESH_SECONDS = 60.0


class CachedTables:
    """A `TableFinder` with a cache."""

    def __init__(self) -> None:
        self._reported: dict[Hashable, tuple[Hashable, Any]] = {}

    def tables(self, source: Source) -> tuple[str, ...]:
        """Return the tables of a source."""
        found: tuple[str, ...] = self._of("tables", source, "", lambda: SourceTables().tables(source))
        return found

    def columns(self, source: Source, table: str) -> pa.Schema:
        """Return the columns of a table. Raises the connector's errors."""
        return self._of("columns", source, table, lambda: SourceTables().columns(source, table))

    def file_columns(self, file: Path) -> pa.Schema:
        """Return the columns of a file. Raises the errors of reading it."""
        return SourceTables().file_columns(file)

    def _of(self, what: str, source: Source, table: str, ask: Callable[[], Any]) -> Any:
        key = (
            what,
            source.name,
            repr((source.connector, source.path, source.format, source.options, source.tables)),
            table,
        )
        mark = self._mark(source, table)
        known = self._reported.get(key)
        if known is None or known[0] != mark:
            try:
                reported: Any = ask()
            except BelvedereError as error:
                reported = error
            known = self._reported[key] = (mark, reported)
        if isinstance(known[1], BelvedereError):
            raise BelvedereError(known[1].diagnostics)
        return known[1]

    def _mark(self, source: Source, table: str) -> Hashable:
        """Return a value that changes whenever the answer may change."""
        if source.connector != "files" or source.path is None:
            return int(time.monotonic() / FRESH_SECONDS)
        if not table:
            return tuple(table_names(source))
        return tuple((str(file), (s := file.stat()).st_size, s.st_mtime_ns) for file in table_files(source, table))
