"""The fields of GraphQL's `Subscription`: one for each subscription of the script that has an endpoint.

In: a model and the fields of `Query`. Out: fields of the same names and arguments, whose value is one event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLArgument, GraphQLField, GraphQLNonNull, GraphQLScalarType, get_named_type

from belvedere.api.entities import Entity, Model, Template

SEQUENCE, AFTER = "_seq", "after"
ARGUMENT = "Events after this `_seq`; without it those that come from now on."


def event_fields(model: Model) -> dict[str, Entity | Template]:
    """What has events, by its field."""
    found: dict[str, Entity | Template] = {e.field: e for e in model.entities.values() if e.field and e.events}
    return found | {n: t for n, t in model.templates.items() if t.template.events}


def subscription_fields(model: Model, queries: Mapping[str, GraphQLField], long: GraphQLScalarType) -> dict[str, GraphQLField]:
    """The fields, without the limits and the order of a list; `queries` are those of `Query`."""
    fields: dict[str, GraphQLField] = {}
    for name in event_fields(model):
        query = queries[name]
        arguments = {n: a for n, a in query.args.items() if n not in ("order", "limit", "offset", AFTER)}
        arguments[AFTER] = GraphQLArgument(long, description=ARGUMENT)
        row: Any = get_named_type(query.type)
        fields[name] = GraphQLField(GraphQLNonNull(row), args=arguments, description=query.description)
    return fields
