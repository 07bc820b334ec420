"""The engine's interface to deliveries of changes to sinks."""

from __future__ import annotations

from typing import Protocol

from belvedere.store.protocol import Transaction
from belvedere.store.stage_memory import Memories


class Deliveries(Protocol):
    """Deliveries to sinks: `belvedere.connectors.exporting.exports.Exports`."""

    def deliver(self, epoch: int, memories: Memories) -> None:
        """Send committed changes that are not delivered yet."""

    def catch_up(self, wait: bool = False) -> tuple[str, ...]:
        """Retry sinks that were unavailable; `wait`: until they have all changes. Return notices for the user."""

    def forget(self, transaction: Transaction) -> None:
        """Delete delivered changes."""

    def close(self) -> None:
        """Close the sinks."""
