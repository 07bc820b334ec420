"""Targets of exports: two exports of a script may not share one, since the later would replace the earlier's events.

In: a catalog, the sinks of the project file. Out: diagnostics. No sink is contacted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.subscriptions import Export
from belvedere.connectors.registry import writing_connector
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.project.settings import Sink


def refused_targets(catalog: Catalog, sinks: Mapping[str, Sink]) -> Iterator[Diagnostic]:
    """Yield B6113 for each export to the target of an earlier one."""
    known = {name.casefold(): sink for name, sink in sinks.items()}
    exports = [(e, known[e.sink.casefold()]) for e in catalog.exports if e.sink.casefold() in known]
    counts = Counter(_kind(sink) for _, sink in exports)
    first: dict[tuple[str, ...], Export] = {}
    for export, sink in exports:
        if counts[_kind(sink)] < 2:
            continue
        for place in _places(export, sink):
            other = first.setdefault(place, export)
            if other is not export:
                yield _refusal(export, other, catalog)
                break


def _places(export: Export, sink: Sink) -> Iterator[tuple[str, ...]]:
    yield "export", export.relation, sink.name, export.target
    try:
        connector = writing_connector(sink.connector)
        found = connector.place(sink, export.target) if hasattr(connector, "place") else f"{sink.name} {export.target}"
    except BelvedereError:  # the run reports the sink's error
        return
    if found is not None:
        yield _kind(sink), found


def _kind(sink: Sink) -> str:
    """Return the kind of a sink's targets: a folder of files cannot also be a Delta table."""
    return "folder" if sink.connector in ("files", "delta") else sink.connector


def _refusal(export: Export, other: Export, catalog: Catalog) -> Diagnostic:
    name, there = f"{export.sink}.{export.target}", f"{other.sink}.{other.target}"
    message = f"`{catalog.name_of(other.relation)}` is already exported to `{name}`"
    if name != there:
        message += f", as `{there}`"
    hint = "export to another target, or export one view of both: `SELECT ... UNION ALL SELECT ...`"
    return Diagnostic("B6113", message, span=export.span, hint=hint)
