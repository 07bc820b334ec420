"""Contents of a store and its state, before they are compared with a script.

In: a store, its tables, its state. Out: the last epoch's row, and the fingerprint and columns of each stored relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.schema import Column, Schema, is_engine_column
from belvedere.state.fingerprint import Fingerprint
from belvedere.state.state import State
from belvedere.store.protocol import EpochRow, Reader, Store
from belvedere.store.stored_table import StoredTable

DEFINITIONS = "meanings"
"""Name in the epoch row's `extra`: the definition fingerprints of filled tables."""
UNFILLED = "unfilled"
"""Name in the epoch row's `extra`: the relations that no epoch could fill yet."""


@dataclass(frozen=True)
class StoredRelations:
    """Stored relations: the last epoch's row, the tables, the fingerprints and columns of the arrangements, the name of
    the dialect."""

    last: EpochRow | None
    tables: tuple[StoredTable, ...]
    in_state: Mapping[str, Fingerprint]
    dialect: str
    arranged: Mapping[str, pa.Schema] = field(default_factory=dict)

    @property
    def filled_tables(self) -> Mapping[str, str]:
        """Return definition fingerprints by table."""
        return filled_tables(self.last, self.tables)

    @property
    def filled(self) -> Mapping[str, str]:
        """Return definition fingerprints by relation, for tables and arrangements."""
        unfilled = self.last.extra.get(UNFILLED, ()) if self.last else ()
        return {**self.filled_tables, **{n: f.definition for n, f in self.in_state.items() if n not in unfilled}}

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the columns of stored relations; those of arrangements are without keys."""
        found = {t.name: t.schema for t in self.tables if t.fingerprint}
        fields = ((n, (f for f in s if not is_engine_column(f.name))) for n, s in self.arranged.items())
        return {n: Schema(tuple(Column(f.name, f.type, f.nullable) for f in columns)) for n, columns in fields} | found


def filled_tables(last: EpochRow | None, tables: Iterable[StoredTable]) -> Mapping[str, str]:
    """Return definition fingerprints by table.

    A table counts as filled after the commit of an epoch with its definition. A table that was only created does not
    count.
    """
    committed: Mapping[str, str] = last.extra.get(DEFINITIONS, {}) if last else {}
    return {t.name: t.fingerprint for t in tables if t.fingerprint and committed.get(t.name) == t.fingerprint}


def stored_now(store: Store | Reader, tables: Iterable[StoredTable], state: State | None) -> StoredRelations:
    """Return the contents of a store and its state."""
    arranged = {} if state is None else {n: a for n, (a, _) in state.manifest.relations.items()}
    in_state, schemas = {n: a.fingerprint for n, a in arranged.items()}, {n: a.schema for n, a in arranged.items()}
    return StoredRelations(store.last_epoch(), tuple(tables), in_state, store.dialect, schemas)
