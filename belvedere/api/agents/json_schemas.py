"""JSON Schemas of GraphQL's types (draft 2020-12), for clients without GraphQL.

In: arguments and types of a GraphQL schema. Out: JSON Schemas as dicts. It reads no catalog and checks no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    Undefined,
    get_named_type,
    is_leaf_type,
    is_non_null_type,
    is_required_argument,
)

from belvedere.api.graphql.scalars import STRUCT

Schema = dict[str, Any]
SCALARS: Mapping[str, Schema] = {
    "Int": {"type": "integer"},
    "Long": {"type": "integer"},
    "Float": {"type": "number"},
    "Boolean": {"type": "boolean"},
    "DateTime": {"type": "string", "format": "date-time"},
    "Date": {"type": "string", "format": "date"},
    "Duration": {"type": "string", "format": "duration"},
    "YearMonthDuration": {"type": "string", "format": "duration"},
    "JSON": {},
}
"""JSON Schemas of scalars; the values of all others are strings."""


def arguments_schema(arguments: Mapping[str, GraphQLArgument]) -> Schema:
    """Return the schema of an object with these arguments. Input types are in its `$defs`."""
    definitions: dict[str, Schema] = {}
    properties: dict[str, Schema] = {}
    for name, argument in arguments.items():
        properties[name] = _described(_value(argument.type, definitions), argument.description)
        if argument.default_value is not Undefined:
            properties[name]["default"] = argument.default_value
    required = [n for n, a in arguments.items() if is_required_argument(a)]
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {}) | ({"$defs": definitions} if definitions else {})


def row_schema(type_: GraphQLObjectType) -> Schema:
    """Return the schema of a row with the columns of a type, without related rows."""
    columns = columns_of(type_)
    return {"type": "object", "properties": {n: _column(type_, n) for n in columns}, "required": columns}


def columns_of(type_: GraphQLObjectType) -> list[str]:
    """Return the columns of a row type, including those with objects."""
    return [
        n for n, f in type_.fields.items() if not f.args and (is_leaf_type(t := get_named_type(f.type)) or is_struct(t))
    ]


def is_struct(type_: Any) -> bool:
    """Return whether a type is that of objects in a column."""
    return isinstance(type_, GraphQLObjectType) and type_.description == STRUCT


def _column(type_: GraphQLObjectType, name: str) -> Schema:
    field = type_.fields[name]
    named = get_named_type(field.type)
    found: Schema = {"type": "object"} if is_struct(named) else dict(SCALARS.get(named.name, {"type": "string"}))
    if named.name == "Long":  # the form depends on the request
        found["type"] = ["integer", "string"]
    if "type" in found and not is_non_null_type(field.type):
        kinds = found["type"]
        found["type"] = [*kinds, "null"] if isinstance(kinds, list) else [kinds, "null"]
    return _described(found, field.description)


def _value(type_: Any, definitions: dict[str, Schema]) -> Schema:
    if isinstance(type_, GraphQLNonNull):
        return _value(type_.of_type, definitions)
    if isinstance(type_, GraphQLList):
        return {"type": "array", "items": _value(type_.of_type, definitions)}
    if isinstance(type_, GraphQLEnumType):
        return _described({"type": "string", "enum": list(type_.values)}, type_.description)
    if not isinstance(type_, GraphQLInputObjectType):
        return _described(dict(SCALARS.get(type_.name, {"type": "string"})), _meaning(type_))
    if type_.name not in definitions:
        made = definitions[type_.name] = {
            "type": "object",
            "additionalProperties": False,
        }  # before its fields, which may refer to it
        if type_.description:
            made["description"] = type_.description
        made["properties"] = {
            n: _described(_value(f.type, definitions), f.description) for n, f in type_.fields.items()
        }
    return {"$ref": f"#/$defs/{type_.name}"}


def _meaning(type_: Any) -> str | None:
    """Return the description of a scalar of this API, or None for GraphQL's own."""
    return None if type_.name in ("Int", "Float", "String", "Boolean", "ID") else type_.description


def _described(schema: Schema, description: str | None) -> Schema:
    return schema | ({"description": description} if description else {})
