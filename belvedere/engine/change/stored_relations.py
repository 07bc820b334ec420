"""What a store and its state hold, before a script is compared with it.

In: a store, its tables, its state. Out: the last epoch's row, and what each stored relation is: its fingerprint and its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.engine.change.fingerprints import meaning_parts
from belvedere.schema import Column, Schema, is_engine_column
from belvedere.state.state import State
from belvedere.store.protocol import EpochRow, Reader, Store
from belvedere.store.stored_table import StoredTable

UNFILLED = "unfilled"
"""In the epoch row's `extra`: the relations that no epoch could fill yet."""


@dataclass(frozen=True)
class StoredRelations:
    """What is stored now: the last epoch's row, the tables, the meanings and columns of the arrangements, the name of the dialect."""

    last: EpochRow | None
    tables: tuple[StoredTable, ...]
    in_state: Mapping[str, str]
    dialect: str
    arranged: Mapping[str, pa.Schema] = field(default_factory=dict)

    @property
    def filled_tables(self) -> Mapping[str, str]:
        """Meanings by table."""
        return filled_tables(self.last, self.tables)

    @property
    def filled(self) -> Mapping[str, str]:
        """Meanings by relation, wherever its rows are."""
        unfilled = self.last.extra.get(UNFILLED, ()) if self.last else ()
        return {**self.filled_tables, **{n: meaning_parts(m)[0] for n, m in self.in_state.items() if n not in unfilled}}

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The columns of what is stored, those of arrangements without keys."""
        found = {t.name: t.schema for t in self.tables if t.meaning}
        fields = ((n, (f for f in s if not is_engine_column(f.name))) for n, s in self.arranged.items())
        return {n: Schema(tuple(Column(f.name, f.type, f.nullable) for f in columns)) for n, columns in fields} | found


def filled_tables(last: EpochRow | None, tables: Iterable[StoredTable]) -> Mapping[str, str]:
    """Meanings by table. One counts as filled when an epoch that knew its meaning was committed: one that was only made does not."""
    committed: Mapping[str, str] = last.extra.get("meanings", {}) if last else {}
    return {t.name: t.meaning for t in tables if t.meaning and committed.get(t.name) == t.meaning}


def stored_now(store: Store | Reader, tables: Iterable[StoredTable], state: State | None) -> StoredRelations:
    """What a store and its state hold now."""
    arranged = {} if state is None else {n: a for n, (a, _) in state.manifest.relations.items()}
    in_state, schemas = {n: a.meaning for n, a in arranged.items()}, {n: a.schema for n, a in arranged.items()}
    return StoredRelations(store.last_epoch(), tuple(tables), in_state, store.dialect, schemas)
