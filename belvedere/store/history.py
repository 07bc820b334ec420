"""A relation as of a former epoch: which versions of its rows held then, and whether that is still known.

In: an epoch's number, or a time, which means the last epoch whose clock is not after it. Out: the rows, or a diagnostic: the epoch is not
there yet (B7052), its versions are not there any more (B7053), no history is kept at all (B7051).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError, fail
from belvedere.schema import HISTORY, SINCE_EPOCH, SINCE_TIME, UNTIL_EPOCH, UNTIL_TIME
from belvedere.store.protocol import EpochRow, Reader, StoredTable
from belvedere.store.registry import instant, microseconds, table_from_text
from belvedere.store.system import TABLE

BEGAN, BEGAN_TIME = " began", " began at"
"""Behind a history's name in the epoch row's `sequences`: the first epoch that it can tell, and that epoch's clock."""


@dataclass(frozen=True)
class AsOf:
    """A former state: `epoch`, or `time` in microseconds since 1970. Exactly one is given."""

    epoch: int | None = None
    time: int | None = None

    @classmethod
    def of(cls, value: int | datetime) -> AsOf:
        """An epoch's number or an instant."""
        return cls(time=microseconds(value)) if isinstance(value, datetime) else cls(epoch=value)

    def __str__(self) -> str:
        return f"epoch {self.epoch}" if self.time is None else instant(self.time).isoformat()


def check_known(as_of: AsOf, name: str, sequences: Mapping[str, Any], epoch: int, clock: int) -> None:
    """Raise where the state of `name` is not known; `sequences`, `epoch` and `clock` (microseconds) are of the last epoch."""
    asked, last = (as_of.epoch, epoch) if as_of.time is None else (as_of.time, clock)
    began = sequences.get(name + HISTORY + (BEGAN if as_of.time is None else BEGAN_TIME))
    if began is None:
        raise no_history(name)
    if asked is not None and asked > last:
        last_one = f"epoch {epoch}, at {instant(clock).isoformat()}"
        raise fail("B7052", f"{as_of} is not there yet: the last one is {last_one}", hint="ask for an earlier one, or wait")
    if asked is not None and asked < began:
        first = AsOf(epoch=began) if as_of.time is None else AsOf(time=began)
        hint = f"ask for {first} or later"
        raise fail("B7053", f'the history of "{name}" does not reach back to {as_of}: it begins at {first}', hint=hint)


def no_history(name: str) -> BelvedereError:
    """The diagnostic for a relation whose former rows are not kept."""
    hint = "end its definition in the script by WITH HISTORY; it can be read as of the epochs from then on"
    return fail("B7051", f'"{name}" keeps no history', hint=hint)


def rows_as_of(reader: Reader, tables: Mapping[str, StoredTable], name: str, as_of: AsOf) -> pa.Table:
    """All rows that a relation had then, in the catalog's types."""
    table, last = tables.get(name + HISTORY), reader.last_epoch()
    if table is None or last is None:
        raise no_history(name)
    known: EpochRow = last
    check_known(as_of, name, known.extra.get("sequences", {}), known.epoch, microseconds(known.clock))
    rows = reader.rows(table)
    since, until, asked = (
        (rows[SINCE_EPOCH], rows[UNTIL_EPOCH], pa.scalar(as_of.epoch, pa.int64()))
        if as_of.time is None
        else (rows[SINCE_TIME], rows[UNTIL_TIME], pa.scalar(instant(as_of.time), rows[SINCE_TIME].type))
    )
    return rows.filter(pc.and_(pc.less_equal(since, asked), pc.fill_null(pc.greater(until, asked), True)))


def stored_tables(reader: Reader) -> dict[str, StoredTable]:
    """All tables of a store by name."""
    found = [table_from_text(str(r[0])) for r in reader.execute(f"SELECT definition FROM {TABLE} ORDER BY place")]
    return {t.name: t for t in found}
