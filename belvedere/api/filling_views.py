"""Views that are not stored yet: those being filled, and those that the next epoch creates.

In: the store's status. Out: a sentence for clients that read a view being filled, and whether the next epoch adds what
is missing.
"""

from __future__ import annotations

import contextlib
import json

from belvedere.api.quarantined_answers import relations_of
from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.pipeline.refill import DOCUMENT
from belvedere.store.definitions import table_from_text
from belvedere.store.protocol import AnsweringReader
from belvedere.store.read.query import Read, queries_in
from belvedere.store.system import TABLE


def filling_text(catalog: Catalog, reader: AnsweringReader) -> str | None:
    """Return a sentence about the views being filled, with their progress; None without such views or an answer of the
    store."""
    found = None
    with contextlib.suppress(BelvedereError):
        found = reader.document(DOCUMENT)
    if not found:
        return None
    known = json.loads(found)
    shown = {catalog.name_of(i) for i in catalog.public}
    names = [n for n in known["views"] if n in shown]
    if not names:
        return None
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {verb} being filled: {known['read']:,} of {known['rows']:,} rows re-read"


def is_awaited(read: Read, catalog: Catalog, reader: AnsweringReader) -> bool:
    """Return whether the script defines a relation or column of a read that the store lacks. The next epoch creates
    it."""
    try:
        found = [table_from_text(definition) for (definition,) in reader.execute(f"SELECT definition FROM {TABLE}")]
    except BelvedereError:
        return True  # there is no epoch yet, or the store is away
    stored = {t.name: set(t.schema.names) for t in found}
    relations = {r for query in queries_in(read.fields) for r in relations_of(query)} & catalog.public
    return any(r not in stored or not set(catalog.schema_of(r).names) <= stored[r] for r in relations)
