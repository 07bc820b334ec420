"""The engine's interface to deliveries of changes to sinks."""

from __future__ import annotations

from typing import Protocol

from belvedere.store.protocol import Transaction
from belvedere.store.stage_memory import Memories


class Deliveries(Protocol):
    """Deliveries to sinks: `belvedere.connectors.exporting.exports.Exports`."""

    def deliver(self, epoch: int, memories: Memories) -> None:
        """Send what was committed and not delivered yet."""

    def catch_up(self, wait: bool = False) -> tuple[str, ...]:
        """Try sinks again that were away; `wait`: until they have all. What people should know."""

    def forget(self, transaction: Transaction) -> None:
        """Drop what was delivered."""

    def close(self) -> None:
        """Let go of the sinks."""
