"""Large values that updates did not change: the log does not contain them, the store's row does.

In: rows of texts, some of which are a `StoredValue`; a function that returns stored rows. Out: their columns, with the
values of the store's rows as of the last epoch. If there is no stored row (it was rejected), the value is missing, with
a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.connector import FormerRows
from belvedere.connectors.postgres.followed_table import Followed
from belvedere.connectors.postgres.tables import in_quotes
from belvedere.connectors.postgres.text_values import column_of
from belvedere.connectors.postgres.transaction_changes import ArrivedRow, Key, StoredValue
from belvedere.schema import Column
from belvedere.values.rejections import Reason


class FormerValues:
    """Rows of a table, and the stored rows that supply missing values."""

    def __init__(
        self,
        columns: Sequence[Column],
        table: Followed,
        find: FormerRows | None,
        rows: Sequence[ArrivedRow],
    ):
        self.columns, self.table, self.find, self.rows = columns, table, find, rows

    def column_of(self, place: int, column: Column) -> tuple[pa.Array, dict[int, Reason]]:
        """Return the values of a column, with NULL for values that do not fit, and the reasons of these by row."""
        values = [row[place] for row in self.rows]
        lent = {n: v for n, v in enumerate(values) if isinstance(v, StoredValue)}
        array, misfits = column_of([v if isinstance(v, bytes) else None for v in values], column)
        if not lent:
            return array, misfits
        stored, places = self._stored
        found = {n: places[v.key] for n, v in lent.items() if v.key in places}
        mask, lent_by = pa.array([n in found for n in range(len(values))]), stored[column.name].combine_chunks()
        array = pc.replace_with_mask(array, mask, lent_by.take(pa.array(found.values(), pa.int64())))
        name = in_quotes(column.name)
        why = f"UPDATE {self.table.quoted} SET {name} = {name} || '' logs it"
        reason = Reason(
            f'column "{column.name}": an update did not log the unchanged large value, and no stored row has it; {why}'
        )
        return array, misfits | {n: reason for n in lent if n not in found}

    @cached_property
    def _stored(self) -> tuple[pa.Table, dict[Key, int]]:
        """Return the required stored rows, and the index of each key's row."""
        fields = [self.columns[p] for p in self.table.key_places]
        schema = pa.schema([pa.field(c.name, c.type) for c in self.columns])
        keys = list(dict.fromkeys(v.key for row in self.rows for v in row if isinstance(v, StoredValue)))
        arrays = [
            column_of([v if isinstance(v := k[n], bytes) else None for k in keys], c)[0] for n, c in enumerate(fields)
        ]
        if self.find is None:
            return schema.empty_table(), {}
        names = [c.name for c in fields]
        asked = pa.table(arrays, names=names)
        found = self.find(asked)
        if not found.num_rows:
            return schema.empty_table(), {}
        places = {_compared(row.values()): n for n, row in enumerate(found.select(names).to_pylist())}
        known = ((key, places.get(_compared(row.values()))) for key, row in zip(keys, asked.to_pylist(), strict=True))
        rows = pa.table(
            [found[n].combine_chunks().cast(t) for n, t in zip(schema.names, schema.types, strict=True)], schema=schema
        )
        return rows, {key: place for key, place in known if place is not None}


def _compared(key: Iterable[Any]) -> tuple[Any, ...]:
    """Return a key that equals itself also with NaN. No key contains NULL."""
    return tuple(None if value != value else value for value in key)
