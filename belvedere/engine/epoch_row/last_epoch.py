"""State that a committed epoch passes to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from belvedere.engine.epoch_row.last_changes import DOCUMENT as CHANGED
from belvedere.engine.epoch_row.row_counts import DOCUMENT as ROWS
from belvedere.store.protocol import EpochRow
from belvedere.store.stage_memory import Memories
from belvedere.time.event_time import Clocks

NEXT_UID = "next_uid"
"""Name in the epoch row's `extra`: the first unused `_uid`."""


@dataclass(frozen=True)
class LastEpoch:
    """The last committed epoch; number 0: there was none."""

    number: int = 0
    clock: datetime | None = None
    next_uid: int = 1
    clocks: Clocks = field(default_factory=Clocks)
    """The inputs' clocks."""
    memories: Memories = field(default_factory=Memories)
    changed: Mapping[str, Any] = field(default_factory=dict)
    """The last change of each public relation, in the form of the epoch's row."""
    row_counts: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each stored public relation."""

    @classmethod
    def of_row(cls, row: EpochRow, clocks: Clocks | None = None, memories: Memories | None = None) -> LastEpoch:
        """Read the epoch's row, except for the parts that the caller passes."""
        return cls(
            row.epoch,
            row.clock,
            int(row.extra.get(NEXT_UID, 1)),
            Clocks.of_document(row.bounds) if clocks is None else clocks,
            Memories.of(row.extra) if memories is None else memories,
            row.extra.get(CHANGED, {}),
            row.extra.get(ROWS, {}),
        )
