"""A relation as of an earlier epoch: the versions of its rows that were valid then, and whether that state is still
known.

In: an epoch's number, or a time, which means the last epoch whose clock is not after it. Out: the rows, or a
diagnostic: the epoch does not exist yet (B7052), its versions are no longer stored (B7053), no history is kept (B7051).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.schema import HISTORY
from belvedere.store.definitions import table_from_text
from belvedere.store.identifiers import SYSTEM
from belvedere.store.protocol import EpochRow, Reader
from belvedere.store.read.as_of import AsOf
from belvedere.store.stage_memory import HistoryMemory, Memories
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import TABLE
from belvedere.values.instants import instant, microseconds


def check_known(as_of: AsOf, name: str, memories: Memories, epoch: int, clock: int) -> None:
    """Raise if the state of `name` is not known.

    `memories`, `epoch` and `clock` (microseconds) are those of the last epoch.
    """
    asked, last = (as_of.epoch, epoch) if as_of.time is None else (as_of.time, clock)
    memory = memories.recall(name + HISTORY, HistoryMemory)
    began = memory.began if as_of.time is None else memory.began_at
    if began is None:
        raise no_history(name)
    if asked is not None and asked > last:
        last_one = f"epoch {epoch}, at {instant(clock).isoformat()}"
        raise fail(
            "B7052", f"{as_of} is in the future: the last one is {last_one}", hint="read an earlier state, or wait"
        )
    if asked is not None and asked < began:
        first = AsOf(epoch=began) if as_of.time is None else AsOf(time=began)
        hint = f"read {first} or later"
        raise fail("B7053", f'the history of "{name}" does not reach back to {as_of}: it begins at {first}', hint=hint)


def no_history(name: str) -> BelvedereError:
    """Return the diagnostic for a relation whose earlier rows are not kept."""
    hint = "end its definition in the script by WITH HISTORY: epochs from then on can be read"
    return fail("B7051", f'"{name}" keeps no history', hint=hint)


def not_whole(name: str) -> BelvedereError:
    """Return the diagnostic for a private relation whose rows are not all in the store."""
    hint = "give it a name without the leading underscore: served rows stay"
    return fail("B7050", f'"{name}" is private: its rows leave the store once watermarks make them final', hint=hint)


def rows_as_of(reader: Reader, tables: Mapping[str, StoredTable], name: str, as_of: AsOf) -> pa.Table:
    """Return all rows of a relation in an earlier state, in the catalog's types. The store selects the versions."""
    table = tables.get(name + HISTORY)
    if table is None:
        raise no_history(name)
    _check_last(reader, name, as_of)
    rows = reader.rows(table, as_of)
    _check_last(reader, name, as_of)  # versions may have been dropped meanwhile
    return rows


def _check_last(reader: Reader, name: str, as_of: AsOf) -> None:
    known: EpochRow | None = reader.last_epoch()
    if known is None:
        raise no_history(name)
    check_known(as_of, name, Memories.of(known.extra), known.epoch, microseconds(known.clock))


def stored_tables(reader: Reader) -> dict[str, StoredTable]:
    """Return all tables of a store by name."""
    found = [table_from_text(str(r[0])) for r in reader.execute(f"SELECT definition FROM {TABLE} ORDER BY place")]
    return {t.name: t for t in found}


def is_readable(name: str) -> bool:
    """Return whether a stored table is a relation of the script, and not an operator's or the store's own."""
    return not {"$", "@", "~"} & set(name) and (not name.startswith("_") or name.startswith(SYSTEM))


def readable_tables(reader: Reader) -> dict[str, StoredTable]:
    """Return the tables of a store's relations by name. The store's own tables come last."""
    found = ((n, t) for n, t in stored_tables(reader).items() if is_readable(n))
    return dict(sorted(found, key=lambda pair: pair[0].startswith(SYSTEM)))


__all__ = [
    "AsOf",
    "check_known",
    "is_readable",
    "no_history",
    "not_whole",
    "readable_tables",
    "rows_as_of",
    "stored_tables",
]
