"""A table that a run follows: the input's columns in it, and whether it is still the table of the stored rows.

In: the input's columns and key, the position in the epoch's row, the table as it is now. Out: the places of the columns
in rows of the log, and the reason if the table must be read completely. Rows of the log are parsed with the columns at
their time: those of the position, or the present ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from belvedere.connectors.postgres.position import LogPosition
from belvedere.connectors.postgres.tables import SAME_TEXTS, Table, TableState, in_quotes, other_key
from belvedere.connectors.postgres.wal import LoggedTable, Row, RowChange, Unchanged
from belvedere.errors import BelvedereError, fail

_Places = tuple[int | None, ...]


@dataclass
class Followed:
    """A table, and the input's columns of it by their names in the script."""

    source: str
    name: str
    quoted: str
    """Its quoted name for statements."""
    types: Mapping[str, str]
    """Types of the columns, in order."""
    key: tuple[str, ...]
    position: LogPosition | None
    whole: str | None = None
    """The reason that it is read completely although the store has rows of it."""
    is_partitioned: bool = False
    _states: tuple[TableState, ...] = ()
    _known: dict[int, _Places | None] = field(default_factory=dict)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self.types)

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Return the indexes of the key's columns among the input's columns."""
        return tuple(n for n, c in enumerate(self.columns) if c in self.key)

    def attnums(self, now: Table) -> dict[str, int]:
        """Return the numbers of the input's columns: by name, or by number if a column was renamed.

        Raises B6223, B6226.
        """
        before = self.position.attnums if self.position is not None and self.position.table.oid == now.state.oid else {}
        found: dict[str, int] = {}
        logged = {c.number for c in now.state.columns if not c.is_generated}
        for column in self.columns:
            number = now.state.numbers.get(column, before.get(column))
            if number not in logged:
                raise _column_gone(self.source, now, column)
            found[column] = number
        key = {found[c] for c in self.key}
        if not any({now.state.numbers[c] for c in known} == key for known in now.keys):
            raise other_key(now, key)
        return found

    def read_whole_because(self, now: Table, attnums: Mapping[str, int]) -> str | None:
        """Return the reason that the stored rows differ from the table's because of changes that are not in the log;
        else None."""
        if self.position is None:
            return None
        before, state = self.position.table, now.state
        if before.oid != state.oid:
            return "it was recreated, or is another table of that name"
        if set(self.position.key) != set(self.key):
            return "it has another key in the views"
        for column, number in attnums.items():
            if column not in self.position.attnums:
                return f'its column "{column}" is new in the views'
            if self.position.attnums[column] != number:
                return f'its column "{column}" was replaced by another one'
            if self.position.types[column] != self.types[column]:
                return f'its column "{column}" has another type in the views'
        if before.file != state.file:
            return "it was truncated or rewritten"
        if before.partitions != state.partitions:
            return "a partition was attached, detached, dropped, truncated or rewritten, or its keys were changed"
        if before.moved != state.moved:
            return "it was temporarily in another schema, or has another owner"
        return _other_values(before, state, attnums)

    def begin(self, now: Table) -> None:
        """Start a look: rows of the log have the columns of the position, or the present ones."""
        self._states = (now.state,) if self.position is None else (self.position.table, now.state)
        self._known, self.is_partitioned = {}, now.is_partitioned

    def unknown(self, change: RowChange) -> str | None:
        """Return the reason that the log does not show a change's effect on the input's rows; None if it does."""
        places = self._places(change.relation)
        if places is None:
            return "its columns were changed more than once"
        if change.is_insert or (change.old is None and change.new is None):
            return None
        keys, identity = change.relation.keys, change.relation.identity
        is_found = identity == "f" or all((p := places[n]) is not None and keys[p] for n in self.key_places)
        old = _row(change.old, places)
        is_found = is_found and (old is None or all(old[n] is not None for n in self.key_places))
        return None if is_found else "its replica identity was temporarily another one"

    def rows_of(self, change: RowChange) -> tuple[Row | None, Row | None]:
        """Return the old and the new row of a change, with the input's columns."""
        places = self._places(change.relation)
        assert places is not None
        old = _row(change.old, places)
        if old is not None and self.is_partitioned:  # it is marked complete although its partition logged the key alone
            old = tuple(v if n in self.key_places else Unchanged.VALUE for n, v in enumerate(old))
        return old, _row(change.new, places)

    def _places(self, relation: LoggedTable) -> _Places | None:
        """Return the positions of the columns in rows of the log; None if the table's state at that time is unknown."""
        if id(relation) not in self._known:  # rows of a look refer to it, so its id stays unique
            assert self.position is not None
            attnums = [self.position.attnums[c] for c in self.columns]
            self._known[id(relation)] = _places_of(relation, self._states, attnums)
        return self._known[id(relation)]

    def gained(self, now: TableState) -> list[str]:
        """Return the columns that the table got after the position was written."""
        if self.position is None or self.position.table.oid != now.oid:
            return []
        before = self.position.table.names
        return [c.name for c in now.columns if c.number not in before]


def _places_of(relation: LoggedTable, states: tuple[TableState, ...], attnums: list[int]) -> _Places | None:
    """Return the positions of columns in rows of the log; None if the table's state at that time is unknown."""
    for state in states:
        numbers = _numbers_of(relation, state)
        if numbers is not None:
            return tuple(numbers.index(n) if n in numbers else None for n in attnums)
    return None


def _numbers_of(relation: LoggedTable, state: TableState) -> list[int] | None:
    """Return the numbers of a log row's columns, which may lack generated ones; None if the table had other columns."""
    found, left = list[int](), list(relation.columns)
    for column in state.columns:
        if left and left[0] == (column.name, column.type):
            found.append(column.number)
            del left[0]
        elif not column.is_generated:
            return None
    return None if left else found


def _other_values(before: TableState, now: TableState, attnums: Mapping[str, int]) -> str | None:
    """Return the reason that values are written differently although no row changed; else None."""
    types, known = {c.number: c.type for c in before.columns}, {c.number: c.type for c in now.columns}
    for column, number in attnums.items():
        pair = {types.get(number, known[number]), known[number]}
        if len(pair) > 1 and not pair <= SAME_TEXTS:
            return f'its column "{column}" has another type'
    meanings = dict(now.meanings)
    if any(meanings.get(number, meaning) != meaning for number, meaning in before.meanings):
        return "a value of an enum was renamed, or a composite type has other fields"
    return None


def _row(row: Row | None, places: _Places) -> Row | None:
    if row is None or places == tuple(range(len(row))):
        return row
    return tuple([None if p is None else row[p] for p in places])


def _column_gone(source: str, table: Table, column: str) -> BelvedereError:
    """Return the diagnostic B6226."""
    statement = f"ALTER TABLE {table.quoted} ADD COLUMN {in_quotes(column)} ..."
    hint = f"add it again: {statement}; the table is then read whole. Or begin with a new store"
    return fail("B6226", f'column "{column}" of table "{table.name}" is gone in source "{source}"', hint=hint)
