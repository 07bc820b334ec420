"""The rows of files in order: those that pass through the driver, and files that tasks have written.

In: rows, files. Out: all of them as `Rows`, a table while they are few.
"""

from __future__ import annotations

import weakref
from pathlib import Path

import pyarrow as pa

from belvedere.engine.by_tasks.file_tasks import ScratchFolder, let_go
from belvedere.engine.rows.epoch_rows import Memory, Rows, as_rows
from belvedere.engine.rows.scratch_rows import Scratch


class GatheredRows:
    """Takes rows in; `few` bytes of those that pass through the driver are held at most (`Scratch`)."""

    def __init__(self, schema: pa.Schema, few: int, memory: Memory | None = None):
        self.schema = schema
        self._few, self._memory = few, memory
        self._scratch = Scratch(schema, few, memory)
        self._before: list[tuple[Rows, ScratchFolder | None]] = []
        self._counted = 0

    @property
    def count(self) -> int:
        """How many rows came."""
        return self._counted + self._scratch.count

    def add(self, rows: pa.Table) -> None:
        """Take in rows."""
        self._scratch.add(rows)

    def add_files(self, rows: Rows, folder: ScratchFolder) -> None:
        """Take in rows that are in files of a folder."""
        self._end_scratch()
        self._before.append((rows, folder))
        self._counted += rows.num_rows

    def _end_scratch(self) -> None:
        if self._scratch.count:
            self._counted += self._scratch.count
            self._before.append((as_rows(self._scratch.rows(always=True)), None))
            self._scratch = Scratch(self.schema, self._few, self._memory)

    def rows(self) -> Rows:
        """Return all rows that came. Nothing is added afterwards."""
        if not self._before:
            return as_rows(self._scratch.rows())
        self._end_scratch()
        files: list[Path] = [f for rows, _ in self._before for f in rows.files or ()]
        found = Rows(schema=self.schema, files=tuple(files), count=self._counted)
        weakref.finalize(found, let_go, self._before)
        return found
