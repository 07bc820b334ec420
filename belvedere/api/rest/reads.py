"""From a request of REST to a plan with its values; plans are remembered by the shape of requests.

In: a `RestRequest`, the claims of its caller. Out: a `Prepared` read, as GraphQL makes them: the same planner, limits and statements. A
request that differs from one before in its values alone is not planned again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from belvedere.api.graphql.operations import Operations, Plan, Prepared, remember
from belvedere.api.reads.costs import Cost, asked_costs
from belvedere.api.reads.entities import Entity, Template
from belvedere.api.reads.filters import is_keyed
from belvedere.api.reads.planning import ReadPlanner
from belvedere.api.rest.requests import ROWS, RestRequest
from belvedere.intake.claims import NO_ONE, Claims
from belvedere.store.read.query import Nested, PageNames, Shape, StoreQuery

CURSOR, MORE, TOTAL = "cursor", "more", "total"
"""The parts of a page beside its rows, in the order in which the answer has them."""


@dataclass
class RestReads:
    """The plans of one model and dialect, which `operations` print and bind."""

    operations: Operations
    plans: dict[Any, Plan] = field(default_factory=dict)

    def known(self, request: RestRequest, claims: Claims = NO_ONE) -> Prepared | None:
        """As `prepare`, where there is a plan; None where there is none."""
        plan = self.plans.get(request.shape)
        return None if plan is None else self.operations.bound(plan, request.literals, {}, claims)

    def prepare(self, request: RestRequest, claims: Claims = NO_ONE) -> Prepared:
        """The plan and the values of a request."""
        plan = self._plan(request)
        remember(self.plans, request.shape, plan)
        return self.operations.bound(plan, request.literals, {}, claims)

    def _plan(self, request: RestRequest) -> Plan:
        planner = ReadPlanner(
            self.operations.model, self.operations.limits, lambda scalar: request.literals[scalar.source[1]]
        )
        query, cost = _rows(planner, request)
        if not request.one and (request.counted or not _is_one(request, query)):
            query = _page(planner, request, query)
        if request.counted:
            limits = planner.limits
            cost = Cost(0, 1, (cost, Cost(1, limits.aggregated_rows, asked_costs(query.where, limits))))
        draft = planner.planned((Nested(ROWS, query),), (cost,))
        return self.operations.printed(draft, request.literals, {})


def _rows(planner: ReadPlanner, request: RestRequest) -> tuple[StoreQuery, Cost]:
    if isinstance(request.source, Template):
        return planner.template(request.source, request.selection)
    if request.one:
        return planner.by_key(request.source, request.selection)
    return planner.list_of(request.source, request.selection, 1)


def _is_one(request: RestRequest, query: StoreQuery) -> bool:
    """Return whether a list has at most one row, so that there is no next page."""
    return isinstance(request.source, Entity) and request.after is None and is_keyed(request.source, query.where)


def _page(planner: ReadPlanner, request: RestRequest, query: StoreQuery) -> StoreQuery:
    """A list as a page. What stands beside the rows comes before them, so that it is found without reading them."""
    by_cursor = request.offset is None
    cursor, total = (CURSOR,) * by_cursor, (TOTAL,) * request.counted
    parts = (*cursor, MORE, *total, ROWS)
    names = PageNames(((ROWS, query.fields),), end_cursor=cursor, has_next_page=(MORE,), total_count=total, parts=parts)
    page = replace(query, fields=(), shape=Shape.PAGE, page=names)
    return replace(page, after=planner.values.cursor(page, request.after, "after"))
