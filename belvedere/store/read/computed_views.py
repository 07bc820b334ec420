"""Views that the store computes at read time: which ones SQL expresses exactly as Spark does, and the database relation
that computes each.

In: a catalog, the id of a view. Out: the view's plan over stored relations, and its SQL in a dialect. A view is refused
with B8024 if the store cannot express it exactly, or if something must observe its changes; it is then maintained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError, fail
from belvedere.plan.operators.nodes import Aggregate, Distinct, Node, Scan, SetOperation, TopK, Window
from belvedere.plan.rewrites.rewrite import inline
from belvedere.plan.ties import tie_columns
from belvedere.schema import Column
from belvedere.store.dialects import DIALECTS, dialects_for
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.read.plans import print_plan
from belvedere.store.read.query import is_ordered
from belvedere.store.read.shared_sets import Sets
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import EPOCH
from belvedere.values.type_names import type_text

BEYOND = ("B8020", "B7087", "B7088", "B7099")
"""Codes for queries that the database cannot express, or cannot compute with these values.

Spark then computes them; its reads report problems of the database itself.
"""
LAST_CLOCK = f"(SELECT clock FROM {EPOCH} ORDER BY epoch DESC LIMIT 1)"


def is_said(node: Node, database: str | None = None) -> bool:
    """Return whether a kind of database (None: every one) computes an operator exactly as Spark does, over
    any input.
    """
    over = node.with_inputs(tuple(Scan(f"i{n}", i.schema) for n, i in enumerate(node.inputs)))
    if any(_unlike(node)):
        return False
    try:
        for dialect in dialects_for(database):
            print_plan(over, dialect, {}, clock=LAST_CLOCK)
    except BelvedereError as error:
        if error.diagnostics[0].code != "B8020":
            raise
        return False
    return True


def text_at_read(plan: Node, dialect: str, sets: Sets | None = None) -> str:
    """Return a plan over stored relations as SQL of a dialect.

    Raises B8020 if the database cannot express it exactly as Spark does.

    `sets` as in `print_plan`.
    """
    reason = next((r for node in plan.walk() for r in _unlike(node)), None)
    if reason is not None:
        raise fail("B8020", reason)
    return print_plan(plan, DIALECTS[dialect], {}, clock=LAST_CLOCK, sets=sets)


def plan_of_unstored(catalog: Catalog, id_: str, stored: Collection[str]) -> Node | None:
    """Return the plan of a view that is not stored, if its rows follow from stored relations."""
    view = catalog.views.get(id_)
    if view is None or id_ in stored:
        return None
    for node in view.plan.walk():
        source = catalog.inputs.get(node.relation) if isinstance(node, Scan) else None
        if node.is_historic or (source is not None and source.keep is not None):
            return None
    return view.plan


def must_be_stored(catalog: Catalog, id_: str) -> bool:
    """Return whether a view must be maintained, whatever its operators are."""
    return any(_followed(catalog, catalog.views[id_]))


def why_maintained(catalog: Catalog, id_: str) -> str | None:
    """Return why a view cannot be computed at read time, or None if it can."""
    try:
        plan_at_read(catalog, id_)
    except BelvedereError as error:
        return error.diagnostics[0].reason or error.diagnostics[0].message
    return None


def plan_at_read(catalog: Catalog, id_: str) -> Node:
    """Return the plan by which the store computes a view.

    Private views, and others that are computed at read time, are inlined.

    Raises B8024 with the reason if the view must be maintained.
    """
    view = catalog.views[id_]
    try:
        plan = inline(view.plan, lambda i: _part(catalog, i))
        reason = next(_reasons(catalog, view, plan), None)
        if reason is None:
            for dialect in dialects_for(catalog.database):
                print_plan(plan, dialect, {}, clock=LAST_CLOCK)
            return plan
        hint = None
    except BelvedereError as error:
        if error.diagnostics[0].code != "B8020":
            raise
        reason, hint = error.diagnostics[0].message, error.diagnostics[0].hint
    message = f"`{view.name}` cannot be computed at read time: {reason}"
    raise fail(
        "B8024", message, span=view.span, hint=hint or "remove the hint: the view is then maintained", reason=reason
    )


def computed_table(catalog: Catalog, id_: str, plan: Node, dialect: Dialect) -> StoredTable:
    """Return the database relation that computes a view by its plan. Its fingerprint is that of its SQL."""
    view = catalog.views[id_]
    sql = print_plan(plan, dialect, {}, clock=LAST_CLOCK)
    fingerprint = hashlib.sha256(sql.encode()).hexdigest()[:24]
    order = tuple((o.expr.name, o.descending, o.nulls_come_first) for o in view.order)
    return StoredTable(id_, view.schema, fingerprint=fingerprint, order=order, query=sql)


def _part(catalog: Catalog, id_: str) -> Node | None:
    """Return the plan of a view that is not stored."""
    known = catalog.placement.at_read.get(id_)
    view = catalog.views.get(id_)
    return known if known is not None or view is None or id_ in catalog.public | catalog.placement.parts else view.plan


def _reasons(catalog: Catalog, view: View, plan: Node) -> Iterator[str]:
    """Yield the reasons why a view must be maintained, except expressions that have no SQL."""
    yield from _followed(catalog, view)
    for node in plan.walk():
        yield from _unlike(node)
        if isinstance(node, Scan):
            yield from _not_there(catalog, node.relation)


def _followed(catalog: Catalog, view: View) -> Iterator[str]:
    """Yield the reasons why the rows of a view must be stored."""
    if view.id in catalog.histories:
        yield "its history is retained"
    if any(s.view == view.id for s in catalog.subscriptions.values()):
        yield "a subscription reports its changes"
    if any(e.relation == view.id for e in catalog.exports):
        yield "its changes are exported"
    key = view.schema.key
    if key is None or not all(is_ordered(view.schema[n].type) for n in key):
        yield "its rows have no key that can be compared"


def _not_there(catalog: Catalog, id_: str) -> Iterator[str]:
    """Yield the reasons why a relation that the view reads is not in the store with all of its rows."""
    source = catalog.inputs.get(id_)
    if id_ not in catalog.public | catalog.placement.parts:
        yield f"it reads `{catalog.name_of(id_)}`, which is not stored"
    elif source is not None and source.keep is not None:
        yield f"rows leave `{source.name}` (KEEP), which it reads"


def _unlike(node: Node) -> Iterator[str]:
    """Yield the differences of an operator between a database and Spark: databases distinguish the zeros of doubles,
    which only DISTINCT shows."""
    compared: list[Column] = []
    if isinstance(node, Aggregate):
        compared = [node.schema[k.name] for k in node.keys]
    elif isinstance(node, Distinct | SetOperation):
        compared = list(node.schema)
    elif isinstance(node, TopK):
        compared = [node.schema[n] for n in node.partition]
        if not all(is_ordered(node.input.schema[n].type) for n in tie_columns(node.input.schema)):
            yield "rows that tie have no order"
    for c in compared:
        if pa.types.is_floating(c.type) or not is_ordered(c.type):
            yield f"rows are compared by `{c.name}`, which is {type_text(c.type)}"
    if isinstance(node, Window):
        yield "window functions cannot be computed at read time"
