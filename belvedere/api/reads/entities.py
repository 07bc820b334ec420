"""Model of the API: entities with their columns and relationships, and templates.

In: a `Catalog`. Out: an immutable `Model` with the GraphQL name of everything. Private names (a leading underscore),
hidden columns and non-public relations are not in it, so no later step can show them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from belvedere.api.graphql.push_fields import PushField, push_fields
from belvedere.api.reads.graphql_names import RESERVED_TYPES, TYPES, Namespace, first_lower, graphql_name
from belvedere.api.reads.structs import StructType, structs_of
from belvedere.catalog.access import Grant
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import Relationship, fixes_key
from belvedere.catalog.templates import Parameter, QueryTemplate
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.schema import Column, Schema
from belvedere.store.read.plans import check_template, gives_one, plan_order
from belvedere.store.read.query import BoundValue, Link, Role, Sort, link_of
from belvedere.store.read.selecting_templates import chosen_rows
from belvedere.store.read.statements import check_link

LIST_ARGUMENTS = ("filter", "order", "limit", "offset")
PAGE_ARGUMENTS = ("first", "after", "last", "before")
"""Arguments that all such fields have; parameters with these names are renamed."""


@dataclass(frozen=True)
class RelationshipField:
    """A relationship as a field: the rows of `target` (an id) that belong to a row."""

    name: str
    target: str
    link: Link
    to_one: bool
    doc: str | None = None
    parameters: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)
    """Parameters that requests pass, by argument."""
    filter_type: str = ""
    """Type of its filter if it has parameters; otherwise its target's filter type is used (`Entity.types`)."""


@dataclass(frozen=True)
class Entity:
    """A public relation: the name of its type and of its root fields, and its columns and relationships by GraphQL
    name."""

    id: str
    name: str
    type_name: str
    filter_type: str
    order_type: str
    page_type: str
    field: str
    """Its root field; empty if it is only reachable through other fields."""
    by_key: str | None
    page: str | None
    aggregate: str | None
    types: Mapping[str, str]
    """Names of its further types, by suffix (`TYPES`)."""
    schema: Schema
    columns: Mapping[str, Column]
    key: Mapping[str, Column]
    structs: Mapping[str, StructType] = dataclasses.field(default_factory=dict)
    """Columns with objects whose members can be selected."""
    relations: Mapping[str, RelationshipField] = dataclasses.field(default_factory=dict)
    pages: Mapping[str, RelationshipField] = dataclasses.field(default_factory=dict)
    """Its relationships to many rows, by the field that returns pages of them."""
    aggregates: Mapping[str, RelationshipField] = dataclasses.field(default_factory=dict)
    """Its relationships to many rows, by the field that aggregates them."""
    doc: str | None = None
    nested: bool = False
    history: bool = False
    """Whether former epochs of it can be read."""
    arguments: Mapping[str, tuple[Column, bool]] = dataclasses.field(default_factory=dict)
    """Arguments of its root fields that compare a column for equality, and whether they are required."""
    events: bool = False
    """Whether its rows are events of a subscription."""
    order: tuple[Sort, ...] = ()
    """Default order of its rows."""


@dataclass(frozen=True)
class Template:
    """A query template as a root field."""

    field: str
    type_name: str
    template: QueryTemplate
    columns: Mapping[str, Column]
    parameters: Mapping[str, Parameter]
    rows: RelationshipField | None = None
    """The relationship to the entity whose rows it returns; None: rows of its own type."""


@dataclass(frozen=True)
class Model:
    """Everything that the API shows. `omitted` lists the hidden parts of the catalog with reasons."""

    entities: Mapping[str, Entity]
    templates: Mapping[str, Template]
    omitted: tuple[Diagnostic, ...] = ()
    pushes: Mapping[str, PushField] = dataclasses.field(default_factory=dict)
    """Mutations: inputs that accept rows."""
    grant: Grant | None = None
    """Role of its callers; reads return only rows that they may see."""


