"""The connection of serving processes to the desk, where its other end is gone."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvloop

from belvedere.intake.ingest_service import Request
from belvedere.intake.wire import GONE, UNKNOWN, IngestClient
from belvedere.time.intake_entries import Act, ProducerAct


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_who_asks_when_the_run_has_been_killed_is_told_to_come_again(loop: Any) -> None:
    ours, theirs = socket.socketpair()
    request = Request("t", ProducerAct(Act.BOUND, "t", 0, "p", 1, "at", False), "p")

    async def ask() -> list[Any]:
        client = IngestClient(theirs)
        first = asyncio.create_task(client.ask(request))
        await asyncio.sleep(0.05)
        ours.close()
        assert client._streams is not None
        client._streams[
            1
        ].transport.abort()  # as the loop does where a write fails, before the end of the stream has been read
        answers = [await client.ask(request) for _ in range(2)]
        return [*answers, await first]

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(ask()) == [GONE, GONE, UNKNOWN]
