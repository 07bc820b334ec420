"""Notices about windows that are not over yet: what a subscription or an export tells of them is not the last word.

In: a catalog that compiled. Out: a notice for each subscription and export over groups of event-time windows that nothing holds back until
they are complete (One SQL, extension 4).
"""

from __future__ import annotations

from collections.abc import Iterator

from belvedere.catalog import Catalog, ChangeKind
from belvedere.errors import Diagnostic, Severity
from belvedere.lang.checks_catalog import event_times
from belvedere.plan.bounds import event_time_columns, grouping_columns
from belvedere.plan.nodes import Aggregate, Node, Scan
from belvedere.plan.time_nodes import Emit, InOrder

HINT = "end the query of the windows with EMIT AFTER WATERMARK: their rows come once, when they are final"


def open_windows(catalog: Catalog) -> list[Diagnostic]:
    """B5033 for subscriptions ON ADD or ON DELETE and exports that see windows grow."""
    found = []
    for subscription in catalog.subscriptions.values():
        if subscription.on is not ChangeKind.CHANGE and _is_open(catalog.views[subscription.view].plan, catalog):
            message = f"`{subscription.name}` tells of windows that are still open: it fires on partial results, and not again"
            hint = f"{HINT}; or say ON CHANGE to hear of each change"
            found.append(Diagnostic("B5033", message, Severity.NOTICE, subscription.span, hint=hint))
    for export in catalog.exports:
        view = catalog.views.get(export.relation)
        if view is not None and _is_open(view.plan, catalog):
            message = f"the export of `{view.name}` has each change of windows that are still open"
            found.append(Diagnostic("B5033", message, Severity.NOTICE, export.span, hint=HINT))
    return found


def _is_open(plan: Node, catalog: Catalog) -> bool:
    """Whether rows of incomplete windows come through."""
    known = event_times(catalog)
    return any(n.aggregates and grouping_columns(n, known) & event_time_columns(n, known) for n in _groups(plan, catalog))


def _groups(node: Node, catalog: Catalog) -> Iterator[Aggregate]:
    """The aggregates below, also of views; what EMIT or SELECT STREAM holds back is not looked at."""
    if isinstance(node, (Emit, InOrder)):
        return
    if isinstance(node, Aggregate):
        yield node
    if isinstance(node, Scan) and node.relation in catalog.views:
        yield from _groups(catalog.views[node.relation].plan, catalog)
    for below in node.inputs:
        yield from _groups(below, catalog)
