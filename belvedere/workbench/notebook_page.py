"""Notebook view of a Workbench: its relations with their rows and how they are maintained, the epoch, the clock, the
store.

In: the engine and the store's URL. Out: HTML with all texts escaped. It computes nothing and reads no rows.
"""

from __future__ import annotations

from datetime import datetime
from html import escape

from belvedere.engine.epoch import Engine
from belvedere.store.dialects.faults import without_password
from belvedere.values.row_texts import html_table, value_text

COLUMNS = ("relation", "kind", "rows", "how it is kept", "columns")


def workbench_html(engine: Engine, url: str, clock: datetime | None) -> str:
    """Return the page of a Workbench; `clock` is the time of the next epoch, None for the real time."""
    catalog = engine.catalog
    shown = [i for i in (*catalog.inputs, *catalog.views, *catalog.subscriptions) if i in catalog.public]
    facts = [
        f"epoch {engine.last.number}",
        "real time" if clock is None else f"clock {value_text(clock)}",
        without_password(url),
    ]
    facts += [f"in quarantine: {', '.join(engine.quarantined)}"] if engine.quarantined else []
    table = html_table(COLUMNS, [_line(engine, id_) for id_ in shown], [False, False, True, False, False])
    return f"<p><b>Workbench</b>: {escape('; '.join(facts))}</p>{table}"


def _line(engine: Engine, id_: str) -> tuple[str, ...]:
    catalog = engine.catalog
    columns = ", ".join(c.name for c in catalog.schema_of(id_).visible)
    return catalog.name_of(id_), _kind(engine, id_), _rows(engine, id_), _maintenance(engine, id_), columns


def _kind(engine: Engine, id_: str) -> str:
    table = engine.catalog.inputs.get(id_)
    if table is not None:
        return str(table.kind.value)
    return "view" if id_ in engine.catalog.views else "subscription"


def _rows(engine: Engine, id_: str) -> str:
    """Return the number of rows of a relation as text; empty if they are computed on read."""
    count = engine.last.row_counts.get(id_)
    return "" if count is None else f"{count:,}"


def _maintenance(engine: Engine, id_: str) -> str:
    if id_ in engine.catalog.placement.at_read:
        return "computed at read time"
    rules = dict.fromkeys(s.rule for s in engine.pipeline.stages if s.owner == id_)
    return ", ".join(rules)
