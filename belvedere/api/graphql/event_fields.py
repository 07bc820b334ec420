"""The fields of GraphQL's `Subscription`: one for each field of `Query`.

In: a model and the fields of `Query`. Out: fields with the same names and arguments. The field of a script's
subscription returns one event; any other field is a live query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLArgument, GraphQLField, GraphQLNonNull, GraphQLScalarType, get_named_type

from belvedere.api.reads.entities import Entity, Model, Template

SEQUENCE, AFTER = "_seq", "after"
ARGUMENT = "Return events after this `_seq`; without it only new events."


def event_fields(model: Model) -> dict[str, Entity | Template]:
    """Return the relations with events by field name."""
    found: dict[str, Entity | Template] = {e.field: e for e in model.entities.values() if e.field and e.events}
    return found | {n: t for n, t in model.templates.items() if t.template.events}


def subscription_fields(
    model: Model, queries: Mapping[str, GraphQLField], long: GraphQLScalarType
) -> dict[str, GraphQLField]:
    """Return the fields of `Subscription`; `queries` are the fields of `Query`.

    Event fields have no arguments for limits and order. Each other field is a live query that returns the whole answer.
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
