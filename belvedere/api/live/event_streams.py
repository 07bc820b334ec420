"""GraphQL subscriptions: the messages of a stream, over any transport.

In: a valid operation, its variables, and a function that reads the store. Out: `StreamMessage`s: the events of a
script's subscription after an epoch, or the answers of a live query, at once and after each epoch that changed it. A
stream is a loop that epochs wake. It has no queue: a slow client gets the newest epoch next. A subscriber of events
continues `after` its last `_seq`, on any server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from belvedere.api.failures import BAD_REQUEST, BAD_VALUE, NOT_ALLOWED, NOT_READY, STORE_AWAY, RequestError
from belvedere.api.graphql.api import Api
from belvedere.api.graphql.event_fields import AFTER, SEQUENCE, event_fields
from belvedere.api.graphql.operations import Operation, Operations, Plan, Prepared
from belvedere.api.graphql.selections import Selection
from belvedere.api.live.epochs import Epochs
from belvedere.api.reads.argument_values import Scalar, look_up
from belvedere.api.reads.entities import Entity, Template
from belvedere.api.reads.planning import ReadPlanner
from belvedere.intake.claims import NO_ONE, Claims
from belvedere.store.protocol import EpochRow
from belvedere.store.read.query import (
    BoundValue,
    ColumnField,
    Comparison,
    Every,
    Nested,
    Operator,
    Role,
    Sort,
    StoreQuery,
)
from belvedere.store.read.stored_values import long_number
from belvedere.store.stage_memory import Memories

MARK = "~seq"
"""The name of an event's number in answers and among variables, which no client can write."""
AT_ONCE = 100
"""Maximum number of events that one statement reads."""
QUIET_SECONDS = 15.0
"""Seconds without messages after which a stream sends a keep-alive."""
MAX_STREAMS = 1_500
"""Maximum number of streams that a process serves at a time."""


class StreamMessage(NamedTuple):
    """A message of a stream: a GraphQL result as JSON, empty for a keep-alive; and the number of an event."""

    body: bytes
    number: int | None = None


class How(NamedTuple):
    """Format of values: with `whole`, objects in event columns as stored, independent of the selection; 64-bit integers
    as strings (`longs`)."""

    whole: bool = False
    longs: bool = False


PLAIN = How()
QUIET = StreamMessage(b"")
UNCHANGED = StreamMessage(b"", -1)
INTERRUPTED = StreamMessage(b"", -2)
"""The last message of a stream when the server ends: the stream is not complete, and continues on another server."""
LONG = 200_000
"""Bytes: longer answers are processed in a thread."""
AWAY_SECONDS = 0.5
"""Seconds that a stream waits when the store is unavailable."""
Run = Callable[[Prepared], Awaitable[bytes]]
T = TypeVar("T")


