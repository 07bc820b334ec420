"""ORDER BY keys as temporary columns of the results.

In: a query. Out: the query that returns the keys beside its results, and the results without them.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.sqlpp.bindings import Result
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import Query, Select, Selected, reference
from belvedere.sqlpp.spark_text.sql_values import Object, Value
from belvedere.sqlpp.substitute import substituted

HIDDEN, HIDDEN_VALUE = "$order", "$value"


def with_order_columns(query: Query) -> tuple[Query, bool]:
    """Return the query with a column for each ORDER BY key that is not a result column, and whether there are any."""
    block = query.blocks[0]
    if not query.order or len(query.blocks) > 1 or block.select.distinct:
        return query, False
    select = block.select
    columns = {s.name for s in select.items if not s.star}
    if select.value is None and all(free_in(k.expr) <= columns for k in query.order):
        return query, False
    known = {s.name: s.expr for s in select.items if s.name is not None and s.expr is not None}
    items = select.items if select.value is None else (Selected(select.value, HIDDEN_VALUE),)
    added, keys = [], []
    for number, key in enumerate(query.order):
        label = f"{HIDDEN}{number}"
        added.append(Selected(substituted(key.expr, known), label))
        keys.append(replace(key, expr=reference(label)))
    block = replace(block, select=Select(items=(*items, *added)))
    return replace(query, blocks=(block,), order=tuple(keys)), True


def without_order_columns(result: Result) -> Result:
    """Return the result without the columns that ORDER BY added."""
    assert isinstance(result.value, Object)
    fields = {n: v for n, v in result.value.fields.items() if not n.startswith(HIDDEN)}
    value: Value = fields[HIDDEN_VALUE] if HIDDEN_VALUE in fields else Object(fields)
    return replace(result, value=value)
