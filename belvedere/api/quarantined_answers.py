"""Views in quarantine as part of an answer: their rows are those of an earlier epoch.

In: the epochs of answers. Out: the relations of an answer that are in quarantine, each with its last good epoch. The
epoch's row is read once per epoch. Only `/status` says why a view failed, since the reason may show rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from belvedere.catalog.catalog import Catalog
from belvedere.engine.errors.failed_stages import DOCUMENT, earlier, failures_of, quarantined
from belvedere.plan.operators.nodes import Scan
from belvedere.store.dialects import DIALECTS
from belvedere.store.read.query import Read, StoreQuery, queries_in
from belvedere.store.system import EPOCH

LastGoodEpochs = Mapping[str, int | None]


def quarantined_sql(dialect: str) -> str:
    """Return the SQL that selects an epoch's row if a relation is in quarantine; most epochs have none."""
    return (
        f"SELECT content FROM {EPOCH} WHERE epoch = {DIALECTS[dialect].marker(1)} AND content LIKE '%\"{DOCUMENT}\":%'"
    )


def quarantined_in(rows: list[tuple[Any, ...]]) -> LastGoodEpochs:
    """Return the relations in quarantine from the rows of `quarantined_sql`."""
    return quarantined(failures_of(json.loads(rows[0][0])["extra"])) if rows else {}


def quarantined_of(read: Read, held: LastGoodEpochs, catalog: Catalog) -> dict[str, int | None]:
    """Return the relations of a read that are in quarantine, by their public names: a relation that only a query
    template reads has the template's name.
    """
    found: dict[str, int | None] = {}
    for query in queries_in(read.fields):
        for relation in relations_of(query) & held.keys():
            name = catalog.name_of(relation) if relation in catalog.public else query.template or "a query template"
            found[name] = earlier(found.get(name, held[relation]), held[relation])
    return found


def relations_of(query: StoreQuery) -> set[str]:
    """Return the relations that a query reads, without those of nested queries."""
    plan = query.rows_plan
    scans = set() if plan is None else {n.relation for n in plan.walk() if isinstance(n, Scan)}
    return scans | {query.relation}


def as_json(held: Mapping[str, int | None]) -> bytes:
    """Return the relations in the form of GraphQL's `extensions`."""
    return json.dumps([{"view": n, "epoch": e} for n, e in held.items()], ensure_ascii=False).encode()


def as_header(held: Mapping[str, int | None]) -> str:
    """Return the relations in the form of REST's header: `Best=12, Ratio=12`.

    Names are percent-encoded; a relation without a good epoch has `none`.
    """
    return ", ".join(f"{quote(n)}={'none' if e is None else e}" for n, e in held.items())
