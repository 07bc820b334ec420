"""`_uid` and `_ingest_time` through views that only filter and compute columns of rows: queries may name them there.

In: a relation, and the names in a query. Out: its rows with these columns, hidden, from the input below; nothing is
stored for it.
"""

from __future__ import annotations

from collections.abc import Collection

from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import base_scan
from belvedere.plan.rewrites.rewrite import carry, inline
from belvedere.schema import INGEST_TIME, UID

ARRIVAL = (UID, INGEST_TIME)


def rows_with_arrivals(definitions: Definitions, relation: NamedRelation, said: Collection[str]) -> Node:
    """Return all rows of a relation with the arrival columns in `said` (folded names) that it does not have itself."""
    return with_arrivals(definitions, Scan(relation.id, relation.schema), said)


def with_arrivals(definitions: Definitions, rows: Node, said: Collection[str]) -> Node:
    """Return the rows of a query with the arrival columns in `said`."""
    missing = [n for n in ARRIVAL if n in said and rows.schema.find(n) is None]
    if not missing:
        return rows
    plan = inline(rows, lambda id_: _simple(definitions, id_))
    scan = base_scan(plan)
    table = definitions.inputs.get(scan.relation) if scan is not None else None
    if scan is None or table is None:
        return rows
    carried, names = carry(plan, scan, tuple(item_of(scan.schema[n], hidden=True) for n in missing))
    return carried if tuple(names) == tuple(missing) else rows


def _simple(definitions: Definitions, id_: str) -> Node | None:
    view = definitions.views.get(id_)
    return None if view is None or base_scan(view.plan) is None else view.plan
