"""The position of a table in the log: the offset of an input in the epoch's row.

In: the document of the epoch's row, or the state of the server. Out: the same as comparable values. Objects that were
replaced since the position was written are recognized by their numbers, not by names: a table of the same name may be
another table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.connectors.postgres.tables import TableState
from belvedere.connectors.postgres.wal import LoggedTransaction


@dataclass(frozen=True)
class TransactionSnapshot:
    """The snapshot of a first read: transactions below `xmin`, and finished ones below `xmax`.

    `position` is the log's end at that time.
    """

    xmin: int
    xmax: int
    running: frozenset[int]
    position: int

    @classmethod
    def of_text(cls, text: str, position: int) -> TransactionSnapshot:
        """Parse `xmin:xmax:running,...` as Postgres writes it."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset(), position)

    @property
    def text(self) -> str:
        """Return the text that `of_text` parses."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def saw(self, transaction: LoggedTransaction) -> bool:
        """Return whether the first read saw the transaction. (The log has the lower 32 bits of its number.)"""
        if transaction.end > self.position:
            return False
        number = (self.xmax & ~0xFFFFFFFF) | transaction.xid
        number -= 1 << 32 if number > self.xmax + (1 << 31) else 0
        return number < self.xmin or (number < self.xmax and number not in self.running)


@dataclass(frozen=True)
class LogState:
    """Identity of a log: server and timeline, slot, publication (its number, and the transaction that wrote its
    row)."""

    system: str
    timeline: int
    slot: str
    publication: tuple[int, str]

    def as_document(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {
            "system": self.system,
            "timeline": self.timeline,
            "slot": self.slot,
            "publication": list(self.publication),
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> LogState:
        """Read the state from the result of `as_document`."""
        oid, writer = document["publication"]
        return cls(document["system"], document["timeline"], document["slot"], (oid, writer))


@dataclass(frozen=True)
class LogPosition:
    """Progress of a table; `snapshot` is set until the log is past its first read.

    `attnums` and `types` are the numbers and types of the input's columns in the table, by their names in the script;
    `key` has the numbers of its key. `last` is the last transaction of the publication that was read: its end, and its
    number.
    """

    lsn: int
    log: LogState
    table: TableState
    attnums: Mapping[str, int]
    types: Mapping[str, str]
    key: tuple[str, ...]
    snapshot: TransactionSnapshot | None = None
    last: tuple[int, int] | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the position as JSON data."""
        found: dict[str, Any] = {"lsn": self.lsn} | self.log.as_document()
        found |= {"table": self.table.as_document(), "attnums": dict(self.attnums), "types": dict(self.types)}
        found["key"] = list(self.key)
        found["last"] = None if self.last is None else list(self.last)
        if self.snapshot is not None and self.snapshot.position > self.lsn:
            found["snapshot"] = {"text": self.snapshot.text, "lsn": self.snapshot.position}
        return found

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> LogPosition | None:
        """Read the position from the result of `as_document`; None for an empty document."""
        if "lsn" not in document:
            return None
        first = document.get("snapshot")
        snapshot = None if first is None else TransactionSnapshot.of_text(first["text"], int(first["lsn"]))
        log, table = LogState.of_document(document), TableState.of_document(document["table"])
        last = None if document["last"] is None else (document["last"][0], document["last"][1])
        key = tuple(document["key"])
        return cls(int(document["lsn"]), log, table, document["attnums"], document["types"], key, snapshot, last)
