"""The status of each stream: its bounds, and the producers that hold them back.

In: the catalog and the clocks after an epoch. Out: one `StreamStatus` per event-time column, for display.
"""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.catalog.catalog import Catalog
from belvedere.time.event_time import Clocks, Counts
from belvedere.time.producers import holding_back


@dataclass(frozen=True)
class StreamStatus:
    """Status of an event-time column: its bound, the producers that hold it back, and the stream's late rows.

    `bound` is in microseconds since 1970, None if there is none. `assumed` says that it ignores idle producers.
    """

    stream: str
    column: str
    bound: int | None
    assumed: bool
    held_back_by: tuple[str | None, ...]
    late: int


def stream_statuses(catalog: Catalog, clocks: Clocks) -> tuple[StreamStatus, ...]:
    """Return the status of all streams, in the order of the script."""
    found = []
    for table in catalog.inputs.values():
        late = clocks.counts.get(table.id, Counts()).late
        for mark in table.watermarks:
            clock = clocks.clock(table.id, mark.column)
            found.append(StreamStatus(table.name, mark.column, clock.bound, clock.assumed, holding_back(clock), late))
    return tuple(found)
