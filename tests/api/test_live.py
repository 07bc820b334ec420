"""Live queries, and the other doors of streams: WebSockets, and server-sent events of `/streams/<name>/events`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.live import event_streams, websockets
from belvedere.api.live.epochs import Epochs
from belvedere.api.live.event_streams import INTERRUPTED, QUIET
from belvedere.api.serving.processes import start_api
from belvedere.compiler import compile_script
from belvedere.store import EpochRow, StoredTable, open_reader
from tests.api.committed_events import NOON, Commit, committing

SCRIPT = """
CREATE STREAM T (a INT, b STRING) KEEP 1 DAY;
CREATE SUBSCRIPTION Seen ON ADD AS SELECT a, b FROM T;
ByA(a INT) := SUBSCRIBE SELECT b FROM T WHERE a = :a;
Above(least INT) := SELECT a, b FROM T WHERE a >= :least;
"""
CATALOG = compile_script(SCRIPT).catalog
TABLES = {n: StoredTable(n, CATALOG.schema_of(n), fingerprint="test") for n in ("T", "Seen", "ByA")}


@pytest.fixture
def url(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def commit(url: str) -> Iterator[Commit]:
    """Commits an epoch in which rows with these values of `a` come, and an event for each."""

    def row(name: str, n: int, a: int) -> dict[str, Any]:
        fixed = {"_op": "ADD", "_event_time": NOON, "_ingest_time": NOON}
        return {"_key": str(n), "_seq": n, "_uid": n, "b": f"b{n}", "a": a, "_argument1": a, **fixed}

    yield from committing(url, TABLES, ("Seen", "ByA"), row)


class Reader:
    """Reads a stream of an application."""

    def __init__(self, application: Application, text: str, claims: Any = None, **variables: Any):
        self.application, self.text, self.claims, self.variables = application, text, claims or {}, variables
        self.waiting: Any = None

    async def next(self, seconds: float = 0.4) -> Any:
        """The next answer; None where none comes within a moment."""
        if self.waiting is None:
            operation, literals = self.application.served.roles.all.api.find(self.text, None, self.variables)
            self.reported = await self.application.served.streams.stream(
                self.application.served.roles.all.api, operation, literals, self.variables, self.claims
            )
            assert await anext(self.reported) == QUIET
            self.waiting = asyncio.ensure_future(anext(self.reported))
        done, _ = await asyncio.wait([self.waiting], timeout=seconds)
        if not done:
            return None
        body = self.waiting.result().body
        self.waiting = asyncio.ensure_future(anext(self.reported))
        return json.loads(body)

    async def data(self, seconds: float = 20) -> Any:
        return (await self.next(seconds))["data"]


@pytest.mark.smoke("way live query")
def test_a_live_query_tells_each_answer_once(url: str, commit: Commit) -> None:
    async def check() -> None:
        application = Application(CATALOG, lambda: open_reader(url))
        commit(1)
        await application.served.store.opened()
        reads = []
        run = application.served.roles.all.api.read
        application.served.roles.all.api.read = lambda prepared: (reads.append(1), run(prepared))[1]  # type: ignore[method-assign]
        small = Reader(application, "subscription { t(filter: {a: {lt: 5}}, order: [{a: ASC}]) { a } }")
        same = [Reader(application, "subscription L($m: Int!) { above(least: $m) { a } }", m=4) for _ in range(20)]
        other = Reader(application, "subscription { above(least: 6) { b } }")
        page = Reader(application, "subscription { tPage(first: 1) { nodes { a } hasNextPage } }")
        assert await small.data() == {"t": [{"a": 1}]}
        assert [await s.data() for s in same] == [{"above": []}] * 20
        assert await other.data() == {"above": []}
        assert await page.data() == {"tPage": {"nodes": [{"a": 1}], "hasNextPage": False}}
        reads.clear()
        commit(4)
        assert await small.data() == {"t": [{"a": 1}, {"a": 4}]}
        assert [await s.data() for s in same] == [{"above": [{"a": 4}]}] * 20
        assert (await page.data())["tPage"]["hasNextPage"]
        assert await other.next() is None, "its answer is the same"
        assert len(reads) == 4, "equal questions share one read"
        commit(7)
        answer = await other.next(20)
        assert answer["data"] == {"above": [{"b": "b3"}]}
        assert answer["extensions"]["epoch"] == 2
        assert await small.next() is None
        application.served.streams.end()
        assert await small.waiting is INTERRUPTED

    asyncio.run(check())


def test_counts_pages_from_the_end_and_aggregates_live(url: str, commit: Commit) -> None:
    async def check() -> None:
        application = Application(CATALOG, lambda: open_reader(url))
        commit(3)
        await application.served.store.opened()
        counted = Reader(
            application, "subscription { tPage(filter: {a: {gt: 4}}, last: 1) { nodes { a } totalCount } }"
        )
        summed = Reader(application, "subscription { tAggregate { by { b } count max { a } } }")
        ordered = Reader(
            application,
            'subscription { above(least: 4, order: [{a: DESC}], filter: {b: {neq: "b0"}}, limit: 1) { a b } }',
        )
        assert await counted.data() == {"tPage": {"nodes": [], "totalCount": 0}}
        (first,) = (await summed.data())["tAggregate"]
        assert (first["count"], first["max"]) == (1, {"a": 3})
        assert await ordered.data() == {"above": []}
        commit(9)
        assert await counted.data() == {"tPage": {"nodes": [{"a": 9}], "totalCount": 1}}
        assert sorted(g["max"]["a"] for g in (await summed.data())["tAggregate"]) == [3, 9]
        (above,) = (await ordered.data())["above"]
        assert above["a"] == 9
        commit(5)
        assert await ordered.next() is None, "the largest is the same"
        assert (await counted.data())["tPage"]["totalCount"] == 2

    asyncio.run(check())


def test_a_slow_subscriber_meets_the_newest_epoch(url: str, commit: Commit) -> None:
    async def check() -> None:
        application = Application(CATALOG, lambda: open_reader(url))
        commit(1)
        await application.served.store.opened()
        slow = Reader(application, "subscription { above(least: 0) { a } }")
        assert await slow.data() == {"above": [{"a": 1}]}
        slow.waiting.cancel()
        reported = await application.served.streams.stream(
            application.served.roles.all.api, *application.served.roles.all.api.find(slow.text), {}, {}
        )
        assert await anext(reported) == QUIET
        for n in range(2, 6):
            commit(n)
            await asyncio.sleep(0.05)
        assert len(json.loads((await anext(reported)).body)["data"]["above"]) == 5

    asyncio.run(check())


def test_a_stream_ends_with_its_token(url: str, commit: Commit) -> None:
    async def check() -> None:
        application = Application(CATALOG, lambda: open_reader(url))
        commit(1)
        await application.served.store.opened()
        over = Reader(application, "subscription { t { a } }", {"exp": 1})
        assert (await over.next(20))["errors"][0]["extensions"]["code"] == "B8008"

    asyncio.run(check())


def test_nobody_looks_where_nobody_waits() -> None:
    looks = []

    async def last() -> EpochRow:
        looks.append(1)
        return EpochRow(min(1, len(looks) // 3), NOON)

    async def check() -> None:
        epochs = Epochs(last)
        first = await epochs.next(-1)
        assert first is not None
        assert {row.epoch for row in await asyncio.gather(*[epochs.next(first.epoch) for _ in range(50)]) if row} == {1}
        assert len(looks) < 10, "one look for all"
        waiting = asyncio.create_task(epochs.next(1))
        await asyncio.sleep(0)
        epochs.wake()
        assert await waiting is None
        seen = len(looks)
        while epochs._looker is not None and not epochs._looker.done():
            await asyncio.sleep(0.05)
        assert len(looks) < seen + 100, "it ends soon after the last one waited"

    asyncio.run(check())


# WebSockets


@pytest.fixture
def client(url: str, commit: Commit) -> Iterator[TestClient]:
    commit(1, 2)
    application = Application(CATALOG, lambda: open_reader(url), ServerSettings(token="s3cret"))
    with TestClient(application, headers={"authorization": "Bearer s3cret"}) as made:
        yield made


def connected(client: TestClient, **given: Any) -> Any:
    return client.websocket_connect("/graphql", [websockets.PROTOCOL], **given)


def test_operations_over_a_websocket(client: TestClient, commit: Commit) -> None:
    with connected(client) as ws:
        ws.send_json({"type": "connection_init"})
        assert ws.receive_json() == {"type": "connection_ack"}
        ws.send_json({"type": "ping"})
        assert ws.receive_json() == {"type": "pong"}
        ws.send_json({"type": "subscribe", "id": "q", "payload": {"query": "{ t { a } }"}})
        found = ws.receive_json()
        assert (found["id"], found["type"], found["payload"]["data"]) == ("q", "next", {"t": [{"a": 1}, {"a": 2}]})
        assert ws.receive_json() == {"id": "q", "type": "complete"}
        ws.send_json({"type": "subscribe", "id": "w", "payload": {"query": "{ x { a } }"}})
        found = ws.receive_json()
        assert (found["type"], found["payload"][0]["extensions"]["code"]) == ("error", "B8002")
        ws.send_json(
            {"type": "subscribe", "id": "s", "payload": {"query": "subscription { seen(after: 1) { a _seq } }"}}
        )
        assert ws.receive_json()["payload"] == {"data": {"seen": {"a": 2, "_seq": 2}}}
        commit(9)
        assert ws.receive_json()["payload"] == {"data": {"seen": {"a": 9, "_seq": 3}}}
        ws.send_json({"type": "complete", "id": "s"})
        live = {"query": "subscription($m: Int!) { above(least: $m) { a } }", "variables": {"m": 9}}
        ws.send_json({"type": "subscribe", "id": "s", "payload": live})
        assert ws.receive_json()["payload"]["data"] == {"above": [{"a": 9}]}
        ws.send_json({"type": "subscribe", "id": "m", "payload": {"query": "mutation { t(rows: [{a: 1}]) { taken } }"}})
        assert ws.receive_json()["payload"][0]["extensions"]["code"] == "B8030"


TWICE = '{"type": "subscribe", "id": "1", "payload": {"query": "subscription { seen { a } }"}}'


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (["x"], 4400),
        (["[]"], 4400),
        (['{"type": "subscribe", "id": "1", "payload": {"query": "{ t { a } }"}}'], 4401),
        (['{"type": "connection_init", "payload": {"authorization": "Bearer wrong"}}'], 4401),
        (['{"type": "connection_init"}', '{"type": "connection_init"}'], 4429),
        (['{"type": "connection_init"}', '{"type": "what"}'], 4400),
        (['{"type": "connection_init"}', *[TWICE] * 2], 4409),
        ([], 4408),
    ],
)  # fmt: skip
def test_who_breaks_the_protocol_is_closed(client: TestClient, sent: list[str], code: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(websockets, "INIT_SECONDS", 0.05 if not sent else 10)
    with connected(client) as ws:
        for text in sent:
            ws.send_text(text)
        with pytest.raises(WebSocketDisconnect) as closed:  # noqa: PT012 - what comes before is received
            while ws.receive_json():
                pass
        assert closed.value.code == code


def test_who_may_open_a_websocket(client: TestClient) -> None:
    client.headers.pop("authorization")
    with connected(client) as ws:
        ws.send_json({"type": "connection_init", "payload": {"authorization": "Bearer s3cret"}})
        assert ws.receive_json() == {"type": "connection_ack"}
    with connected(client) as ws:
        ws.send_json({"type": "connection_init"})
        with pytest.raises(WebSocketDisconnect) as closed:
            ws.receive_json()
        assert closed.value.code == 4401
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        with pytest.raises(WebSocketDisconnect), connected(client, headers=headers):
            pass
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/status", [websockets.PROTOCOL]):
        pass
    with client.websocket_connect("/graphql", ["graphql-ws"]) as ws, pytest.raises(WebSocketDisconnect) as closed:
        ws.receive_json()
    assert closed.value.code == 4406


# `/streams/<name>/events`


def test_plain_events(url: str, commit: Commit) -> None:
    commit(1, 2, 1)
    with start_api(CATALOG, url, processes=1) as api:
        api.wait_until_listening()
        with httpx.Client(base_url=api.url, trust_env=False, timeout=20) as http:

            def first(path: str, number: int, **headers: str) -> list[tuple[str, Any]]:
                found: list[tuple[str, Any]] = []
                with http.stream("GET", path, headers=headers) as answer:
                    assert answer.headers["content-type"].startswith("text/event-stream")
                    for line in answer.iter_lines():
                        if line.startswith("id: "):
                            found.append((line[4:], None))
                        elif line.startswith("data: "):
                            found[-1] = (found[-1][0], json.loads(line[6:]))
                            if len(found) == number:
                                return found
                return found

            everything = first("/streams/Seen/events?after=0", 3)
            assert [(n, row["a"], row["_op"]) for n, row in everything] == [
                ("1", 1, "ADD"),
                ("2", 2, "ADD"),
                ("3", 1, "ADD"),
            ]
            assert first("/streams/seen/events", 2, **{"last-event-id": "1"}) == everything[1:]
            assert [n for n, _ in first("/streams/ByA/events?a=1&after=0", 2)] == ["1", "3"]
            for path, status in (
                ("/streams/T/events", 404),
                ("/streams/ByA/events?a=x", 400),
                ("/streams/ByA/events", 400),
                ("/streams/Seen/events?b=1", 400),
                ("/streams/Seen/events?after=x", 400),
            ):
                answer = http.get(path)
                assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), (
                    path
                )


def test_streams_have_a_most(url: str, commit: Commit, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(1)
    monkeypatch.setattr(event_streams, "MAX_STREAMS", 0)
    with TestClient(Application(CATALOG, lambda: open_reader(url))) as client:
        answer = client.get("/streams/Seen/events")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
