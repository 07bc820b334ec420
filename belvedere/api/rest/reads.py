"""Plans of REST requests, cached by the shape of the request.

In: a `RestRequest`, the claims of its caller. Out: a `Prepared` read like GraphQL's, from the same planner, limits and
statements. A request that differs from an earlier one only in its values is not planned again.
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
"""Names of a page's parts besides its rows, in the order of the answer."""


@dataclass
class RestReads:
    """The plans of one model and dialect; `operations` prints and binds them."""

    operations: Operations
    plans: dict[Any, Plan] = field(default_factory=dict)

    def known(self, request: RestRequest, claims: Claims = NO_ONE) -> Prepared | None:
        """Return what `prepare` returns if the plan is cached; else None."""
        plan = self.plans.get(request.shape)
        return None if plan is None else self.operations.bound(plan, request.literals, {}, claims)

    def prepare(self, request: RestRequest, claims: Claims = NO_ONE) -> Prepared:
        """Return the plan and the values of a request."""
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
    """Return a list as a page. The other parts come before the rows, so they are found without parsing the rows."""
    by_cursor = request.offset is None
    cursor, total = (CURSOR,) * by_cursor, (TOTAL,) * request.counted
    parts = (*cursor, MORE, *total, ROWS)
    names = PageNames(((ROWS, query.fields),), end_cursor=cursor, has_next_page=(MORE,), total_count=total, parts=parts)
    page = replace(query, fields=(), shape=Shape.PAGE, page=names)
    return replace(page, after=planner.values.cursor(page, request.after, "after"))
