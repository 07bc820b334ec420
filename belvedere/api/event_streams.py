"""GraphQL subscriptions: the events of a subscription of the script as they are committed, one answer for each (GraphQL over SSE).

In: a valid operation, its variables, and how the store is read. Out: the texts of a `text/event-stream`. An event is read after the
epoch that wrote it; a subscriber goes on `after` the last `_seq` that it has, on any server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from graphql import FieldNode

from belvedere.api.entities import Entity, Template
from belvedere.api.event_fields import AFTER, SEQUENCE, event_fields
from belvedere.api.failures import BAD_REQUEST, BAD_VALUE, RequestError
from belvedere.api.graphql import Api
from belvedere.api.operations import Operation, Plan, Prepared
from belvedere.api.planning import SelectionPlanner
from belvedere.api.values import Scalar, look_up
from belvedere.intake.claims import NOBODY, Claims
from belvedere.store.protocol import EpochRow
from belvedere.store.read.query import BoundValue, ColumnField, Comparison, Every, Nested, Operator, Role, Sort, StoreQuery

MARK = "~seq"
"""The name of an event's number in answers and among variables, which no client can write."""
AT_ONCE = 100
"""So many events are read by one statement."""
LOOK_SECONDS = 0.1
"""So long between two looks at the last epoch."""
QUIET_SECONDS = 15.0
"""After so long without an event a comment tells that the stream is there."""
MOST = 500
"""So many streams a process serves at a time."""


class EventStreams:
    """The streams of one process."""

    def __init__(
        self, api: Api, last_epoch: Callable[[], Awaitable[EpochRow | None]], run: Callable[[Prepared], Awaitable[bytes]]
    ):
        self._api, self._last_epoch, self._run = api, last_epoch, run
        self._fields = event_fields(api.model)
        self._open = 0
        self._seen: tuple[float, EpochRow | None] = (0.0, None)
        self._looking = asyncio.Lock()

    async def stream(
        self, operation: Operation, literals: list[Any], variables: Mapping[str, Any], claims: Claims = NOBODY
    ) -> AsyncIterator[str]:
        """The texts of a stream to a caller with these claims; raises `RequestError` before the first where the request is wrong."""
        if self._open >= MOST:
            raise RequestError(BAD_REQUEST, f"this server has {MOST} streams already", "close one, or ask later", status=503)
        self._api.operations.check_variables(operation, variables)
        planner = self._api.operations.planner(operation, variables)
        ((alias, nodes),) = planner.collect((operation.node.selection_set,)).items()
        if nodes[0].name.value not in self._fields:
            raise RequestError(BAD_REQUEST, "a subscription asks for events", "ask for the rest with a query", node=nodes[0])
        source = self._fields[nodes[0].name.value]
        plan = self._plan(source, planner, nodes, alias)
        after = await self._start(source, planner, nodes[0], literals, variables)

        def bound(number: int) -> Prepared:
            return Prepared(plan, self._api.operations.bind(plan, literals, {**variables, MARK: number}, claims))

        bound(after)  # what is wrong with a value or a claim is said before the stream begins
        return self._events(bound, alias, after)

    def _plan(self, source: Entity | Template, planner: SelectionPlanner, nodes: list[FieldNode], alias: str) -> Plan:
        """The events after a number, which is bound anew for each read."""
        query, cost = planner.list_of(source, nodes, 1) if isinstance(source, Entity) else planner.template(source, nodes)
        after = BoundValue(planner.register(("variable", MARK), AFTER), pa.int64(), Role.ARGUMENT)
        return self._api.operations.plan_of(planner, Nested(alias, _later(query, after)), replace(cost, limit=AT_ONCE))

    async def _start(
        self,
        source: Entity | Template,
        planner: SelectionPlanner,
        node: FieldNode,
        literals: list[Any],
        variables: Mapping[str, Any],
    ) -> int:
        given = planner.arguments(node).get(AFTER)
        if isinstance(given, Scalar):
            try:
                return int(look_up(given.source, literals, variables))
            except ValueError:
                raise RequestError(BAD_VALUE, f"`{AFTER}` is a whole number", node=node) from None
        last = await self._last()
        relation = source.id if isinstance(source, Entity) else source.template.name
        return int(last.extra.get("sequences", {}).get(relation, 1)) - 1 if last is not None else 0

    async def _events(self, bound: Callable[[int], Prepared], alias: str, after: int) -> AsyncIterator[str]:
        self._open += 1
        known, told = -1, time.monotonic()
        try:
            yield ":\n\n"
            while True:
                last = await self._last()
                if last is not None and last.epoch != known:
                    found: list[dict[str, Any]] = json.loads(await self._run(bound(after)))["data"][alias]
                    for event in found:
                        after = event.pop(MARK)
                        yield _next({"data": {alias: event}})
                    told = time.monotonic() if found else told
                    if len(found) == AT_ONCE:
                        continue
                    known = last.epoch
                if time.monotonic() - told > QUIET_SECONDS:
                    told = time.monotonic()
                    yield ":\n\n"
                await asyncio.sleep(LOOK_SECONDS)
        except RequestError as error:
            yield _next({"errors": error.formatted()})
            yield "event: complete\ndata:\n\n"
        finally:
            self._open -= 1

    async def _last(self) -> EpochRow | None:
        """The last epoch, looked up once for all streams."""
        async with self._looking:
            if time.monotonic() - self._seen[0] > LOOK_SECONDS / 2:
                self._seen = (time.monotonic(), await self._last_epoch())
        return self._seen[1]


def _later(query: StoreQuery, after: BoundValue) -> StoreQuery:
    """The events after a number, in order, with their numbers."""
    fields = (*query.fields, ColumnField(MARK, SEQUENCE))
    if query.plan is not None:
        arguments = (*((n, after if n == AFTER else v) for n, v in query.arguments),)
        return replace(query, fields=fields, arguments=arguments, limit=AT_ONCE)
    later = Comparison(SEQUENCE, Operator.GT, after)
    where = later if query.where is None else Every((query.where, later))
    return replace(query, fields=fields, where=where, order=(Sort(SEQUENCE, False, True),), limit=AT_ONCE)


def _next(answer: Mapping[str, Any]) -> str:
    return f"event: next\ndata: {json.dumps(answer, ensure_ascii=False)}\n\n"
