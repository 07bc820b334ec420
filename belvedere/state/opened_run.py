"""The columns of a run while it is read: all in memory or mapped, or fetched by blocks when they are needed.

In: the batch of a run. Out: its rows without the indexes, and columns of indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from belvedere.state.dead_rows import Positions


class RunBlocks(Protocol):
    """A remote piece of which only the needed blocks are here."""

    batch: pa.RecordBatch

    def need(self, names: Iterable[str], positions: Positions | None = None) -> None:
        """Fetch columns, or their rows at some positions."""


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """A run's columns of rows and indexes, complete, or fetched by blocks.

    It stays readable after its run has been released.
    """

    batch: pa.RecordBatch
    schema: pa.Schema
    blocks: RunBlocks | None = None

    @cached_property
    def _rows(self) -> pa.RecordBatch:
        return self.batch.select(self.schema.names).cast(self.schema)

    @cached_property
    def _is_cast(self) -> bool:
        return not self.batch.select(self.schema.names).schema.equals(self.schema)

    def rows(self, positions: Positions | None = None, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return the rows without the indexes, of which only these positions and columns will be read."""
        if self.blocks is not None and self._is_cast:
            self.blocks.need(self.schema.names)
        elif self.blocks is not None:
            self.blocks.need(names or self.schema.names, positions)
        return self._rows

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """Return whole columns."""
        if self.blocks is not None:
            self.blocks.need(names)
        return [self.batch.column(n) for n in names]
