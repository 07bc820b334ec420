"""Import of another script's relations: one instance of each, even if several IMPORTs and scripts name it.

In: the definitions of both, the relations that an IMPORT names and their names here. Out: the definitions with these
relations and all that they depend on or lead to. A relation that no IMPORT names has a name that scripts cannot write;
a later IMPORT may name it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from belvedere.catalog.inputs import Input
from belvedere.catalog.shown_names import IMPORTED
from belvedere.catalog.subscriptions import EVENT_COLUMNS, Subscription
from belvedere.catalog.views import View
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.plan.operators.nodes import Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.rewrite import replace_scans


def bring_in(
    mine: Definitions, other: Definitions, requested: list[NamedRelation], script: Path, shown: dict[str, str]
) -> dict[str, str]:
    """Define the requested relations and their dependencies; return the ids here, by those in the other script.

    `shown` are the names here, by the folded names in `script`; nested tables follow.
    """
    here = {origin: id_ for id_, origin in mine.origins.items()}
    renamed: dict[str, str] = {}
    needed = _needed(other, [r.id for r in requested])
    for id_ in needed:
        relation = other.relations[id_]
        root = _root(other, relation)
        wished = shown.get(root.casefold())
        origin = other.origins.get(id_, (script, id_))
        rest = relation.name[len(root) :]
        if origin in here:
            renamed[id_] = here[origin]
            if wished is not None:
                _name_again(mine, here[origin], wished + rest, other.find(relation.name) is relation)
        else:
            unnamed = root if IMPORTED in root else f"_{root}{IMPORTED}"
            name = (unnamed if wished is None else wished) + rest
            renamed[id_] = mine.new_id(name)
            mine.origins[renamed[id_]] = origin
            _copy(mine, other, relation, name, renamed)
        if wished is not None and id_ in other.histories:
            mine.histories.setdefault(renamed[id_], other.histories[id_])
    for id_ in needed:
        _relate(mine, other, other.relations[id_], renamed)
    for template in other.computed.values():
        owner = mine.relations.get(renamed.get(template.owner, ""))
        if owner is not None:
            name = f"{owner.name}.{template.field}"
            plan = replace_scans(template.plan, lambda scan: replace(scan, relation=renamed[scan.relation]))
            mine.computed.setdefault(name.casefold(), replace(template, name=name, owner=owner.id, plan=plan))
    return renamed


def _name_again(mine: Definitions, id_: str, name: str, is_last: bool) -> None:
    """Give an imported relation the name of a later IMPORT: its own name if it had none that can be written, else a
    further one.

    `is_last`: whether the name means this relation at the end of the other script.
    """
    relation = mine.relations[id_]
    current = mine.find(name)
    if relation.name.casefold() == name.casefold():
        if (
            is_last and current is not None and mine.with_columns_of(relation) is not current
        ):  # there was a definition between the two
            mine.versions[name.casefold()] = [*mine.versions[name.casefold()], id_]
    elif IMPORTED in relation.name:
        _rename(mine, relation, name)
    elif is_last and (current is None or _target(mine, current.id) != id_):
        _define_alias(mine, relation, name)


def _rename(mine: Definitions, relation: NamedRelation, name: str) -> None:
    before = relation.name.casefold()
    mine.versions[before] = [i for i in mine.versions[before] if i != relation.id]
    if not mine.versions[before]:
        del mine.versions[before]
    mine.versions[name.casefold()] = [*mine.versions.get(name.casefold(), ()), relation.id]
    mine.computed = {
        n: t for n, t in mine.computed.items() if t.owner != relation.id
    }  # related again under the new name
    mine.broken.discard(name.casefold())
    mine.relations[relation.id] = replace(relation, name=name)
    for nested in (r for r in mine.relations.values() if r.parent == relation.name):
        mine.relations[nested.id] = replace(mine.relations[nested.id], parent=name)
    tables: tuple[dict[str, Input] | dict[str, View] | dict[str, Subscription], ...] = (
        mine.inputs,
        mine.views,
        mine.subscriptions,
    )
    for made in tables:
        if relation.id in made:
            made[relation.id] = replace(made[relation.id], name=name)  # type: ignore[assignment]


def _define_alias(mine: Definitions, relation: NamedRelation, name: str) -> None:
    """Define a second name: a view of all rows, with the relationships of the first."""
    plan = Project(Scan(relation.id, relation.schema), tuple(item_of(c) for c in relation.schema))
    parent = mine.find(name.rpartition(".")[0]) if relation.parent is not None else None
    pairs = relation.parent_key if parent is not None else ()
    of = parent.id if parent is not None else None
    view = View(mine.new_id(name), name, plan, plan.schema, relation.span, None, of, pairs)
    links = {folded: replace(r, owner=view.id) for folded, r in relation.relationships.items()}
    mine.define(view, links, sealed=relation.sealed)
    for template in [t for t in mine.computed.values() if mine.is_computed_for(t, relation)]:
        again = replace(template, name=f"{name}.{template.field}", owner=view.id)
        mine.computed[again.name.casefold()] = again


def _target(mine: Definitions, id_: str) -> str | None:
    """Return the relation of which a view is a second name, or None."""
    view = mine.views.get(id_)
    inner = view.plan.input if view is not None and isinstance(view.plan, Project) else None
    return inner.relation if isinstance(inner, Scan) else None


def _copy(mine: Definitions, other: Definitions, relation: NamedRelation, name: str, renamed: dict[str, str]) -> None:
    """Define a relation of another script here, without its relationships."""
    new_id = renamed[relation.id]
    made: Input | View | Subscription
    private = {c.name for c in relation.schema.visible if c.name.startswith("_")}
    if relation.id in other.inputs:
        found = other.inputs[relation.id]
        made = replace(found, id=new_id, name=name, late_of=renamed.get(found.late_of or ""))
    elif relation.id in other.views:
        view = other.views[relation.id]
        plan = replace_scans(view.plan, lambda scan: replace(scan, relation=renamed[scan.relation]))
        query = view.query and view.query.renamed(renamed)
        made = replace(view, id=new_id, name=name, plan=plan, parent=renamed.get(view.parent or ""), query=query)
    else:
        subscription = other.subscriptions[relation.id]
        made = replace(subscription, id=new_id, name=name, view=renamed[subscription.view])
    sealed = relation.sealed | private - EVENT_COLUMNS
    mine.define(made, sealed=sealed, grows=renamed.get(relation.grows or ""), overrides=relation.overrides)


def _relate(mine: Definitions, other: Definitions, relation: NamedRelation, renamed: dict[str, str]) -> None:
    """Add the relationships that a relation has in the other script and not here."""
    known = mine.relations[renamed[relation.id]]
    for folded, r in relation.relationships.items():
        target = other.target_of(r).id
        if folded not in known.relationships and target in renamed:
            mine.relate(replace(r, owner=known.id, target=renamed[target]))


def _root(other: Definitions, relation: NamedRelation) -> str:
    """Return the name of the outermost table that contains a nested relation, or the relation's own name."""
    while relation.parent is not None and (above := other.find(relation.parent)) is not None:
        relation = above
    return relation.name


def _needed(other: Definitions, requested: list[str]) -> list[str]:
    """Return the ids that relations depend on or lead to, in the order of definition."""
    seen: set[str] = set()
    todo = list(requested)
    while todo:
        id_ = todo.pop()
        if id_ in seen:
            continue
        seen.add(id_)
        todo += _below(other, id_)
    return [id_ for id_ in other.relations if id_ in seen]


def _below(other: Definitions, id_: str) -> list[str]:
    """Return the ids that one relation reads, or to which its relationships lead."""
    found = [other.target_of(r).id for r in other.relations[id_].relationships.values()]
    if id_ in other.views:
        found += [n.relation for n in other.views[id_].plan.walk() if isinstance(n, Scan)]
    for template in other.computed.values():
        if template.owner == id_:
            found += [n.relation for n in template.plan.walk() if isinstance(n, Scan)]
    late_of = other.inputs[id_].late_of if id_ in other.inputs else None
    if late_of is not None:
        found.append(late_of)
    if id_ in other.subscriptions:
        found.append(other.subscriptions[id_].view)
    return found
