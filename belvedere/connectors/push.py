"""Rows that clients push: the journal as a source of epochs.

In: the ingest service, which has checked and written the rows. Out: the rows waiting for the next epoch, and the
journal's offset for the epoch's row. Unlike a feed it has the rows of all pushed inputs and advances their clocks. A
row is never checked again after its sender has the result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from belvedere.intake.ingest_service import OFFSET
from belvedere.time.event_time import Clocks
from belvedere.time.pending_arrivals import Intake, Waiting

__all__ = ["OFFSET", "Pushes", "Unpushed"]


class Pushes(Protocol):
    """Rows pushed by clients: `belvedere.intake.ingest_service.IngestService`."""

    @property
    def has_waiting(self) -> bool: ...

    def waiting(self, now: int | None = None) -> Waiting: ...

    def committed(self, waiting: Waiting, clocks: Clocks) -> None: ...

    def offset(self, waiting: Waiting) -> Mapping[str, Any]: ...

    def wait(self, seconds: float) -> None: ...


class Unpushed(Intake):
    """The clocks of a script without pushed inputs."""

    has_waiting = False

    def offset(self, waiting: Waiting) -> Mapping[str, Any]:
        """Return an empty offset: there is no journal."""
        return {}

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`: no rows arrive."""
        time.sleep(seconds)
