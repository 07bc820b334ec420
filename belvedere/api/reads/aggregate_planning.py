"""Plans of aggregates: the columns that group the rows, the aggregates of each group, and the order of groups.

In: the selection and arguments of a field. Out: a query of the shape GROUPS and its cost. The selected columns of `by`
are the grouping columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from belvedere.api.failures import BAD_VALUE, RequestError
from belvedere.api.graphql.selections import Selection
from belvedere.api.reads.argument_values import Given
from belvedere.api.reads.costs import Cost, asked_costs
from belvedere.api.reads.entities import Entity, RelationshipField
from belvedere.api.reads.filters import as_list
from belvedere.api.reads.request_values import RequestValues
from belvedere.store.read.aggregates import has_aggregation
from belvedere.store.read.query import (
    Aggregated,
    AggregateField,
    Aggregation,
    ColumnField,
    ConstantField,
    Field,
    GroupSort,
    ObjectField,
    Shape,
    StoreQuery,
)

BY = "by"
"""Field whose selected columns group the rows."""
TYPE_OF = {
    BY: "Group",
    Aggregation.VALUES: "Counts",
    Aggregation.DISTINCT: "DistinctCounts",
    Aggregation.SUM: "Sums",
    Aggregation.AVG: "Averages",
    Aggregation.MIN: "Extremes",
    Aggregation.MAX: "Extremes",
}
"""Suffixes of the type names of an aggregate's objects."""


def groups_of(
    request: RequestValues, entity: Entity, asked: Selection, depth: int, relation: RelationshipField | None = None
) -> tuple[StoreQuery, Cost]:
    """Return the query for groups of an entity's rows, or of related rows."""
    arguments = {n: a for n, a in asked.arguments.items() if relation is None or n not in relation.parameters}
    request.check_depth(depth, asked.node)
    as_of = request.then(entity, asked.node, arguments, relation)
    condition = request.condition(entity, arguments, depth)
    by = _grouped(entity, asked)
    limit, source = request.values.limit(arguments.get("limit"), "limit")
    query = StoreQuery(
        entity.id,
        entity.schema,
        _fields(entity, asked),
        Shape.GROUPS,
        where=condition,
        limit=limit,
        offset=request.values.offset(arguments.get("offset")),
        link=None if relation is None else relation.link,
        by=by,
        group_order=tuple(_order(request, entity, arguments.get("order"), by, asked)),
        as_of=as_of,
    )
    values = sum(max(1, len(f.fields)) for f in asked.fields)
    read = Cost(values, request.limits.aggregated_rows, asked_costs(condition, request.limits))
    return query, Cost(0, 1, (read, Cost(values, source if by else 1)))


def _grouped(entity: Entity, asked: Selection) -> tuple[str, ...]:
    found = (c.name for f in asked.fields if f.name == BY for c in f.fields if c.name != "__typename")
    return tuple(dict.fromkeys(entity.columns[n].name for n in found))


def _fields(entity: Entity, asked: Selection) -> tuple[Field, ...]:
    return tuple(_field(entity, f) for f in asked.fields)


def _field(entity: Entity, asked: Selection) -> Field:
    if asked.name == "__typename":
        return ConstantField(asked.alias, entity.types["Aggregate"])
    if asked.name == Aggregation.ROWS:
        return AggregateField(asked.alias, Aggregated(Aggregation.ROWS))
    return ObjectField(asked.alias, tuple(_part(entity, asked.name, f) for f in asked.fields))


def _part(entity: Entity, name: str, asked: Selection) -> Field:
    if asked.name == "__typename":
        return ConstantField(asked.alias, entity.types[TYPE_OF[name]])
    column = entity.columns[asked.name].name
    if name == BY:
        return ColumnField(asked.alias, column)
    return AggregateField(asked.alias, Aggregated(Aggregation(name), column))


def _order(
    request: RequestValues, entity: Entity, given: Given | None, by: tuple[str, ...], asked: Selection
) -> Iterator[GroupSort]:
    """Yield the order of groups from `[{count: DESC}, {sum: {a: DESC}}, {by: {b: ASC}}]`; the first use of a key
    counts."""
    said: set[str | Aggregated] = set()
    for name, value in (pair for part in as_list(given) if isinstance(part, dict) for pair in part.items()):
        for key, direction in _keys(entity, name, value):
            found = request.direction(direction)
            if found is None or key in said:
                continue
            if isinstance(key, str) and key not in by:
                hint = "select the column in `by { ... }`, which lists the grouping columns"
                message = f"groups are ordered by `{key}`, which is not one of their columns"
                raise RequestError(BAD_VALUE, message, hint, node=asked.node)
            if (
                isinstance(key, Aggregated)
                and key.column
                and not has_aggregation(key.function, entity.schema[key.column].type)
            ):
                raise RequestError(BAD_VALUE, f"there is no `{key.function}` of `{key.column}`", node=asked.node)
            said.add(key)
            yield GroupSort(key, *found)


def _keys(entity: Entity, name: str, value: Given) -> Iterator[tuple[str | Aggregated, Given]]:
    if name == Aggregation.ROWS:
        yield Aggregated(Aggregation.ROWS), value
    elif isinstance(value, Mapping):
        for column, direction in value.items():
            known = entity.columns[column].name
            yield known if name == BY else Aggregated(Aggregation(name), known), direction