class EventStreams:
    """The streams of one process. `in_planner` runs slow work where it blocks no other stream."""

    def __init__(
        self,
        last_epoch: Callable[[], Awaitable[EpochRow | None]],
        run: Run,
        in_planner: Callable[[Callable[[], Any]], Awaitable[Any]],
    ):
        self._last_epoch, self._in_planner = last_epoch, in_planner
        self._epochs, self._reads = Epochs(last_epoch), SharedReads(run, in_planner)
        self._open = 0
        self._ending = False

    def end(self) -> None:
        """End all streams; their clients continue on another server."""
        self._ending = True
        self._epochs.wake()

    async def stream(
        self,
        api: Api,
        operation: Operation,
        literals: list[Any],
        variables: Mapping[str, Any],
        claims: Claims = NO_ONE,
        how: How = PLAIN,
    ) -> AsyncIterator[StreamMessage]:
        """Return a stream of the operation's messages for a caller with these claims, with values formatted by `how`.

        Raises `RequestError` before the first message if the request is wrong.
        """
        if self._open >= MAX_STREAMS:
            raise RequestError(
                BAD_REQUEST,
                f"this server already serves {MAX_STREAMS} streams, the maximum",
                "close one, or try again later",
                status=503,
            )
        operations = api.operations
        await self._in_planner(lambda: operations.check_variables(operation, variables))
        fields = await self._in_planner(lambda: operations.selections(operation, variables))
        if len(fields) != 1:
            raise RequestError(BAD_REQUEST, "a subscription selects one field", "send one subscription for each field")
        (field,) = fields
        source = event_fields(api.model).get(field.name)
        if source is None and field.name.startswith("__"):
            raise RequestError(
                BAD_REQUEST, "a subscription selects rows or events", "read the rest by a query", node=field.node
            )
        if source is None:
            asked = await self._in_planner(lambda: operations.prepare(operation, literals, variables, claims))
            return self.guarded(self._answers(replace(asked, longs=how.longs)), claims)
        if how.whole:
            field = replace(field, fields=tuple(replace(f, fields=()) for f in field.fields))
        planner = operations.planner(operation, variables)
        plan = await self._in_planner(lambda: self._plan(operations, source, planner, field))
        after = await self._start(source, field, literals, variables)

        # wrong values and claims are reported before the stream begins
        bound = operations.bind(plan, literals, {**variables, MARK: after}, claims)
        asked = Prepared(plan, bound, longs=how.longs)
        return self.guarded(self._events(asked, field.alias, after), claims)

    def _plan(self, operations: Operations, source: Entity | Template, planner: ReadPlanner, field: Selection) -> Plan:
        """Return the read of events after a number, which each read binds again."""
        query, cost = (
            planner.list_of(source, field, 1) if isinstance(source, Entity) else planner.template(source, field)
        )
        after = BoundValue(planner.values.register(("variable", MARK), AFTER), pa.int64(), Role.ARGUMENT)
        return operations.plan_of(planner, Nested(field.alias, _later(query, after)), replace(cost, limit=AT_ONCE))

    async def _start(
        self, source: Entity | Template, field: Selection, literals: list[Any], variables: Mapping[str, Any]
    ) -> int:
        given = field.arguments.get(AFTER)
        if isinstance(given, Scalar):
            try:
                return long_number(look_up(given.source, literals, variables))
            except ValueError:
                raise RequestError(BAD_VALUE, f"`{AFTER}` must be a whole number", node=field.node) from None
        last = await self._last_epoch()
        relation = source.id if isinstance(source, Entity) else source.template.name
        return Memories.of(last.extra).last_number(relation) if last is not None else 0

    async def guarded(self, reported: AsyncIterator[StreamMessage], claims: Claims) -> AsyncIterator[StreamMessage]:
        """Yield the stream until the server stops or the caller's token expires; an error is the last message."""
        self._open += 1
        expires = claims.get("exp")
        try:
            yield QUIET
            async for each in reported:
                if self._ending:
                    yield INTERRUPTED
                    return
                if isinstance(expires, int | float) and time.time() > expires:
                    raise RequestError(
                        NOT_ALLOWED,
                        "the token of this stream has expired",
                        "subscribe again with a new one",
                        status=401,
                    )
                if each is not UNCHANGED:
                    yield each
        except RequestError as error:
            yield StreamMessage(json.dumps({"errors": error.formatted()}).encode())
        finally:
            self._open -= 1

    async def woken(self, known: int) -> EpochRow | None:
        """Return the next epoch; None after a timeout, so that the stream can check whether it must end."""
        return None if self._ending else await self._epochs.next(known)

    async def _events(self, asked: Prepared, alias: str, after: int) -> AsyncIterator[StreamMessage]:
        known, reported, question = -1, time.monotonic(), EventsAfter(asked)
        made = partial(_each_event, alias)
        while True:
            last = await self.woken(known)
            found: list[StreamMessage] | None = []
            if last is not None:
                found = await self._read(last, question.number(after), made)
                known = last.epoch if found is not None and len(found) < AT_ONCE else known
            for event in found or ():
                after, reported = event.number or after, time.monotonic()
                yield event
            if not found:
                quiet = time.monotonic() - reported > QUIET_SECONDS
                reported = time.monotonic() if quiet else reported
                yield QUIET if quiet else UNCHANGED

    async def _answers(self, asked: Prepared) -> AsyncIterator[StreamMessage]:
        known, reported, shown = -1, time.monotonic(), b""
        while True:
            last = await self.woken(known)
            found = None if last is None else await self._read(last, asked, _with_data)
            if last is not None and found is not None:
                known = last.epoch
                answer, data = found
                if data != shown:
                    shown, reported = data, time.monotonic()
                    yield answer
                    continue
            quiet = time.monotonic() - reported > QUIET_SECONDS
            reported = time.monotonic() if quiet else reported
            yield QUIET if quiet else UNCHANGED

    async def _read(self, epoch: EpochRow, prepared: Prepared, made: Callable[[bytes], T]) -> T | None:
        """Return `made` of the answer of this epoch or a later one; None if the store is unavailable."""
        try:
            return await self._reads.read(epoch.epoch, prepared, made)
        except RequestError as error:
            if error.code not in (NOT_READY, STORE_AWAY):
                raise
            await asyncio.sleep(AWAY_SECONDS)
            return None


