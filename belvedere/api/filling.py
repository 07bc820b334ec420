"""Views that are being filled: rows of sources are read again for them, beside the views that run.

In: the store's document, which the run keeps. Out: a sentence for who asks for such a view.
"""

from __future__ import annotations

import contextlib
import json

from belvedere.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.rules.running import DOCUMENT
from belvedere.store.protocol import AnsweringReader


def filling_text(catalog: Catalog, reader: AnsweringReader) -> str | None:
    """What is being filled of a catalog, and how far it is; None where nothing is, or the store does not say it now."""
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
    return f"{', '.join(names)} {verb} being filled: {known['read']:,} of {known['rows']:,} rows were read again"