def model_of(catalog: Catalog) -> Model:
    """Return the model of a catalog."""
    types, fields, words = Namespace(RESERVED_TYPES, folded=True), Namespace(), Namespace(RESERVED_TYPES)
    ids = [i for i in (*catalog.inputs, *catalog.views, *catalog.subscriptions) if _is_shown(catalog, i)]
    names = {i: types.claim(_type_name(catalog, i)) for i in ids}
    plain = {i: words.claim(_type_name(catalog, i)) for i in ids}
    roots = {i: "" if i in catalog.unlisted else fields.claim(first_lower(plain[i])) for i in ids}
    named = [t for t in catalog.templates.values() if not t.field.startswith("_")]
    templates = {t.name: fields.claim(first_lower(graphql_name(t.name))) for t in named if not t.owner}
    entities = {i: _entity(catalog, i, names[i], roots[i], fields, types) for i in ids}
    omitted: list[Diagnostic] = []
    entities |= {t.name: _computed(t, names[t.owner], types) for t in named if _is_answered(t, catalog, names, omitted)}
    entities = {i: _with_relations(catalog, e, entities, types, omitted) for i, e in entities.items()}
    shown = _templates(catalog, entities, templates, types, omitted)
    return Model(entities, shown, tuple(omitted), push_fields(catalog, types), catalog.access.grant)


def _is_answered(template: QueryTemplate, catalog: Catalog, shown: Iterable[str], omitted: list[Diagnostic]) -> bool:
    """Return whether a template is a relationship of a shown entity that the store can compute."""
    if template.owner not in shown:
        return False
    try:
        check_template(template, catalog.public, catalog.database)
    except BelvedereError as error:
        omitted += error.diagnostics
        return False
    return True


def _computed(template: QueryTemplate, owner: str, types: Namespace) -> Entity:
    """Return the rows that a relationship computes: an entity without a root field."""
    type_name = types.claim(graphql_name(f"{owner}{template.field[:1].upper()}{template.field[1:]}"))
    columns = shown_columns(template.schema.visible)
    return Entity(
        id=template.name,
        name=template.name,
        type_name=type_name,
        filter_type=types.claim(f"{type_name}Filter"),
        order_type=types.claim(f"{type_name}Order"),
        page_type=types.claim(f"{type_name}Page"),
        field="",
        by_key=None,
        page=None,
        aggregate=None,
        types={end: types.claim(f"{type_name}{end}") for end in TYPES},
        schema=template.schema,
        columns=columns,
        key={},
        structs=structs_of(columns, type_name, types),
        doc=template.doc,
        order=plan_order(template.plan),
    )


def _is_shown(catalog: Catalog, relation: str) -> bool:
    if relation not in catalog.public:
        return False
    private = any(part.startswith("_") for part in shown_name(catalog, relation).split("."))
    return not private or relation in catalog.unlisted


def shown_name(catalog: Catalog, relation: str) -> str:
    """Return a relation's name in the script's spelling."""
    found = catalog.inputs.get(relation) or catalog.views.get(relation) or catalog.subscriptions[relation]
    return found.name


def _type_name(catalog: Catalog, relation: str) -> str:
    name = graphql_name(shown_name(catalog, relation).lstrip("_"))
    behind = relation in catalog.templates and relation in catalog.subscriptions
    return f"{name}Events" if behind else name  # the template has the name itself


def _doc(catalog: Catalog, relation: str) -> str | None:
    found = catalog.inputs.get(relation) or catalog.views.get(relation) or catalog.subscriptions[relation]
    return found.doc


def _entity(catalog: Catalog, relation: str, type_name: str, root: str, fields: Namespace, types: Namespace) -> Entity:
    schema = catalog.schema_of(relation)
    columns = shown_columns(schema.visible, events=relation in catalog.subscriptions)
    shown = {c.name: n for n, c in columns.items()}
    key = {shown[k]: schema[k] for k in schema.key or () if k in shown}
    has_key = (
        bool(schema.key)
        and len(key) == len(schema.key or ())
        and not any(pa.types.is_nested(c.type) for c in key.values())
    )
    by_key = f"{root}ByKey" if root and has_key and f"{root}ByKey" not in fields else None
    page, aggregate = (
        f"{root}{end}" if root and f"{root}{end}" not in fields else None for end in ("Page", "Aggregate")
    )
    page = None if hides_key(catalog, relation) else page  # a cursor reveals the key
    for name in filter(None, (by_key, page, aggregate)):
        fields.claim(name)
    view = catalog.views.get(relation)
    return Entity(
        id=relation,
        name=shown_name(catalog, relation),
        type_name=type_name,
        filter_type=types.claim(f"{type_name}Filter"),
        order_type=types.claim(f"{type_name}Order"),
        page_type=types.claim(f"{type_name}Page"),
        field=root,
        by_key=by_key,
        page=page,
        aggregate=aggregate,
        types={end: types.claim(f"{type_name}{end}") for end in TYPES},
        schema=schema,
        columns=columns,
        structs=structs_of(columns, type_name, types),
        key=key if has_key else {},
        doc=_doc(catalog, relation),
        nested=view is not None and view.parent is not None,
        history=relation in catalog.histories,
        events=relation in catalog.subscriptions,
        arguments=_arguments(catalog, relation, shown),
        order=tuple(Sort(o.expr.name, o.descending, o.nulls_come_first) for o in view.order)
        if view is not None
        else (),
    )


