"""The tables of sources as connectors tell them, asked again only where they may have changed.

In: sources. Out: names and columns, as of `belvedere.connectors.registry.SourceTables`. Files are looked at by name, size and time of
change; what other sources told holds for a minute, and so does that one was away: an editor asks at every key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pyarrow as pa

from belvedere.connectors.registry import SourceTables
from belvedere.errors import BelvedereError
from belvedere.settings import Source

FRESH_SECONDS = 60.0


class CachedTables:
    """A `TableFinder` that remembers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._told: dict[Hashable, tuple[Hashable, Any]] = {}

    def tables(self, source: Source) -> tuple[str, ...]:
        """The tables of a source."""
        found: tuple[str, ...] = self._of("tables", source, "", lambda: SourceTables().tables(source))
        return found

    def columns(self, source: Source, table: str) -> pa.Schema:
        """The columns of a table. Raises what the connector raises."""
        return self._of("columns", source, table, lambda: SourceTables().columns(source, table))

    def _of(self, what: str, source: Source, table: str, ask: Callable[[], Any]) -> Any:
        key = (what, source.name, repr((source.connector, source.path, source.format, source.options, source.tables)), table)
        mark = self._mark(source, table)
        known = self._told.get(key)
        if known is None or known[0] != mark:
            try:
                told: Any = ask()
            except BelvedereError as error:
                told = error
            known = self._told[key] = (mark, told)
        if isinstance(known[1], BelvedereError):
            raise BelvedereError(known[1].diagnostics)
        return known[1]

    def _mark(self, source: Source, table: str) -> Hashable:
        """What changes when the answer may."""
        if source.connector != "files" or source.path is None:
            return int(self._clock() / FRESH_SECONDS)
        return tuple(_files(str(source.path), table))


def _files(folder: str, table: str) -> Iterator[tuple[str, int, int]]:
    """The files of a table, those in a folder of its name too; without a table all names of the folder."""
    try:
        with os.scandir(folder) as entries:
            named = [e for e in entries if e.name == table or e.name.startswith(f"{table}.") or not table]
    except OSError:
        return
    for entry in sorted(named, key=lambda e: e.name):
        if not table:
            yield entry.name, 0, 0
        elif entry.is_dir():
            with os.scandir(entry.path) as inner:
                yield from sorted((e.path, (s := e.stat()).st_size, s.st_mtime_ns) for e in inner)
        else:
            state = entry.stat()
            yield entry.path, state.st_size, state.st_mtime_ns
