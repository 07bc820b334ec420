"""Statistics of a store about a script's relations, for hover: rows, and costs in the last epochs.

In: a catalog, a store's URL. Out: Markdown by relation id. A relation has no statistics if the store lacks it or has
another definition of it, or if the store does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.catalog.catalog import Catalog
from belvedere.editor.pipelines import pipeline_of
from belvedere.engine.change.fingerprints import definition_fingerprints
from belvedere.engine.change.stored_relations import filled_tables
from belvedere.engine.epoch_row.measurements import DOCUMENT as MEASURED
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.engine.epoch_row.row_counts import DOCUMENT as ROWS
from belvedere.errors import BelvedereError, counted
from belvedere.pipeline.placement import DOCUMENT as CHOICE
from belvedere.pipeline.placement import PlacedViews, with_choice
from belvedere.store import EpochRow, file_of, open_reader
from belvedere.store.read.history import stored_tables

STATEMENT_SECONDS = 2.0
"""Timeout of a statement in seconds."""


def stored_figures(catalog: Catalog, url: str) -> dict[str, str]:
    """Return the statistics of each relation after the store's last epoch, by id."""
    try:
        file = file_of(url)
        if file is not None and not file.is_file():
            return {}
        reader = open_reader(url, STATEMENT_SECONDS)
        try:
            row, tables, choice = reader.last_epoch(), stored_tables(reader), reader.document(CHOICE)
        finally:
            reader.close()
    except BelvedereError:  # not a Belvedere store, another version, or no answer
        return {}
    pipeline = pipeline_of(with_choice(catalog, PlacedViews.of_text(choice)) if choice else catalog)
    if row is None or pipeline is None:
        return {}
    filled, requested = filled_tables(row, tables.values()), definition_fingerprints(pipeline)
    same = {i: n for i, n in pipeline.served.items() if filled.get(n) == requested[n]}
    return {i: text for i, n in same.items() if (text := _text(i, n, row))}


def _text(id_: str, table: str, row: EpochRow) -> str:
    rows: Mapping[str, int] = row.extra.get(ROWS) or {}
    measured = Measured.of_document(row.extra.get(MEASURED))
    parts = [counted(rows[id_], "row")] if id_ in rows else []
    if measured.epochs and table in measured.changed:
        parts.append(
            f"{measured.changed[table]:,.3g} changed per epoch on average, in {measured.seconds.get(table, 0.0):.3g} s"
        )
    return f"in the store after epoch {row.epoch}: {'; '.join(parts)}" if parts else ""