def hides_key(catalog: Catalog, relation: str) -> bool:
    """Return whether a part of the key is hidden from the role. A role sees all columns of computed rows."""
    if relation in catalog.templates and relation not in catalog.public:
        return False
    hidden = (
        frozenset[str]() if catalog.access.grant is None else catalog.access.grant.hidden.get(relation, frozenset())
    )
    return not hidden.isdisjoint(catalog.schema_of(relation).key or ())


def _arguments(catalog: Catalog, relation: str, shown: Mapping[str, str]) -> dict[str, tuple[Column, bool]]:
    """Return the arguments that hints define, by the names of their columns."""
    names = Namespace((*LIST_ARGUMENTS, *PAGE_ARGUMENTS, "asOf"))
    found = [
        (a, catalog.schema_of(relation)[a.column])
        for a in catalog.hints.query_by.get(relation, ())
        if a.column in shown
    ]
    return {names.claim(shown[c.name]): (c, a.required) for a, c in found}


def shown_columns(columns: Iterable[Column], events: bool = False) -> dict[str, Column]:
    """Return columns by GraphQL name, without private ones, except those that every event has."""
    names = Namespace()
    shown = [c for c in columns if not c.hidden and (events or not c.name.startswith("_"))]
    exact = {c.name: names.claim(c.name) for c in shown if graphql_name(c.name) == c.name}
    return {exact.get(c.name) or names.claim(graphql_name(c.name)): c for c in shown}


def _with_relations(
    catalog: Catalog, entity: Entity, entities: Mapping[str, Entity], types: Namespace, omitted: list[Diagnostic]
) -> Entity:
    relations: dict[str, RelationshipField] = {}
    own: dict[str, RelationshipField] = {}
    for relationship in catalog.relationships:
        if relationship.owner != entity.id or relationship.target not in entities or relationship.name.startswith("_"):
            continue
        if relationship.kept in entities:
            own[relationship.name.casefold()] = _from_stored_link(catalog, relationship)
            continue
        try:
            relation = _from_relationship(catalog, relationship)
            check_link(relation.link, entity.schema, entities[relation.target].schema, catalog.database)
        except BelvedereError as error:
            omitted += [replace(d, span=d.span or relationship.span) for d in error.diagnostics]
            continue
        own[relationship.name.casefold()] = relation  # the last definition of a name counts
    for template in catalog.templates.values():
        if template.owner == entity.id and template.name in entities:
            own[template.field.casefold()] = _from_template(template)
    for relation in _nesting(catalog, entity, entities):
        own.setdefault(relation.name.casefold(), relation)
    # an array of objects is a nested table: its relationship stands for the column of the same name
    columns = {n: c for n, c in entity.columns.items() if not (pa.types.is_nested(c.type) and c.name.casefold() in own)}
    names = Namespace(columns)
    for relation in own.values():
        name = names.claim(graphql_name(relation.name))
        if relation.link.plan is not None:
            given = entities[relation.target].types["Related"]
        elif relation.parameters:
            given = types.claim(f"{entity.type_name}{name[:1].upper()}{name[1:]}Related")
        else:
            given = ""
        relations[name] = replace(relation, filter_type=given)
    many = {n: r for n, r in relations.items() if not r.to_one}
    pages, aggregates = ({names.claim(f"{n}{end}"): r for n, r in many.items()} for end in ("Page", "Aggregate"))
    pages = {n: r for n, r in pages.items() if not hides_key(catalog, r.target)}
    return replace(entity, columns=columns, relations=relations, pages=pages, aggregates=aggregates)


def _from_relationship(catalog: Catalog, relationship: Relationship) -> RelationshipField:
    link = link_of(relationship)
    to_one = _leads_to_one(catalog, relationship)
    parameters = _parameters(relationship.parameters, (*LIST_ARGUMENTS, *PAGE_ARGUMENTS, "some", "none"))
    return RelationshipField(relationship.name, relationship.target, link, to_one, relationship.doc, parameters)


