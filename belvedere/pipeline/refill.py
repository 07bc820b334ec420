"""The part of a changed script that can run while rows are re-read for the rest.

In: a catalog, its pipeline, the planned effects on its relations. Out: the catalog without the views, subscriptions,
exports and templates that wait for these rows, and the names of the public ones among them. It does not read the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from belvedere.catalog.catalog import Catalog
from belvedere.engine.change.table_plan import TablePlan
from belvedere.engine.pipeline import Pipeline
from belvedere.plan.operators.nodes import Node, Scan

V = TypeVar("V")
DOCUMENT = "_backfill"
"""The store's document of the relations being filled, and the progress; empty if none is."""


@dataclass(frozen=True)
class RunningViews:
    """The part of a script that runs, and the names of the public relations that wait."""

    catalog: Catalog
    waiting: tuple[str, ...]


def running_views(catalog: Catalog, pipeline: Pipeline, plan: TablePlan) -> RunningViews:
    """Remove new or changed relations that are computed from inputs in `plan.again` from the catalog."""
    late = _late_relations(pipeline, plan)
    ids = {i for i, relation in pipeline.served.items() if relation in late}
    ids |= {i for i, p in catalog.placement.at_read.items() if _scans(p) & (late | ids)}
    subscriptions = {i: s for i, s in catalog.subscriptions.items() if i not in ids and s.view not in ids}
    ids |= catalog.subscriptions.keys() - subscriptions.keys()
    running = replace(
        catalog,
        public=catalog.public - ids,
        subscriptions=subscriptions,
        exports=tuple(e for e in catalog.exports if e.relation not in ids),
        histories=_without(catalog.histories, ids),
        templates={n: t for n, t in catalog.templates.items() if not _scans(t.plan) & ids},
        placement=replace(catalog.placement, at_read=_without(catalog.placement.at_read, ids)),
        relationships=tuple(r for r in catalog.relationships if not {r.owner, r.target, r.kept} & ids),
    )
    return RunningViews(running, tuple(catalog.name_of(i) for i in sorted(ids & catalog.public)))


def _late_relations(pipeline: Pipeline, plan: TablePlan) -> frozenset[str]:
    """Return the relations that are new or changed themselves, and are computed from re-read rows."""
    behind, late = set(plan.again - plan.held), set(plan.refilled)
    for stage in pipeline.stages:
        is_new = stage.output in plan.fresh or not pipeline.relations[stage.output].stored
        if is_new and any(s.relation in behind for s in stage.slots):
            behind |= {stage.output, *stage.states}
            late |= {stage.output} & plan.changed
    return frozenset(late)


def _scans(plan: Node) -> set[str]:
    return {n.relation for n in plan.walk() if isinstance(n, Scan)}


def _without(found: Mapping[str, V], ids: Collection[str]) -> dict[str, V]:
    return {i: value for i, value in found.items() if i not in ids}
