"""The GraphQL schema of a model, for validation, introspection and the console.

In: a `Model`. Out: a `GraphQLSchema` of graphql-core without resolvers: only introspection runs graphql-core's
executor. Type and field names are those of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from graphql import (
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLString,
    Undefined,
)

from belvedere.api.graphql.aggregate_types import aggregate_order, aggregate_type
from belvedere.api.graphql.event_fields import subscription_fields
from belvedere.api.graphql.push_fields import mutation_type
from belvedere.api.graphql.scalars import (
    AS_OF,
    CURSOR,
    DATE_TIME,
    JSON,
    LONG,
    SORT_ORDER,
    STRUCT,
    output_field,
    scalar_of,
)
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import Entity, Model, RelationshipField, Template
from belvedere.api.reads.filters import NONE, SOME, Compared, operators_for
from belvedere.api.reads.page_planning import link_sorts
from belvedere.api.reads.structs import StructType, each_struct
from belvedere.catalog.templates import Parameter
from belvedere.store.read.query import is_ordered


@dataclass
class _Builder:
    model: Model
    limits: Limits
    filters: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    objects: dict[str, GraphQLObjectType] = field(default_factory=dict)
    structs: dict[str, GraphQLObjectType] = field(default_factory=dict)
    struct_filters: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    member_filters: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    where: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    related: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    orders: dict[str, GraphQLInputObjectType | None] = field(default_factory=dict)
    pages: dict[str, GraphQLObjectType] = field(default_factory=dict)
    aggregates: dict[str, GraphQLObjectType] = field(default_factory=dict)
    aggregate_orders: dict[str, GraphQLInputObjectType] = field(default_factory=dict)


def schema_of(model: Model, limits: Limits, lenient: bool = False) -> GraphQLSchema:
    """Return the whole schema. For a script without public views it has one field `nothing`.

    With `lenient` the schema does not check the rows of mutations: the intake validates them one by one.
    """
    build = _Builder(model, limits)
    for entity in model.entities.values():
        for struct in each_struct(entity.structs):
            build.structs[struct.type_name] = _struct(build, struct)
            build.struct_filters[struct.filter_type] = _struct_filter(build, struct)
        build.where[entity.id] = _where(build, entity)
        build.orders[entity.id] = _order(entity)
    for entity in model.entities.values():
        build.objects[entity.id] = _object(build, entity)
        build.pages[entity.id] = _page(build, entity)
        build.aggregates[entity.id] = aggregate_type(entity)
        build.aggregate_orders[entity.id] = aggregate_order(entity, build.orders[entity.id])
    roots: dict[str, GraphQLField] = {}
    for entity in model.entities.values():
        roots |= _roots(build, entity)
    roots |= {name: _template(build, template) for name, template in model.templates.items()}
    events = subscription_fields(model, roots, LONG)
    if not roots:
        roots["nothing"] = GraphQLField(GraphQLBoolean, description="This script defines no public view.")
    mutation = mutation_type(model.pushes.values(), lambda c: scalar_of(c.type), LONG, DATE_TIME, lenient)
    subscription = GraphQLObjectType("Subscription", events) if events else None
    return GraphQLSchema(query=GraphQLObjectType("Query", roots), mutation=mutation, subscription=subscription)


def _object(build: _Builder, entity: Entity) -> GraphQLObjectType:
    def fields() -> dict[str, GraphQLField]:
        result = {name: _column(build, entity, name) for name in entity.columns}
        result |= {name: _relation(build, r) for name, r in entity.relations.items()}
        result |= {name: _related_page(build, r) for name, r in entity.pages.items()}
        result |= {name: _related_aggregate(build, r) for name, r in entity.aggregates.items()}
        return result or {"_empty": GraphQLField(GraphQLBoolean)}

    return GraphQLObjectType(entity.type_name, fields, description=entity.doc)


def _column(build: _Builder, entity: Entity, name: str) -> GraphQLField:
    """Return the field of a column in an answer; for a column with objects, with their members."""
    column, struct = entity.columns[name], entity.structs.get(name)
    if struct is None:
        return output_field(column)
    made = build.structs[struct.type_name]
    return GraphQLField(made if column.nullable else GraphQLNonNull(made), description=column.doc)


def _struct(build: _Builder, struct: StructType) -> GraphQLObjectType:
    def fields() -> dict[str, GraphQLField]:
        return {
            name: GraphQLField(scalar_of(m.type) if m.struct is None else build.structs[m.struct.type_name])
            for name, m in struct.members.items()
        }

    return GraphQLObjectType(struct.type_name, fields, description=STRUCT)


def _struct_filter(build: _Builder, struct: StructType) -> GraphQLInputObjectType:
    def fields() -> dict[str, GraphQLInputField]:
        found = {
            name: GraphQLInputField(
                _member_filter(build, m.type) if m.struct is None else build.struct_filters[m.struct.filter_type]
            )
            for name, m in struct.members.items()
        }
        return {"isNull": GraphQLInputField(GraphQLBoolean)} | found

    return GraphQLInputObjectType(
        struct.filter_type, fields, description="If several members are given, all must hold."
    )


def _member_filter(build: _Builder, type_: pa.DataType) -> GraphQLInputObjectType:
    """Return the filter of an object's member: equality."""
    scalar = scalar_of(type_)
    found = build.member_filters.get(scalar.name)
    if found is None:
        fields = {"isNull": GraphQLInputField(GraphQLBoolean)}
        if scalar is not JSON:
            equal = {n: GraphQLInputField(scalar) for n in ("eq", "neq")}
            among = {n: GraphQLInputField(GraphQLList(GraphQLNonNull(scalar))) for n in ("in", "notIn")}
            fields = equal | among | fields
        found = build.member_filters[scalar.name] = GraphQLInputObjectType(f"{scalar.name}MemberFilter", fields)
    return found