def _from_template(template: QueryTemplate) -> RelationshipField:
    """Return a relationship that computes rows."""
    link = Link(
        (),
        arguments=_placeholders(template.parameters),
        plan=template.plan,
        row=tuple((r.parameter.name, r.column) for r in template.row),
    )
    to_one = gives_one(template.plan)
    parameters = _parameters(template.parameters, (*LIST_ARGUMENTS, *PAGE_ARGUMENTS, "some", "none"))
    return RelationshipField(template.field, template.name, link, to_one, template.doc, parameters)


def _placeholders(parameters: Iterable[Parameter]) -> tuple[tuple[str, BoundValue], ...]:
    """Return arguments that a request replaces by its own."""
    return tuple((p.name, BoundValue(n, p.type, Role.ARGUMENT)) for n, p in enumerate(parameters))


def _parameters(parameters: Iterable[Parameter], taken: Iterable[str]) -> dict[str, Parameter]:
    """Return parameters by argument name, with names that differ from the field's own arguments."""
    names = Namespace(taken)
    return {names.claim(graphql_name(p.name)): p for p in parameters}


def _from_stored_link(catalog: Catalog, relationship: Relationship) -> RelationshipField:
    """Return a relationship whose rows are stored, and found by the key of the owner's row."""
    view = catalog.views[relationship.kept or ""]
    link = Link(
        tuple((theirs, own) for own, theirs in view.parent_key), order=relationship.kept_order, limit=relationship.limit
    )
    return RelationshipField(relationship.name, view.id, link, _leads_to_one(catalog, relationship), relationship.doc)


def _leads_to_one(catalog: Catalog, relationship: Relationship) -> bool:
    return relationship.leads_to_one(catalog.schema_of(relationship.owner), catalog.schema_of(relationship.target))


def _nesting(catalog: Catalog, entity: Entity, entities: Mapping[str, Entity]) -> Iterable[RelationshipField]:
    """Yield nested tables under their field's name, and the reverse relationship `parent`."""
    view = catalog.views.get(entity.id)
    if view is not None and view.parent in entities:
        yield RelationshipField("parent", view.parent or "", Link(view.parent_key, limit=1), to_one=True)
    for other in catalog.views.values():
        if other.parent == entity.id and other.id in entities:
            pairs = tuple((theirs, own) for own, theirs in other.parent_key)
            to_one = fixes_key(pairs, entity.schema, other.schema)
            yield RelationshipField(other.name.rpartition(".")[2], other.id, Link(pairs), to_one, other.doc)


def _templates(
    catalog: Catalog,
    entities: Mapping[str, Entity],
    names: Mapping[str, str],
    types: Namespace,
    omitted: list[Diagnostic],
) -> dict[str, Template]:
    shown: dict[str, Template] = {}
    for name, root in names.items():
        template = catalog.templates[name]
        try:
            check_template(template, catalog.public, catalog.database)
        except BelvedereError as error:
            omitted += error.diagnostics
            continue
        rows = _rows_of(catalog, template, entities)
        parameters = _parameters(template.parameters, ("limit", "offset") if rows is None else LIST_ARGUMENTS)
        rows = None if rows is None else replace(rows, parameters=parameters)
        type_name = (
            types.claim(graphql_name(name[:1].upper() + name[1:])) if rows is None else entities[rows.target].type_name
        )
        own = shown_columns(template.schema.visible, events=template.events)
        columns = own if rows is None else entities[rows.target].columns
        shown[root] = Template(root, type_name, template, columns, parameters, rows)
    return shown


def _rows_of(catalog: Catalog, template: QueryTemplate, entities: Mapping[str, Entity]) -> RelationshipField | None:
    """Return the rows of one entity that a template selects, if it returns all columns of that entity."""
    found = None if template.events else chosen_rows(template.plan)
    if found is None or found.relation not in entities:
        return None
    entity = entities[found.relation]
    if {c.name for c in entity.schema.visible} != set(found.columns):
        return None
    values = _placeholders(template.parameters)
    link = Link((), found.condition, found.order, found.limit, values, found.most)
    try:
        check_link(link, Schema(()), entity.schema, catalog.database)
    except BelvedereError:
        return None
    return RelationshipField(template.name, entity.id, link, to_one=False, doc=template.doc or template.sql)
