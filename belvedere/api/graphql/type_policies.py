"""What identifies the objects of each type, for clients that keep them in a cache (Apollo's `typePolicies`, urql's `keys`).

In: a model and its schema. Out: by type the fields of its key, or False for what has no identity: groups and values of aggregates, pages,
objects in columns, rows without a key. Clients that are not told take a field `id` for the identity of whatever has one.
"""

from __future__ import annotations

from typing import Any

from graphql import GraphQLObjectType, GraphQLSchema

from belvedere.api.reads.entities import Entity, Model


def type_policies(model: Model, schema: GraphQLSchema) -> dict[str, dict[str, Any]]:
    """The policies of all types of objects but the three roots."""
    roots = {schema.query_type, schema.mutation_type, schema.subscription_type}
    entities = {e.type_name: e for e in model.entities.values()}
    found: dict[str, dict[str, Any]] = {}
    for name, type_ in sorted(schema.type_map.items()):
        if isinstance(type_, GraphQLObjectType) and type_ not in roots and not name.startswith("__"):
            found[name] = {"keyFields": _key_of(entities.get(name)) or False}
    return found


def _key_of(entity: Entity | None) -> list[str]:
    """The fields that tell rows of an entity apart; none where its key is hidden, or has nothing that is shown."""
    if entity is None or not entity.schema.key:
        return []
    shown = {column.name: name for name, column in entity.columns.items()}
    key = [shown.get(column) for column in entity.schema.key]
    return [] if None in key else [n for n in key if n is not None]