def _relation(build: _Builder, relation: RelationshipField) -> GraphQLField:
    target = build.objects[relation.target]
    own, described = _given(relation.parameters), _with_claims(relation.doc, relation.parameters)
    if relation.to_one:
        return GraphQLField(target, args=own, description=described)
    return GraphQLField(_list(target), args=own | _arguments(build, relation.target), description=described)


def _list(type_: GraphQLObjectType) -> GraphQLNonNull[Any]:
    return GraphQLNonNull(GraphQLList(GraphQLNonNull(type_)))


def _roots(build: _Builder, entity: Entity) -> dict[str, GraphQLField]:
    object_ = build.objects[entity.id]
    if not entity.field:
        return {}
    listed = _equal(entity) | _arguments(build, entity.id) | _as_of(entity)
    result = {entity.field: GraphQLField(_list(object_), args=listed, description=entity.doc)}
    if entity.by_key is not None:
        keys = {n: GraphQLArgument(GraphQLNonNull(scalar_of(c.type))) for n, c in entity.key.items()}
        keys |= {n: a for n, a in _as_of(entity).items() if n not in keys}
        result[entity.by_key] = GraphQLField(object_, args=keys, description=f"The row of {entity.name} with this key.")
    hinted = _equal(entity) | _as_of(entity)
    if entity.page is not None:
        result[entity.page] = GraphQLField(
            GraphQLNonNull(build.pages[entity.id]),
            args=hinted | _page_arguments(build, entity.id),
            description=f"{entity.name}, page by page in a stable order.",
        )
    if entity.aggregate is not None:
        result[entity.aggregate] = GraphQLField(
            _list(build.aggregates[entity.id]),
            args=hinted | _aggregate_arguments(build, entity.id),
            description=f"Aggregates over {entity.name}: over all rows, or over groups.",
        )
    return result


def _related_page(build: _Builder, relation: RelationshipField) -> GraphQLField:
    arguments = _given(relation.parameters) | _page_arguments(build, relation.target)
    keyed = (
        ""
        if link_sorts(relation.link, build.model.entities[relation.target]) is not None
        else " Without `order`: by their key."
    )
    described = f"`{relation.name}`, page by page in a stable order.{keyed}"
    return GraphQLField(GraphQLNonNull(build.pages[relation.target]), args=arguments, description=described)