class EventsAfter:
    """A query for events after a number. Everything except the number is bound once."""

    def __init__(self, asked: Prepared):
        self._asked = asked
        sources, converters = asked.plan.draft.sources, asked.plan.statement.converters
        self._places = {
            n: convert for n, (source, convert) in enumerate(converters) if sources[source] == ("variable", MARK)
        }

    def number(self, after: int) -> Prepared:
        """Return the query for events after a number."""
        parameters = list(self._asked.parameters)
        for place, convert in self._places.items():
            parameters[place] = convert(after)
        return replace(self._asked, parameters=parameters)


class SharedReads:
    """Reads of one epoch: equal queries share one read and the result computed from it."""

    def __init__(self, run: Run, in_planner: Callable[[Callable[[], Any]], Awaitable[Any]]):
        self._run, self._in_planner = run, in_planner
        self._epoch = -1
        self._reads: dict[Any, asyncio.Future[Any]] = {}

    async def read(self, epoch: int, prepared: Prepared, made: Callable[[bytes], T]) -> T:
        """Return `made` of the answer, of that epoch or a later one. Equal questions share one result."""
        if epoch != self._epoch:
            self._epoch, self._reads = epoch, {}
        question = (prepared.plan.statement.sql, prepared.longs, *map(repr, prepared.parameters))
        found: asyncio.Future[T] | None = self._reads.get(question)
        if found is None:
            found = self._reads[question] = asyncio.ensure_future(self._made(prepared, made))
            found.add_done_callback(lambda f: f.cancelled() or f.exception())
        return found.result() if found.done() else await asyncio.shield(found)

    async def _made(self, prepared: Prepared, made: Callable[[bytes], T]) -> T:
        answer = await self._run(prepared)
        if len(answer) < LONG:
            return made(answer)
        found: T = await self._in_planner(lambda: made(answer))
        return found


def _each_event(alias: str, answer: bytes) -> list[StreamMessage]:
    """Return each event of an answer as a separate result."""
    found = json.loads(answer)["data"][alias]
    numbers = [event.pop(MARK) for event in found]
    texts = (json.dumps({"data": {alias: event}}, ensure_ascii=False) for event in found)
    return [StreamMessage(text.encode(), number) for text, number in zip(texts, numbers, strict=True)]


def _with_data(answer: bytes) -> tuple[StreamMessage, bytes]:
    """Return an answer as a message, and the part that changes with the data: everything except the epoch."""
    return StreamMessage(answer), answer.rpartition(b',"extensions":')[0]


def _later(query: StoreQuery, after: BoundValue) -> StoreQuery:
    """Return a query for the events after a number, in order, with their numbers."""
    fields = (*query.fields, ColumnField(MARK, SEQUENCE))
    if query.plan is not None:
        arguments = (*((n, after if n == AFTER else v) for n, v in query.arguments),)
        return replace(query, fields=fields, arguments=arguments, limit=AT_ONCE)
    later = Comparison(SEQUENCE, Operator.GT, after)
    where = later if query.where is None else Every((query.where, later))
    return replace(query, fields=fields, where=where, order=(Sort(SEQUENCE, False, True),), limit=AT_ONCE)
