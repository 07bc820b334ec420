"""`GET /status/events`: changes of the status, as server-sent events.

In: a function from an epoch's row to a status, and the streams of a process. Out: texts of a `text/event-stream`: the
status now, after each epoch, and every few seconds. So a client without messages knows that the server is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import StreamingResponse

from belvedere.api.failures import RequestError
from belvedere.api.live.event_streams import UNCHANGED, EventStreams, StreamMessage
from belvedere.api.live.sse import EVENTS
from belvedere.intake.claims import Claims
from belvedere.store.protocol import EpochRow

MIN_SECONDS, MAX_SECONDS = 0.25, 3.0
"""Minimum and maximum seconds between two statuses."""
Status = Callable[[EpochRow | None], Awaitable[Mapping[str, Any]]]


LastEpoch = Callable[[], Awaitable[EpochRow | None]]


def status_events(streams: EventStreams, last_epoch: LastEpoch, status: Status, claims: Claims) -> StreamingResponse:
    """Return the answer to a caller with these claims."""

    async def texts() -> AsyncIterator[bytes]:
        async for each in streams.guarded(_statuses(streams, last_epoch, status), claims):
            yield b"data: %b\n\n" % each.body if each.body else b":\n\n"

    return StreamingResponse(
        texts(), media_type=EVENTS, headers={"cache-control": "no-store", "x-accel-buffering": "no"}
    )


async def _statuses(streams: EventStreams, last_epoch: LastEpoch, status: Status) -> AsyncIterator[StreamMessage]:
    clock = asyncio.get_running_loop().time
    last: EpochRow | None = None
    with contextlib.suppress(RequestError):  # the store is away: it comes back
        last = await last_epoch()
    while True:
        yield StreamMessage(json.dumps(await status(last), ensure_ascii=False).encode())
        until = clock() + MAX_SECONDS
        await asyncio.sleep(MIN_SECONDS)
        while clock() < until:
            found = await streams.woken(-1 if last is None else last.epoch)
            yield UNCHANGED  # the guard checks whether the stream must end
            if found is not None:
                last = found
                break
