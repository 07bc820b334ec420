"""Stored rows between two epochs, looked up by the columns of their key.

In: a relation, the state, keys. Out: the rows as of the last epoch. Nothing is written.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.engine.compute import Compute
from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.row_identity import key_text
from belvedere.functions.spark_types import quote
from belvedere.schema import KEY
from belvedere.state.state import State


def rows_of_keys(relation: Relation | None, state: State, compute: Compute, keys: pa.Table) -> pa.Table:
    """Return the rows with these keys (columns of the relation's key); empty for a relation that is not arranged."""
    found = None if relation is None else state.arrangements.get(relation.name)
    if relation is None or found is None:
        return keys.schema.empty_table()
    compute.put("former", Rows(keys))
    text = f"SELECT {key_text(relation.schema)} AS {quote(KEY)} FROM {quote(compute.view_name('former'))}"
    texts = compute.compute(text, pa.schema([pa.field(KEY, pa.string(), nullable=False)])).table[KEY]
    return pa.Table.from_batches(found.look_up(KEY, texts.combine_chunks()), found.arranged.schema)
