"""How far a table was read, and of what: the offset of an input in the epoch's row.

In: the document of the epoch's row, or what a look at the server has found. Out: the same as values that can be compared. Whatever is not
as it was when the position was written is found by these numbers and not by names: a table of the same name may be another table.
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
        """`xmin:xmax:running,...` as Postgres writes it."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset(), position)

    @property
    def text(self) -> str:
        """As `of_text` takes it."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def saw(self, transaction: LoggedTransaction) -> bool:
        """Whether the first read has what the transaction did. (The log has the lower 32 bits of its number.)"""
        if transaction.end > self.position:
            return False
        number = (self.xmax & ~0xFFFFFFFF) | transaction.xid
        number -= 1 << 32 if number > self.xmax + (1 << 31) else 0
        return number < self.xmin or (number < self.xmax and number not in self.running)


@dataclass(frozen=True)
class LogState:
    """Which log a position is of: the server and its timeline, the slot, the publication (its number, and who wrote its row)."""

    system: str
    timeline: int
    slot: str
    publication: tuple[int, str]

    def as_document(self) -> dict[str, Any]:
        """The state as JSON data."""
        return {
            "system": self.system,
            "timeline": self.timeline,
            "slot": self.slot,
            "publication": list(self.publication),
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> LogState:
        """The state that `as_document` wrote."""
        oid, writer = document["publication"]
        return cls(document["system"], document["timeline"], document["slot"], (oid, writer))


@dataclass(frozen=True)
class LogPosition:
    """How far a table was read; `snapshot` until the log is past its first read.

    `attnums` are the numbers of the input's columns in the table, by their names in the script, `types` their types in it, and
    `key` those of its key. `last` is the last transaction of the publication that was read: where it ends, and its number.
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
        """The position as JSON data."""
        found: dict[str, Any] = {"lsn": self.lsn} | self.log.as_document()
        found |= {"table": self.table.as_document(), "attnums": dict(self.attnums), "types": dict(self.types)}
        found["key"] = list(self.key)
        found["last"] = None if self.last is None else list(self.last)
        if self.snapshot is not None and self.snapshot.position > self.lsn:
            found["snapshot"] = {"text": self.snapshot.text, "lsn": self.snapshot.position}
        return found

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> LogPosition | None:
        """The position that `as_document` wrote; None for an empty document."""
        if "lsn" not in document:
            return None
        first = document.get("snapshot")
        snapshot = None if first is None else TransactionSnapshot.of_text(first["text"], int(first["lsn"]))
        log, table = LogState.of_document(document), TableState.of_document(document["table"])
        last = None if document["last"] is None else (document["last"][0], document["last"][1])
        key = tuple(document["key"])
        return cls(int(document["lsn"]), log, table, document["attnums"], document["types"], key, snapshot, last)
