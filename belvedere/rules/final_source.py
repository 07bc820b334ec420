"""Whether bounds say that rows of a plan will never change."""

from __future__ import annotations

from belvedere.plan.bounds import event_time_columns
from belvedere.plan.nodes import Node, Scan
from belvedere.plan.rewrite import inline
from belvedere.rules.builder import Builder
from belvedere.time.event_time import Clocks, bounds_by_input


def final_source(builder: Builder, node: Node, time: str) -> Node | None:
    """A plan down to the catalog's inputs; None where no bound of its column `time` says that rows will never change."""
    views = builder.catalog.views
    source = inline(node, lambda i: views[i].plan if i in views else None)
    scanned = {n.relation for n in source.walk() if isinstance(n, Scan)}
    if scanned & builder.never_final:
        return None
    known = bounds_by_input(builder.catalog, Clocks()).__getitem__
    return source if time in event_time_columns(source, known) else None
