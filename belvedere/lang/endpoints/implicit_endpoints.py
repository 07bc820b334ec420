"""Relations that are served without their own endpoint: private views that public templates and relationships read, and
views with `no_query`.

In: a catalog, and the ids without an endpoint. Out: the catalog in which such views are public (stored, indexed,
reached through their readers) and unlisted, and a notice for every relationship that cannot be followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.shown_names import IMPORTED, shown_names
from belvedere.errors import Diagnostic, Severity
from belvedere.plan.operators.nodes import Scan


def with_implicit_endpoints(catalog: Catalog, no_query: frozenset[str]) -> tuple[Catalog, tuple[Diagnostic, ...]]:
    """Return the catalog with the relations that its templates and relationships reach."""
    reached = set(catalog.public)
    while (
        more := {i for i in _read(catalog, frozenset(reached)) if i in catalog.views and "~" not in i} - reached
    ):  # old versions are excluded
        reached |= more
    unlisted = frozenset(reached - catalog.public) | (no_query & reached)
    served = replace(catalog, public=frozenset(reached), unlisted=unlisted)
    return served, tuple(_vanished(served))


def _read(catalog: Catalog, shown: frozenset[str]) -> Iterator[str]:
    for template in catalog.templates.values():
        if not template.field.startswith("_") and (not template.owner or template.owner in shown):
            yield from (n.relation for n in template.plan.walk() if isinstance(n, Scan))
    for relationship in catalog.relationships:
        if relationship.owner in shown and not relationship.name.startswith("_"):
            yield relationship.target
    for view in catalog.views.values():
        if view.parent in shown and not view.name.rpartition(".")[2].startswith("_"):
            yield view.id


def _vanished(catalog: Catalog) -> Iterator[Diagnostic]:
    """Yield notices on relationships of served relations to inputs that are not stored."""
    for relationship in catalog.relationships:
        table = catalog.inputs.get(relationship.target)
        private = relationship.name.startswith("_") or relationship.owner not in catalog.public
        if table is None or private or relationship.target in catalog.public or table.late_of is not None:
            continue
        shown = shown_names(table.id)
        message = (
            f"the API does not show `{catalog.name_of(relationship.owner)}.{relationship.name}`: `{shown}` is not "
            "stored"
        )
        imported = (
            f"`{shown_names(table.name)}` belongs to another script: import it, too" if IMPORTED in table.name else None
        )
        hint = (
            imported
            or f"join a view of it, or name the relationship `_{relationship.name}`: then only the script can use it"
        )
        yield Diagnostic("B8023", message, Severity.NOTICE, relationship.span, hint=hint)
