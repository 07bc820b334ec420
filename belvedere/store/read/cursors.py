"""The mark of the order that a cursor belongs to.

In: a query and its total order. Out: a short text. What else a cursor holds are stored values, which a dialect writes and takes back
(`Dialect.stored_text`, `Dialect.taken_back`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from belvedere.store.read.query import Sort, StoreQuery


def order_mark(query: StoreQuery, sorts: Sequence[Sort]) -> str:
    """A text that differs where rows, columns, types or directions differ."""
    columns = [
        (s.column, str(c.type) if (c := query.schema.find(s.column)) else "", s.descending, s.nulls_first)
        for s in sorts
    ]
    return hashlib.sha256(repr((query.relation, columns)).encode()).hexdigest()[:12]
