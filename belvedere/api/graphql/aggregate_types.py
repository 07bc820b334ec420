"""GraphQL types of aggregates: the groups of an entity's rows, and their orders.

In: entities. Out: graphql-core's types. `belvedere.store.read.aggregates` defines the aggregations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from graphql import (
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLNonNull,
    GraphQLObjectType,
)

from belvedere.api.graphql.scalars import LONG, SORT_ORDER, output_field
from belvedere.api.reads.aggregate_planning import BY, TYPE_OF
from belvedere.api.reads.entities import Entity
from belvedere.schema import Column
from belvedere.store.read.aggregates import aggregated_type, has_aggregation, is_grouped
from belvedere.store.read.query import Aggregation

_MEANINGS = {
    Aggregation.VALUES: "The number of non-null values of each column.",
    Aggregation.DISTINCT: "The number of distinct non-null values of each column.",
    Aggregation.SUM: "The sum of the non-null values; null if there are none.",
    Aggregation.AVG: "The average of the non-null values; null if there are none.",
    Aggregation.MIN: "The smallest value; null if there are none.",
    Aggregation.MAX: "The largest value (NaN is the largest); null if there are none.",
}


def aggregate_type(entity: Entity) -> GraphQLObjectType:
    """Return the type of a group of an entity's rows."""
    grouped = {n: output_field(c) for n, c in entity.columns.items() if is_grouped(c.type)}
    fields = {"count": GraphQLField(GraphQLNonNull(LONG), description="The number of rows.")}
    types: dict[str, GraphQLObjectType] = {}
    if grouped:
        described = (
            "The columns selected here form the groups, one for each combination of values. Without it all "
            "rows form one group."
        )
        by = GraphQLObjectType(entity.types[TYPE_OF[BY]], grouped, description=f"Grouping columns of {entity.name}.")
        fields[BY] = GraphQLField(GraphQLNonNull(by), description=described)
    for function, meaning in _MEANINGS.items():
        columns = _columns(entity, function)
        if columns:
            name = entity.types[TYPE_OF[function]]
            if name not in types:  # minima and maxima share theirs
                types[name] = GraphQLObjectType(name, columns, description=f"A value for each column of {entity.name}.")
            fields[function.value] = GraphQLField(GraphQLNonNull(types[name]), description=meaning)
    return GraphQLObjectType(entity.types["Aggregate"], fields, description=f"Aggregates over rows of {entity.name}.")


def _columns(entity: Entity, function: Aggregation) -> dict[str, GraphQLField]:
    found = {n: c for n, c in entity.columns.items() if has_aggregation(function, c.type)}
    counts = function in (Aggregation.VALUES, Aggregation.DISTINCT)
    return {n: output_field(_value(c, function, nullable=not counts)) for n, c in found.items()}


def _value(column: Column, function: Aggregation, nullable: bool) -> Column:
    return replace(column, type=aggregated_type(function, column.type), nullable=nullable)


def aggregate_order(entity: Entity, rows: GraphQLInputObjectType | None) -> GraphQLInputObjectType:
    """Return the input type for an order of groups; `rows` is the one for an order of the entity's rows."""
    fields = {"count": GraphQLInputField(SORT_ORDER)}
    numbers = _orders(n for n, c in entity.columns.items() if has_aggregation(Aggregation.SUM, c.type))
    if rows is not None:
        fields |= {n: GraphQLInputField(rows) for n in (BY, "min", "max")}
    if numbers:
        described = "Sums or averages of columns."
        order = GraphQLInputObjectType(entity.types["NumbersOrder"], numbers, description=described)
        fields |= {n: GraphQLInputField(order) for n in ("sum", "avg")}
    return GraphQLInputObjectType(entity.types["AggregateOrder"], fields, description="The order of groups.")


def _orders(names: Iterable[str]) -> dict[str, GraphQLInputField]:
    return {n: GraphQLInputField(SORT_ORDER) for n in names}
