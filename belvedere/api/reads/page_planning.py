"""Plans of pages: the rows between two cursors, and the selected parts of a page.

In: the selection and arguments of a field. Out: a query of the shape PAGE and its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from belvedere.api.failures import BAD_VALUE, RequestError
from belvedere.api.graphql.selections import Selection
from belvedere.api.reads.argument_values import Fixed
from belvedere.api.reads.costs import Cost, asked_costs
from belvedere.api.reads.entities import Entity, RelationshipField
from belvedere.api.reads.request_values import RequestValues
from belvedere.store.read.query import ConstantField, Field, Link, PageNames, Shape, Sort, StoreQuery, is_ordered

FIELDS_OF_A_PAGE = 3
"""Cost of a row for its cursor and its position, in fields."""
SelectFields = Callable[[Entity, Selection, int], tuple[tuple[Field, ...], list[Cost]]]
"""Function that returns the selected fields of an entity's rows, and the costs of related rows among them."""


def page_of(
    request: RequestValues,
    fields_of: SelectFields,
    entity: Entity,
    asked: Selection,
    depth: int,
    relation: RelationshipField | None = None,
) -> tuple[StoreQuery, Cost]:
    """Return the query for one page of an entity's rows, or of related rows, in a total order."""
    arguments = {n: a for n, a in asked.arguments.items() if a != Fixed(None)}
    arguments = {n: a for n, a in arguments.items() if relation is None or n not in relation.parameters}
    if "first" in arguments and "last" in arguments:
        raise RequestError(
            BAD_VALUE, "`first` and `last` cannot be used together", "request two pages", node=asked.node
        )
    backward = "last" in arguments or ("before" in arguments and not arguments.keys() & {"first", "after"})
    as_of = request.then(entity, asked.node, arguments, relation)
    names, costs = _names(request, fields_of, entity, asked, depth)
    size = "last" if backward else "first"
    limit, source = request.values.limit(arguments.get(size), size)
    condition = request.condition(entity, arguments, depth)
    query = StoreQuery(
        entity.id,
        entity.schema,
        (),
        Shape.PAGE,
        where=condition,
        order=request.order(entity, arguments.get("order")) or _order(entity, relation),
        limit=limit,
        link=None if relation is None else relation.link,
        page=names,
        backward=backward,
        as_of=as_of,
    )
    query = replace(
        query,
        after=request.values.cursor(query, arguments.get("after"), "after"),
        before=request.values.cursor(query, arguments.get("before"), "before"),
    )
    asked_of_rows = asked_costs(condition, request.limits)
    shown = Cost(FIELDS_OF_A_PAGE + sum(len(f) for _, f in names.nodes), source, (*costs, *asked_of_rows))
    if not names.total_count:
        return query, shown
    return query, Cost(0, 1, (shown, Cost(1, request.limits.aggregated_rows, asked_of_rows)))


def _order(entity: Entity, relation: RelationshipField | None) -> tuple[Sort, ...]:
    """Return the default order of a page.

    A cursor holds columns. So if the entity is ordered by expressions, its pages are ordered by key.
    """
    if relation is None or not relation.link.order:
        return entity.order
    by_key = (Sort(name, descending=False, nulls_first=True) for name in entity.schema.key or ())
    return link_sorts(relation.link, entity) or tuple(s for s in by_key if is_ordered(entity.schema[s.column].type))


def link_sorts(link: Link, entity: Entity) -> tuple[Sort, ...] | None:
    """Return the order of a relationship by columns of its target; None if it is not ordered by columns."""
    found = []
    for order in link.order:
        if not isinstance(order.expr, exp.Column) or order.expr.table == "_":
            return None
        found.append(Sort(entity.schema[order.expr.name].name, order.descending, order.nulls_come_first))
    return tuple(found)


def _names(
    request: RequestValues, fields_of: SelectFields, entity: Entity, asked: Selection, depth: int
) -> tuple[PageNames, list[Cost]]:
    request.check_depth(depth, asked.node)
    lists: list[tuple[str, tuple[Field, ...]]] = []
    costs: list[Cost] = []
    by_name: dict[str, list[str]] = {}
    for found in asked.fields:
        by_name.setdefault(found.name, []).append(found.alias)
        if found.name == "nodes":
            fields, nested = fields_of(entity, found, depth)
            lists.append((found.alias, fields))
            costs += nested
    parts = {part: tuple(by_name.get(name, ())) for part, name in PARTS.items()}
    constants = tuple(ConstantField(a, entity.page_type) for a in by_name.get("__typename", ()))
    return PageNames(tuple(lists), **parts, constants=constants, parts=tuple(f.alias for f in asked.fields)), costs


PARTS = {
    "start_cursor": "startCursor",
    "end_cursor": "endCursor",
    "has_next_page": "hasNextPage",
    "has_previous_page": "hasPreviousPage",
    "total_count": "totalCount",
}
"""The fields of a page besides its nodes."""
