"""The fields of GraphQL's `Subscription`: one for each of `Query`.

In: a model and the fields of `Query`. Out: fields of the same names and arguments. That of a subscription of the script has one event as
its value; any other is a live query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLArgument, GraphQLField, GraphQLNonNull, GraphQLScalarType, get_named_type

from belvedere.api.reads.entities import Entity, Model, Template

SEQUENCE, AFTER = "_seq", "after"
ARGUMENT = "Return events after this `_seq`; without it only new events."


def event_fields(model: Model) -> dict[str, Entity | Template]:
    """Return the relations with events by their field."""
    found: dict[str, Entity | Template] = {e.field: e for e in model.entities.values() if e.field and e.events}
    return found | {n: t for n, t in model.templates.items() if t.template.events}


def subscription_fields(
    model: Model, queries: Mapping[str, GraphQLField], long: GraphQLScalarType
) -> dict[str, GraphQLField]:
    """The fields, `queries` being those of `Query`: events without the limits and the order of a list, and everything else as a live
    query, whose value is the whole answer.
    """
    events = event_fields(model)
    fields: dict[str, GraphQLField] = {}
    for name, query in queries.items():
        if name not in events:
            fields[name] = query
            continue
        arguments = {n: a for n, a in query.args.items() if n not in ("order", "limit", "offset", AFTER)}
        arguments[AFTER] = GraphQLArgument(long, description=ARGUMENT)
        row: Any = get_named_type(query.type)
        fields[name] = GraphQLField(GraphQLNonNull(row), args=arguments, description=query.description)
    return fields
