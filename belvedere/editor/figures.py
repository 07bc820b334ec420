"""What a store knows of a script's relations, for hover: rows, and what they cost in the last epochs.

In: a catalog, a store's URL. Out: Markdown by the relation's id. Nothing is told of a relation that the store has with other columns or
not at all, and nothing where the store does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.catalog import Catalog
from belvedere.engine.measured import DOCUMENT as MEASURED
from belvedere.engine.measured import Measured
from belvedere.engine.row_counts import DOCUMENT as ROWS
from belvedere.errors import BelvedereError
from belvedere.schema import Schema
from belvedere.store import EpochRow, file_of, open_reader
from belvedere.store.read.history import stored_tables

SECONDS = 2.0
"""So long a statement may take."""


def stored_figures(catalog: Catalog, url: str) -> dict[str, str]:
    """The figures of each relation after the store's last epoch, by id."""
    try:
        file = file_of(url)
        if file is not None and not file.is_file():
            return {}
        reader = open_reader(url, SECONDS)
        try:
            row, stored = reader.last_epoch(), stored_tables(reader)
        finally:
            reader.close()
    except BelvedereError:  # no store of ours, another version, no answer
        return {}
    if row is None:
        return {}
    known = {**{i: t.schema for i, t in catalog.inputs.items()}, **{i: v.schema for i, v in catalog.views.items()}}
    same = [i for i, s in known.items() if i in stored and _columns(stored[i].schema) == _columns(s)]
    return {i: text for i in same if (text := _text(i, row))}


def _columns(schema: Schema) -> list[tuple[str, str]]:
    return [(c.name, str(c.type)) for c in schema.columns]


def _text(id_: str, row: EpochRow) -> str:
    rows: Mapping[str, int] = row.extra.get(ROWS) or {}
    measured = Measured.of_document(row.extra.get(MEASURED))
    parts = [f"{rows[id_]:,} rows"] if id_ in rows else []
    if measured.epochs and id_ in measured.changed:
        parts.append(f"{measured.changed[id_]:,.3g} changed in a mean epoch, in {measured.seconds.get(id_, 0.0):.3g} s")
    return f"in the store after epoch {row.epoch}: {'; '.join(parts)}" if parts else ""