def _related_aggregate(build: _Builder, relation: RelationshipField) -> GraphQLField:
    arguments = _given(relation.parameters) | _aggregate_arguments(build, relation.target)
    described = f"Aggregates over `{relation.name}`: over all rows, or over groups."
    return GraphQLField(_list(build.aggregates[relation.target]), args=arguments, description=described)


def _page(build: _Builder, entity: Entity) -> GraphQLObjectType:
    def flag(description: str) -> GraphQLField:
        return GraphQLField(GraphQLNonNull(GraphQLBoolean), description=description)

    fields = {
        "nodes": GraphQLField(
            _list(build.objects[entity.id]), description="The rows of the page, in the order of the list."
        ),
        "startCursor": GraphQLField(
            CURSOR, description="The cursor of the first row: pass it as `before` for the previous page."
        ),
        "endCursor": GraphQLField(
            CURSOR, description="The cursor of the last row: pass it as `after` for the next page."
        ),
        "hasNextPage": flag("Whether there are rows after the page."),
        "hasPreviousPage": flag("Whether there are rows before the page."),
        "totalCount": GraphQLField(
            GraphQLNonNull(LONG), description="The number of rows of all pages; counted only if selected."
        ),
    }
    return GraphQLObjectType(entity.page_type, fields, description=f"A page of {entity.name}.")


def _page_arguments(build: _Builder, target: str) -> dict[str, GraphQLArgument]:
    arguments = {n: a for n, a in _arguments(build, target).items() if n in ("filter", "order")}
    most = f"At most {build.limits.most_rows}."
    return arguments | {
        "first": GraphQLArgument(
            GraphQLInt, description=f"The number of rows from the start, {build.limits.rows} by default. {most}"
        ),
        "after": GraphQLArgument(CURSOR, description="Return the rows after this cursor."),
        "last": GraphQLArgument(GraphQLInt, description=f"The number of rows from the end, instead of `first`. {most}"),
        "before": GraphQLArgument(
            CURSOR, description="Return the rows before this cursor: without `first` or `after`, the last ones."
        ),
    }


def _aggregate_arguments(build: _Builder, target: str) -> dict[str, GraphQLArgument]:
    arguments = {n: a for n, a in _arguments(build, target).items() if n != "order"}
    order = GraphQLArgument(
        GraphQLList(GraphQLNonNull(build.aggregate_orders[target])),
        description="The order of the groups; by default, and among equals, the order of their columns.",
    )
    return arguments | {"order": order}


def _as_of(entity: Entity) -> dict[str, GraphQLArgument]:
    """Return the argument `asOf` of root fields with retained former states; related rows are read from the same
    state."""
    return {"asOf": GraphQLArgument(AS_OF)} if entity.history else {}


def _equal(entity: Entity) -> dict[str, GraphQLArgument]:
    """Return the arguments that the script's hints define."""
    return {
        name: GraphQLArgument(
            GraphQLNonNull(scalar_of(column.type)) if required else scalar_of(column.type),
            description=column.doc
            or f"Rows whose {column.name} equals this" + ("." if required else "; null: all rows."),
        )
        for name, (column, required) in entity.arguments.items()
    }


def _arguments(build: _Builder, target: str) -> dict[str, GraphQLArgument]:
    arguments = {"filter": GraphQLArgument(build.where[target])}
    order = build.orders[target]
    if order is not None:
        arguments["order"] = GraphQLArgument(GraphQLList(GraphQLNonNull(order)))
    arguments["limit"] = _limit(build)
    arguments["offset"] = GraphQLArgument(GraphQLInt)
    return arguments


def _limit(build: _Builder) -> GraphQLArgument:
    return GraphQLArgument(GraphQLInt, build.limits.rows, description=f"At most {build.limits.most_rows}.")


def _where(build: _Builder, entity: Entity) -> GraphQLInputObjectType:
    def fields() -> dict[str, GraphQLInputField]:
        own = build.where[entity.id]
        result = {name: GraphQLInputField(_column_filter(build, entity, name)) for name in entity.columns}
        result |= {name: GraphQLInputField(_related(build, relation)) for name, relation in entity.relations.items()}
        parts = GraphQLInputField(GraphQLList(GraphQLNonNull(own)))
        for name, input_field in (("and", parts), ("or", parts), ("not", GraphQLInputField(own))):
            result.setdefault(name, input_field)
        return result

    return GraphQLInputObjectType(
        entity.filter_type, fields, description="If several columns or relationships are given, all must hold."
    )


