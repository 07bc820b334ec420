"""A choice of maintained operators, applied to a catalog: views that are computed at read time, and the parts of them
that are stored.

In: a catalog, and the choice as stored. Out: the catalog with these views in `at_read`, and their parts as private
views. If a view's definition has changed since the choice, the view is maintained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import Placement
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.project import keep_columns
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.rewrite import inline
from belvedere.store.read.computed_views import plan_at_read

DOCUMENT = "_choice"
Path = tuple[int, ...]
"""Position of an operator in a view's plan: the numbers of the inputs on the path down to it."""


@dataclass(frozen=True)
class PlacedView:
    """A view that is computed at read time, except for the operators at `parts`. `fingerprint` is that of its plan."""

    fingerprint: str
    parts: tuple[Path, ...] = ()


@dataclass(frozen=True)
class PlacedViews:
    """The views that are computed at read time, by id, and the query templates that scan."""

    views: Mapping[str, PlacedView] = field(default_factory=dict)
    scanning: frozenset[str] = frozenset()
    """The query templates without an index of their own."""

    def as_text(self) -> str:
        """Return the choice in its stored form."""
        views = {i: {"meaning": v.fingerprint, "parts": v.parts} for i, v in self.views.items()}
        return json.dumps({"views": views, "scanning": sorted(self.scanning)})

    @classmethod
    def of_text(cls, text: str | None) -> PlacedViews:
        """Parse the text of `as_text`. The result is empty for a store without a choice."""
        if not text:
            return cls()
        found = json.loads(text)
        views = {i: PlacedView(v["meaning"], tuple(map(tuple, v["parts"]))) for i, v in found["views"].items()}
        return cls(views, frozenset(found["scanning"]))


def fingerprint_of(catalog: Catalog, id_: str) -> str:
    """Return a fingerprint of a view's plan."""
    return hashlib.sha256(repr(whole_plan(catalog, id_)).encode()).hexdigest()[:24]


def whole_plan(catalog: Catalog, id_: str) -> Node:
    """Return a view's plan down to public relations, except those that the script itself marks as not stored.

    These are the operators of a choice.
    """
    at_read = {i for i, placed in catalog.hints.placed.items() if placed is Placement.AT_READ}
    private = {i: v.plan for i, v in catalog.views.items() if i not in catalog.public or i in at_read}
    return inline(catalog.views[id_].plan, private.get)


def with_choice(catalog: Catalog, choice: PlacedViews) -> Catalog:
    """Return the catalog with the choice, as far as it still fits. Hints of the script take precedence."""
    scanning = choice.scanning & {t.name for t in catalog.templates.values()}
    catalog = replace(catalog, placement=replace(catalog.placement, scanning=scanning))
    for id_, placed in choice.views.items():
        if (
            id_ not in catalog.views
            or id_ in catalog.hints.placed
            or fingerprint_of(catalog, id_) != placed.fingerprint
        ):
            continue
        try:
            catalog = with_view_at_read(catalog, id_, placed.parts)
        except BelvedereError:  # its input is stored in another form now
            continue
    return catalog


def with_view_at_read(catalog: Catalog, id_: str, parts: Collection[Path] = ()) -> Catalog:
    """Return the catalog with a view that is computed at read time, except for some parts.

    Raises B8024 if this is not possible.
    """
    view = catalog.views[id_]
    plan, made = whole_plan(catalog, id_), dict[str, View]()
    for number, path in enumerate(sorted(parts), 1):
        name = f"{id_}@{number}"
        plan, made[name] = _split(plan, path, name)
    views = dict[str, View]()
    for known in catalog.views.values():
        if known.id == id_:
            views |= made
        views[known.id] = known
    placement = replace(catalog.placement, parts=catalog.placement.parts | made.keys())
    found = replace(catalog, views={**views, id_: replace(view, plan=plan)}, placement=placement)
    computed = plan_at_read(found, id_)
    at_read = {**placement.at_read, id_: computed}
    part_paths = {**placement.part_paths, id_: tuple(sorted(parts))}
    return replace(found, views=views, placement=replace(placement, at_read=at_read, part_paths=part_paths))


def _split(plan: Node, path: Path, name: str) -> tuple[Node, View]:
    """Return the plan with a view in place of the operator at `path`, and that view."""
    if not path:
        part = carry_keys(plan)
        return keep_columns(Scan(name, part.schema), plan.schema.names), View(name, name, part, part.schema)
    inputs = list(plan.inputs)
    inputs[path[0]], view = _split(inputs[path[0]], path[1:], name)
    return plan.with_inputs(tuple(inputs)), view


__all__ = [
    "DOCUMENT",
    "Path",
    "PlacedView",
    "PlacedViews",
    "fingerprint_of",
    "whole_plan",
    "with_choice",
    "with_view_at_read",
]
