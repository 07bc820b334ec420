"""A client that goes away before its answer is there: the read is cancelled, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any

import api_example as example
import pytest
import uvicorn
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.http import client_disconnects
from belvedere.api.http.application import Application
from belvedere.api.http.connections import Connection
from belvedere.api.quarantined_answers import quarantined_sql

HELD = quarantined_sql("sqlite")
"""The one read beside them, once an epoch: what is in quarantine."""
ASKED = {"query": "{ things(limit: 1) { id } }"}


class Waiting(MemoryReader):
    """A store that is read on the loop, and answers when it is let go; `ended` says how each read of rows ended."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.ended = threading.Semaphore(0), list[str]()
        self.slow = True
        self.done = threading.Semaphore(0)

    async def fetch(self, sql: str, parameters: Any = ()) -> Any:
        if sql == HELD:
            return self.execute(sql, parameters)
        self.asked.release()
        how = "answered"
        try:
            if self.slow:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            how = "cancelled"
            raise
        finally:
            self.ended.append(how)
            self.done.release()
        return self.execute(sql, parameters)

    def document(self, name: str) -> str | None:
        return None


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_who_goes_away_ends_the_read(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_disconnects, "WATCH_SECONDS", 0.01)
    reader, listener = Waiting(), socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(Application(example.catalog(), lambda: reader), http=Connection, lifespan="off", log_config=None)
    )
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    body = json.dumps(ASKED).encode() if method == "POST" else b""
    place = "/graphql" if method == "POST" else "/graphql?query=%7Bthings%7Bid%7D%7D"
    head = (
        f"{method} {place} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
        f"{len(body)}\r\n\r\n"
    )

    def connected() -> socket.socket:
        connection = socket.create_connection(listener.getsockname(), timeout=60)
        connection.sendall(head.encode() + body)
        assert reader.asked.acquire(timeout=60)
        return connection

    try:
        connected().close()
        assert reader.done.acquire(timeout=60)
        reader.slow = False
        with connected() as connection:
            assert b'{"things":[{"id":1}' in connection.recv(65536)
        assert reader.ended == ["cancelled", "answered"]
    finally:
        server.should_exit = True
        thread.join()


def test_who_stays_has_an_answer_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_disconnects, "WATCH_SECONDS", 0.0)
    reader = Waiting()
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, real=asyncio.sleep: real(min(seconds, 0.05)))
    with TestClient(Application(example.catalog(), lambda: reader)) as client:
        for _ in range(3):
            assert client.post("/graphql", json=ASKED).json()["data"] == {"things": [{"id": 1}]}
    assert reader.ended == ["answered"] * 3