def _column_filter(build: _Builder, entity: Entity, name: str) -> GraphQLInputObjectType:
    struct = entity.structs.get(name)
    return _filter(build, entity.columns[name].type) if struct is None else build.struct_filters[struct.filter_type]


def _related(build: _Builder, relation: RelationshipField) -> GraphQLInputObjectType:
    """Return the filter of related rows. Relationships without parameters share the type of their target."""
    name = relation.filter_type or build.model.entities[relation.target].types["Related"]
    found = build.related.get(name)
    if found is None:
        where = build.where[relation.target]
        fields = {
            SOME: GraphQLInputField(
                where, description="At least one related row matches; `{}`: there is a related row."
            ),
            NONE: GraphQLInputField(where, description="No related row matches; `{}`: there is no related row."),
        }
        own = {
            n: GraphQLInputField(a.type, a.default_value, a.description) for n, a in _given(relation.parameters).items()
        }
        described = "Conditions on related rows. If both are given, both must hold."
        found = build.related[name] = GraphQLInputObjectType(name, own | fields, description=described)
    return found


def _filter(build: _Builder, type_: pa.DataType) -> GraphQLInputObjectType:
    scalar = scalar_of(type_)
    found = build.filters.get(scalar.name)
    if found is None:
        found = build.filters[scalar.name] = GraphQLInputObjectType(f"{scalar.name}Filter", _operators(scalar))
    return found


def _operators(scalar: GraphQLScalarType) -> dict[str, GraphQLInputField]:
    result: dict[str, GraphQLInputField] = {}
    if scalar is not JSON:
        kinds = (Compared.ANY,) if scalar is GraphQLBoolean else (Compared.ANY, Compared.ORDERED)
        result |= {n: GraphQLInputField(scalar) for n in operators_for(*kinds)}
        result |= {n: GraphQLInputField(GraphQLList(GraphQLNonNull(scalar))) for n in ("in", "notIn")}
    if scalar is GraphQLString:
        result |= {n: GraphQLInputField(scalar) for n in operators_for(Compared.TEXT)}
    return result | {"isNull": GraphQLInputField(GraphQLBoolean)}


def _order(entity: Entity) -> GraphQLInputObjectType | None:
    fields = {n: GraphQLInputField(SORT_ORDER) for n, c in entity.columns.items() if is_ordered(c.type)}
    return GraphQLInputObjectType(entity.order_type, fields) if fields else None


def _template(build: _Builder, template: Template) -> GraphQLField:
    described = _with_claims(template.template.doc or template.template.sql, template.parameters)
    if template.rows is not None:
        own = _given(template.parameters) | _arguments(build, template.rows.target)
        return GraphQLField(_list(build.objects[template.rows.target]), args=own, description=described)
    row = GraphQLObjectType(template.type_name, {n: output_field(c) for n, c in template.columns.items()})
    limits = {
        "limit": _limit(build),
        "offset": GraphQLArgument(GraphQLInt),
    }
    return GraphQLField(_list(row), args={**_given(template.parameters), **limits}, description=described)


def _given(parameters: Mapping[str, Parameter]) -> dict[str, GraphQLArgument]:
    """Return the arguments for parameters that callers set."""
    return {
        name: GraphQLArgument(
            scalar_of(p.type) if p.nullable else GraphQLNonNull(scalar_of(p.type)),
            default_value=Undefined if p.default is None else p.default,
        )
        for name, p in parameters.items()
        if p.metadata is None  # otherwise its value comes from the caller's token
    }


def _with_claims(described: str | None, parameters: Mapping[str, Parameter]) -> str | None:
    claims = [f"Takes {p.metadata.meaning}." for p in parameters.values() if p.metadata is not None]
    return "\n".join([*([described] if described else []), *claims]) or None
