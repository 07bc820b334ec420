"""Key fields of types, for clients with a normalized cache (Apollo's `typePolicies`, urql's `keys`).

In: a model and its schema. Out: for each type the fields of its key, or False if it has no identity: groups and
aggregates, pages, objects in columns, rows without a key. Without these policies clients use a field `id` as the
identity of every type that has one.
"""

from __future__ import annotations

from typing import Any

from graphql import GraphQLObjectType, GraphQLSchema

from belvedere.api.reads.entities import Entity, Model


def type_policies(model: Model, schema: GraphQLSchema) -> dict[str, dict[str, Any]]:
    """Return the policies of all object types except the three root types."""
    roots = {schema.query_type, schema.mutation_type, schema.subscription_type}
    entities = {e.type_name: e for e in model.entities.values()}
    found: dict[str, dict[str, Any]] = {}
    for name, type_ in sorted(schema.type_map.items()):
        if isinstance(type_, GraphQLObjectType) and type_ not in roots and not name.startswith("__"):
            found[name] = {"keyFields": _key_of(entities.get(name)) or False}
    return found


def _key_of(entity: Entity | None) -> list[str]:
    """Return the fields that identify rows of an entity; none if its key is hidden or has no visible column."""
    if entity is None or not entity.schema.key:
        return []
    shown = {column.name: name for name, column in entity.columns.items()}
    key = [shown.get(column) for column in entity.schema.key]
    return [] if None in key else [n for n in key if n is not None]
