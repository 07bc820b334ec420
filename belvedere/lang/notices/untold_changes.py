"""Notices on changes that a view, a subscription or an export does not report.

In: a catalog without errors. Out: a notice for each subscription and export over groups of event-time windows that are
not held back until complete (One SQL, extension 4), since their events may not be final. Also a notice for each
subscription whose arguments are compared with columns that may change under one key.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.subscriptions import ChangeKind
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import Diagnostic, Severity
from belvedere.lang.notices.endless_growth import event_times
from belvedere.plan.bounds import event_time_columns, grouping_columns
from belvedere.plan.expressions import conjuncts, reads_clock
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Aggregate, Filter, Join, JoinKind, Node, Project, Scan, Union

HINT = "end the query of the windows with EMIT AFTER WATERMARK: each row is then emitted once, when it is final"


def open_windows(catalog: Catalog) -> list[Diagnostic]:
    """Return B5033 for subscriptions ON ADD or ON DELETE and exports that see incomplete windows."""
    found = []
    for subscription in catalog.subscriptions.values():
        if subscription.on is not ChangeKind.CHANGE and is_open(catalog.views[subscription.view].plan, catalog):
            partial = "it fires on partial results, and not again when they change"
            message = f"`{subscription.name}` observes windows that are still open: {partial}"
            hint = f"{HINT}; or write ON CHANGE to receive each change"
            found.append(Diagnostic("B5033", message, Severity.NOTICE, subscription.span, hint=hint))
    for export in catalog.exports:
        view = catalog.views.get(export.relation)
        if view is not None and is_open(view.plan, catalog):
            message = f"the export of `{view.name}` sends each change of windows that are still open"
            found.append(Diagnostic("B5033", message, Severity.NOTICE, export.span, hint=HINT))
    return found


def changing_arguments(catalog: Catalog) -> list[Diagnostic]:
    """Return B4038 for subscriptions with arguments whose rows may start or stop to match."""
    found = []
    for template in catalog.templates.values():
        subscription = catalog.subscriptions.get(template.name) if template.events else None
        if subscription is None:
            continue
        view = catalog.views[subscription.view]
        changing = sorted(_compared(template) - set(view.schema.key or ()))
        if changing and not _only_arrives(view.plan, catalog):
            shown = next((n for n in changing if not n.startswith("_")), None)
            what = f"`{shown}`" if shown is not None else "a column that arguments are compared with"
            reported = f"an event reports that a row is {_SAID[subscription.on]}, not that it starts or stops matching"
            message = f"{what} may change in rows of `{template.name}`: {reported}"
            hint = "compare arguments with key columns, or subscribe to append-only rows"
            found.append(Diagnostic("B4038", message, Severity.NOTICE, subscription.span, hint=hint))
    return found


_SAID = {ChangeKind.ADD: "new", ChangeKind.CHANGE: "changed", ChangeKind.DELETE: "gone"}


def _compared(template: QueryTemplate) -> set[str]:
    """Return the columns of events that a template compares with its own parameters."""
    found = {
        c.name
        for node in template.plan.walk()
        if isinstance(node, Filter)
        for part in conjuncts(node.condition)
        if part.find(exp.Placeholder) is not None
        for c in part.find_all(exp.Column)
    }
    columns = _template_columns(template)
    return {columns[n] for n in found if n in columns} - {"_seq"}


def _template_columns(template: QueryTemplate) -> dict[str, str]:
    """Return the names of the columns below a template's filter in the relation that it reads."""
    found: dict[str, str] = {}
    for node in template.plan.walk():
        if isinstance(node, Project) and isinstance(node.input, Scan):
            found |= {i.name: i.expr.name for i in node.items if isinstance(i.expr, exp.Column)}
    return found


def _only_arrives(node: Node, catalog: Catalog) -> bool:
    """Return whether rows are never updated or deleted; False if that is not certain."""

    @cache  # without the cache, views that read a view twice would double the work at each level
    def arrives(relation: str) -> bool:
        if relation in catalog.inputs:
            return catalog.inputs[relation].append_only
        return relation not in catalog.views or of(catalog.views[relation].plan)  # otherwise events

    def of(node: Node) -> bool:
        match node:
            case Scan():
                return arrives(node.relation)
            case Emit():
                return node.watermark or node.stream
            case Filter() if reads_clock(node.condition):
                return False
            case Project() | Filter() | Union() | InOrder():
                return all(map(of, node.inputs))
            case Join():
                return node.kind is JoinKind.INNER and all(map(of, node.inputs))
        return False

    return of(node)


def is_open(plan: Node, catalog: Catalog) -> bool:
    """Return whether rows of incomplete windows pass through."""
    known = event_times(catalog)
    groups = _groups(plan, catalog, set())
    return any(n.aggregates and grouping_columns(n, known) & event_time_columns(n, known) for n in groups)


def _groups(node: Node, catalog: Catalog, visited: set[str]) -> Iterator[Aggregate]:
    """Yield the aggregates below, also those of views not yet `visited`. Plans under EMIT or SELECT STREAM are
    skipped."""
    if isinstance(node, (Emit, InOrder)):
        return
    if isinstance(node, Aggregate):
        yield node
    if isinstance(node, Scan) and node.relation in catalog.views and node.relation not in visited:
        visited.add(node.relation)
        yield from _groups(catalog.views[node.relation].plan, catalog, visited)
    for below in node.inputs:
        yield from _groups(below, catalog, visited)
