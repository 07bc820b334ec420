"""The GraphQL schema of a model: what clients may ask, for validation, introspection and the console.

In: a `Model`. Out: a `GraphQLSchema` of graphql-core without resolvers: answers never pass through graphql-core's executor
(introspection does). Type and field names are those of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from graphql import (
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLEnumValue,
    GraphQLField,
    GraphQLFloat,
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
    ValueNode,
)
from graphql.utilities import value_from_ast_untyped

from belvedere.api.conditions import Compared, operators_for
from belvedere.api.entities import Entity, Model, RelationshipField, Template
from belvedere.api.event_fields import subscription_fields
from belvedere.api.limits import Limits
from belvedere.api.push_fields import mutation_type
from belvedere.catalog import Parameter
from belvedere.schema import Column
from belvedere.store.read.query import is_ordered
from belvedere.store.read.values import LONG_MOST, decimal, interval, microseconds

types = pa.types


def _long(value: Any) -> int:
    if isinstance(value, str) and value.removeprefix("-").isascii() and value.removeprefix("-").isdigit():
        value = int(value) if len(value) < 25 else LONG_MOST + 1
    if isinstance(value, bool) or not isinstance(value, int) or not -LONG_MOST - 1 <= value <= LONG_MOST:
        raise ValueError(f"Long cannot represent {value!r}: it is not a whole number of 64 bits")
    return value


def _checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        check(value)
        return value

    return parse


def _text(name: str) -> Callable[[Any], Any]:
    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{name} cannot represent {value!r}: it is not a string")
        return value

    return parse


def _scalar(name: str, description: str, parse: Callable[[Any], Any], rfc: str | None = None) -> GraphQLScalarType:
    """A scalar; `rfc` is the standard of its form, and the section: `rfc3339#section-5.6`."""

    def literal(node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
        return parse(value_from_ast_untyped(node, variables))

    url = None if rfc is None else f"https://www.rfc-editor.org/rfc/{rfc}"
    return GraphQLScalarType(name, description=description, parse_value=parse, parse_literal=literal, specified_by_url=url)


LONG = _scalar("Long", "A whole number of 64 bits.", _long)
DECIMAL = _scalar("Decimal", 'An exact decimal number, as a string: "12.30".', _checked(decimal))
DATE_TIME = _scalar(
    "DateTime", "An instant, RFC 3339 with an offset: 2020-01-01T08:07:00Z.", _checked(microseconds), "rfc3339#section-5.6"
)
DATE = _scalar("Date", "A day: 2020-01-31.", _text("Date"), "rfc3339#section-5.6")
DURATION = _scalar("Duration", "A length of time, as ISO 8601 writes it: P1DT2H30M0S. A day has 24 hours.", _checked(interval))
JSON = _scalar("JSON", "A nested value.", lambda value: value, "rfc8259")
CURSOR = _scalar("Cursor", "A place in a list, as `endCursor` gave it.", _text("Cursor"))
BYTES = _scalar("Bytes", "Bytes in hexadecimal.", _text("Bytes"))

AS_OF = GraphQLInputObjectType(
    "AsOf",
    {"epoch": GraphQLInputField(LONG), "time": GraphQLInputField(DATE_TIME)},
    description="A former state: after an epoch, or after the last epoch whose clock is not after a time. Give one of them.",
)

SORT_ORDERS = {
    "ASC": (False, True),
    "DESC": (True, False),
    "ASC_NULLS_FIRST": (False, True),
    "ASC_NULLS_LAST": (False, False),
    "DESC_NULLS_FIRST": (True, True),
    "DESC_NULLS_LAST": (True, False),
}
"""(descending, NULLs first); ASC and DESC place NULLs as Spark does."""

SORT_ORDER = GraphQLEnumType(
    "SortOrder",
    {n: GraphQLEnumValue(n) for n in SORT_ORDERS},
    description="A direction. ASC puts NULLs first, DESC last, unless the name says otherwise.",
)


def scalar_of(type_: pa.DataType) -> GraphQLScalarType:
    """The GraphQL scalar for values of an Arrow type."""
    if types.is_boolean(type_):
        return GraphQLBoolean
    if types.is_integer(type_):
        return LONG if type_.bit_width == 64 or type_ == pa.uint32() else GraphQLInt
    if types.is_floating(type_):
        return GraphQLFloat
    if types.is_decimal(type_):
        return DECIMAL
    if types.is_timestamp(type_):
        return DATE_TIME
    if types.is_date(type_):
        return DATE
    if types.is_binary(type_) or types.is_large_binary(type_):
        return BYTES
    if types.is_duration(type_):
        return DURATION
    if types.is_time(type_):
        return LONG
    return JSON if types.is_nested(type_) or types.is_interval(type_) else GraphQLString


@dataclass
class _Builder:
    model: Model
    limits: Limits
    filters: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    objects: dict[str, GraphQLObjectType] = field(default_factory=dict)
    where: dict[str, GraphQLInputObjectType] = field(default_factory=dict)
    orders: dict[str, GraphQLInputObjectType | None] = field(default_factory=dict)


def schema_of(model: Model, limits: Limits, lenient: bool = False) -> GraphQLSchema:
    """The whole schema. For a script without public views it has the one field `nothing`. With `lenient` rows of mutations are not
    checked: the intake refuses one by one.
    """
    build = _Builder(model, limits)
    for entity in model.entities.values():
        build.where[entity.id] = _where(build, entity)
        build.orders[entity.id] = _order(entity)
    for entity in model.entities.values():
        build.objects[entity.id] = _object(build, entity)
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


def _output(column: Column) -> GraphQLField:
    scalar = scalar_of(column.type)
    not_a_number = types.is_floating(column.type)  # NaN is shown as null
    return GraphQLField(
        scalar if column.nullable or not_a_number else GraphQLNonNull(scalar),
        description=column.doc,
    )


def _object(build: _Builder, entity: Entity) -> GraphQLObjectType:
    def fields() -> dict[str, GraphQLField]:
        result = {name: _output(column) for name, column in entity.columns.items()}
        return result | {name: _relation(build, r) for name, r in entity.relations.items()} or {
            "_empty": GraphQLField(GraphQLBoolean)
        }

    return GraphQLObjectType(entity.type_name, fields, description=entity.doc)


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
        result[entity.by_key] = GraphQLField(object_, args=keys, description=f"The row of {entity.name} with that key.")
    if entity.page is not None:
        page = GraphQLObjectType(
            entity.page_type,
            {
                "nodes": GraphQLField(_list(object_)),
                "endCursor": GraphQLField(CURSOR, description="The place of the last row: `after` for the next page."),
                "hasNextPage": GraphQLField(GraphQLNonNull(GraphQLBoolean)),
            },
        )
        arguments = _arguments(build, entity.id)
        bounded = _equal(entity) | {k: v for k, v in arguments.items() if k in ("filter", "order")}
        bounded["first"] = _limit(build)
        bounded["after"] = GraphQLArgument(CURSOR)
        bounded |= _as_of(entity)
        result[entity.page] = GraphQLField(
            GraphQLNonNull(page), args=bounded, description=f"{entity.name}, page by page in a stable order."
        )
    return result


def _as_of(entity: Entity) -> dict[str, GraphQLArgument]:
    """The argument of root fields whose former states are retained; related rows are read of the same state."""
    return {"asOf": GraphQLArgument(AS_OF)} if entity.history else {}


def _equal(entity: Entity) -> dict[str, GraphQLArgument]:
    """The arguments that hints of the script give."""
    return {
        name: GraphQLArgument(
            GraphQLNonNull(scalar_of(column.type)) if required else scalar_of(column.type),
            description=column.doc or f"Rows whose {column.name} equals this" + ("." if required else "; null: all rows."),
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
        result = {name: GraphQLInputField(_filter(build, column.type)) for name, column in entity.columns.items()}
        parts = GraphQLInputField(GraphQLList(GraphQLNonNull(own)))
        for name, input_field in (("and", parts), ("or", parts), ("not", GraphQLInputField(own))):
            result.setdefault(name, input_field)
        return result

    return GraphQLInputObjectType(entity.filter_type, fields, description="Several columns: all of them.")


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
    row = GraphQLObjectType(template.type_name, {n: _output(c) for n, c in template.columns.items()})
    limits = {
        "limit": _limit(build),
        "offset": GraphQLArgument(GraphQLInt),
    }
    described = _with_claims(template.template.doc or template.template.sql, template.parameters)
    return GraphQLField(_list(row), args={**_given(template.parameters), **limits}, description=described)


def _given(parameters: Mapping[str, Parameter]) -> dict[str, GraphQLArgument]:
    """The arguments that callers give for parameters."""
    return {
        name: GraphQLArgument(
            scalar_of(p.type) if p.nullable else GraphQLNonNull(scalar_of(p.type)),
            default_value=Undefined if p.default is None else p.default,
        )
        for name, p in parameters.items()
        if p.metadata is None  # the caller's token says it
    }


def _with_claims(described: str | None, parameters: Mapping[str, Parameter]) -> str | None:
    claims = [f"Takes {p.metadata.meaning}." for p in parameters.values() if p.metadata is not None]
    return "\n".join([*([described] if described else []), *claims]) or None
