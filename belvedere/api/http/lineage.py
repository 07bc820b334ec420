"""`GET /lineage`: the definitions of a script as a graph, and how each one is maintained.

In: a catalog and the model of its API. Out: JSON data: inputs, views, templates, subscriptions and sinks with the
relations that they read, and relationships. For a single node: its SQL, its key and how it is maintained. No rows are
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from belvedere.api.reads.entities import Entity, Model
from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.catalog.inputs import Input
from belvedere.catalog.subscriptions import Subscription
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError
from belvedere.plan.operators.nodes import Node, Scan


def lineage_of(catalog: Catalog, model: Model) -> dict[str, Any]:
    """Return the graph: `nodes`, each with the ids of the nodes that it `reads`, and the relationships between them."""
    pushes = {push.table.id: name for name, push in model.pushes.items()}
    takes, behind = (
        pushed_inputs(catalog),
        {s.view for s in catalog.subscriptions.values() if s.view.startswith(f"{s.id}~")},
    )
    nodes = [
        *(
            _input(t, model.entities.get(i), i in takes, pushes.get(i), catalog.access.grant is None)
            for i, t in catalog.inputs.items()
        ),
        *(
            _view(v, model.entities.get(i), catalog)
            for i, v in catalog.views.items()
            if _is_reported(v, model) and i not in behind
        ),
        *(_subscription(s, model.entities.get(i)) for i, s in catalog.subscriptions.items()),
        *_templates(model),
        *_sinks(catalog),
    ]
    read = {r for n in nodes for r in n["reads"]}
    nodes = [n for n in nodes if n["id"] in read or n["id"] in model.entities or not _is_late(catalog, n["id"])]
    known = {n["id"] for n in nodes}
    for node in nodes:
        node["reads"] = list(dict.fromkeys(_reported_reads(node["reads"], known, catalog)))
    return {"nodes": nodes, "relationships": list(_relationships(model))}


def _node(
    id_: str, name: str, kind: str, doc: str | None, entity: Entity | None, reads: Iterable[str]
) -> dict[str, Any]:
    """Return a node; `endpoint` is its name in GraphQL, None if it has no endpoint of its own."""
    endpoint = (entity.field or None) if entity is not None else None
    key = list(entity.key) if entity is not None else []
    return {"id": id_, "name": name, "kind": kind, "doc": doc, "endpoint": endpoint, "key": key, "reads": list(reads)}


def _input(
    table: Input, entity: Entity | None, takes_pushes: bool, mutation: str | None, shows_source: bool
) -> dict[str, Any]:
    late = [table.late_of] if table.late_of is not None else []
    source = None if table.source is None or not shows_source else f"{table.source.source}.{table.source.table}"
    found = _node(table.id, table.name, "input", table.doc, entity, late)
    return found | {"source": source, "mutation": mutation if takes_pushes else None}


def _view(view: View, entity: Entity | None, catalog: Catalog) -> dict[str, Any]:
    found = _node(view.id, view.name, "view", view.doc, entity, _scans(view.plan))
    return found | {"at_read": view.id in catalog.placement.at_read}


def _subscription(subscription: Subscription, entity: Entity | None) -> dict[str, Any]:
    return _node(subscription.id, subscription.name, "subscription", subscription.doc, entity, (subscription.view,))


def _templates(model: Model) -> Iterable[dict[str, Any]]:
    for field, shown in model.templates.items():
        template = shown.template
        node = _node(f"{template.name}()", template.name, "template", template.doc, None, _scans(template.plan))
        yield node | {"endpoint": field}
    for entity in model.entities.values():
        for relation in entity.relations.values():
            if relation.link.plan is not None:
                target, reads = relation.target, _scans(relation.link.plan)
                yield _node(f"{target}()", target, "template", relation.doc, None, reads)


def _sinks(catalog: Catalog) -> Iterable[dict[str, Any]]:
    for export in catalog.exports:
        name = f"{export.sink}.{export.target}"
        yield _node(f"{name}!", name, "sink", None, None, (export.relation,))


def _relationships(model: Model) -> Iterable[dict[str, Any]]:
    for entity in model.entities.values():
        for name, relation in entity.relations.items():
            yield {
                "name": name,
                "owner": entity.id,
                "target": relation.target if relation.link.plan is None else f"{relation.target}()",
                "one": relation.to_one,
                "doc": relation.doc,
            }


def _is_reported(view: View, model: Model) -> bool:
    """Return whether the graph shows a view: one that the script defines, or one that is served."""
    return view.id in model.entities or bool(view.sql)


def _is_late(catalog: Catalog, id_: str) -> bool:
    """Return whether a relation is the LATE relation of an input."""
    return id_ in catalog.inputs and catalog.inputs[id_].late_of is not None


def _scans(plan: Node) -> list[str]:
    return list(dict.fromkeys(n.relation for n in plan.walk() if isinstance(n, Scan)))


def _reported_reads(reads: Iterable[str], known: set[str], catalog: Catalog) -> Iterable[str]:
    """Return the relations that a view reads; hidden views are replaced by the relations that they read."""
    for relation in reads:
        if relation in known:
            yield relation
        elif relation in catalog.views:
            yield from _reported_reads(_scans(catalog.views[relation].plan), known, catalog)


def definition_of(catalog: Catalog, id_: str) -> dict[str, Any] | None:
    """Return the definition of a node of the graph, as written and in standard SQL; None if there is no such node."""
    if catalog.access.grant is not None:  # texts contain names that the role may not see
        known = id_[:-2] in catalog.templates if id_.endswith("()") else id_ in catalog.public
        return {"id": id_, "sql": None, "standard_sql": None} if known else None
    from belvedere.lang.select.standard_sql import expand  # imported on demand: few processes need it

    if id_ in catalog.views:
        try:
            standard = expand(catalog, id_)
        except BelvedereError:
            standard = None
        return {"id": id_, "sql": catalog.views[id_].sql or None, "standard_sql": standard}
    if id_.endswith("()") and (template := catalog.templates.get(id_[:-2])) is not None:
        return {"id": id_, "sql": template.sql or None, "standard_sql": None}
    if id_ in catalog.subscriptions:
        return {"id": id_, "sql": catalog.views[catalog.subscriptions[id_].view].sql or None, "standard_sql": None}
    if id_ in catalog.inputs:
        return {"id": id_, "sql": None, "standard_sql": None}
    return None


def explanations_of(catalog: Catalog, choice: str | None) -> Mapping[str, dict[str, Any]]:
    """Return how each view is maintained, by id; `choice` is the store's document of views that are computed on
    read."""
    from belvedere.pipeline.choose import maintain  # imported on demand
    from belvedere.pipeline.explain import explain
    from belvedere.pipeline.placement import PlacedViews, with_choice

    chosen = with_choice(catalog, PlacedViews.of_text(choice))
    return {e.name: e.as_dict() for e in explain(chosen, maintain(chosen))}
