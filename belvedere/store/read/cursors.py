"""The mark of the order to which a cursor belongs.

In: a query and its total order. Out: a short text. The rest of a cursor are stored values, which a dialect writes and
parses (`Dialect.stored_text`, `Dialect.taken_back`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from belvedere.store.read.query import Sort, StoreQuery


def order_mark(query: StoreQuery, sorts: Sequence[Sort]) -> str:
    """Return a text that differs if rows, columns, types or directions differ."""
    columns = [
        (s.column, str(c.type) if (c := query.schema.find(s.column)) else "", s.descending, s.nulls_first)
        for s in sorts
    ]
    return hashlib.sha256(repr((query.relation, columns)).encode()).hexdigest()[:12]
