"""GraphQL subscriptions over SSE: each event once and in order, after each commit; resumed; with arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from graphql import print_type
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.failures import RequestError
from belvedere.api.http.application import Application
from belvedere.api.live.event_streams import QUIET, StreamMessage
from belvedere.api.serving.processes import start_api
from belvedere.compiler import compile_script
from belvedere.store import StoredTable, open_reader
from tests.api.committed_events import NOON, Commit, committing

SCRIPT = """
CREATE STREAM T (a INT, b STRING) KEEP 1 DAY;
/** What came. */
CREATE SUBSCRIPTION Seen ON ADD AS SELECT a, b FROM T;
ByA(a INT, other INT = 0) := SUBSCRIBE SELECT b FROM T WHERE a = :a OR a = :other;
Mine(a INT METADATA FROM 'auth.number') := SUBSCRIBE SELECT a, b FROM T WHERE a = :a;
"""
CATALOG = compile_script(SCRIPT).catalog
TABLES = {n: StoredTable(n, CATALOG.schema_of(n), fingerprint="test") for n in ("Seen", "ByA", "Mine")}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    return (
        str(request.getfixturevalue("postgres_url"))
        if request.param == "postgres"
        else f"sqlite:///{tmp_path}/store.db"
    )


@pytest.fixture
def commit(url: str) -> Iterator[Commit]:
    """Commits an epoch with these values of `a` as events of both subscriptions."""

    def row(name: str, n: int, a: int) -> dict[str, Any]:
        fixed = {"_op": "ADD", "_event_time": NOON, "b": f"b{n}", "_uid": n}
        return {"_key": str(n), "_seq": n, ("_argument1" if name == "ByA" else "a"): a, **fixed}

    yield from committing(url, TABLES, tuple(TABLES), row)


class Subscriber:
    """Reads a stream of the application, without a server."""

    def __init__(self, application: Application, text: str, claims: Any = None, **variables: Any):
        self.application, self.text, self.claims, self.variables = application, text, claims or {}, variables
        self.events: AsyncIterator[StreamMessage] | None = None

    async def next(self) -> Any:
        """The next answer; None where none comes within a moment."""
        if self.events is None:
            operation, literals = self.application.served.roles.all.api.find(self.text, None, self.variables)
            self.events = await self.application.served.streams.stream(
                self.application.served.roles.all.api, operation, literals, self.variables, self.claims
            )
            assert await anext(self.events) == QUIET
            self.waiting = asyncio.ensure_future(anext(self.events))
        done, _ = await asyncio.wait([self.waiting], timeout=1)
        if not done:
            return None
        reported = self.waiting.result()
        self.waiting = asyncio.ensure_future(anext(self.events))
        return json.loads(reported.body)["data"]


def test_events_come_once_in_order(url: str, commit: Commit) -> None:
    async def check() -> None:
        application = Application(CATALOG, lambda: open_reader(url))
        application.served.store.reader.dialect  # noqa: B018
        commit(1, 2, 1)
        with pytest.raises(RequestError) as error:
            await Subscriber(application, "subscription($n: Long!) { seen(after: $n) { a } }").next()
        assert error.value.code == "B8003"
        from_now = Subscriber(application, "subscription { x: seen { a _seq } }")
        from_start = Subscriber(application, "subscription($n: Long) { seen(after: $n) { a __typename } }", n=0)
        chosen = Subscriber(application, "subscription { byA(a: 1, after: 1) { b _seq _op } }")
        filtered = Subscriber(application, "subscription { seen(after: 0, filter: {a: {gt: 1}}) { _seq } }")
        assert await from_now.next() is None
        assert [await from_start.next() for _ in range(3)] == [
            {"seen": {"a": a, "__typename": "Seen"}} for a in (1, 2, 1)
        ]
        assert await chosen.next() == {"byA": {"b": "b3", "_seq": 3, "_op": "ADD"}}
        assert await filtered.next() == {"seen": {"_seq": 2}}
        assert await chosen.next() is None
        commit()
        commit(*range(3, 3 + 250), 1)
        assert [(await from_now.next())["x"] for _ in range(251)] == [
            {"a": a, "_seq": n} for n, a in enumerate([*range(3, 253), 1], 4)
        ]
        assert await chosen.next() == {"byA": {"b": "b254", "_seq": 254, "_op": "ADD"}}
        assert await from_now.next() is None

    asyncio.run(check())


def test_the_callers_token_chooses(url: str, commit: Commit) -> None:
    async def check() -> None:
        application = Application(CATALOG, lambda: open_reader(url))
        commit(1, 2, 1)
        text = "subscription { mine(after: 0) { a _seq } }"
        assert await Subscriber(application, text, {"number": 2}).next() == {"mine": {"a": 2, "_seq": 2}}
        for claims in ({}, {"number": "x"}):
            with pytest.raises(RequestError) as error:
                await Subscriber(application, text, claims).next()
            assert (error.value.code, error.value.status) == ("B8036", 403)

    asyncio.run(check())


@pytest.mark.smoke("way event stream")
def test_over_http(url: str, commit: Commit) -> None:
    commit(1)
    asked = {"query": "subscription { seen(after: 0) { a } }"}
    with start_api(CATALOG, url, processes=1) as api:
        api.wait_until_listening()
        headers = {"accept": "text/event-stream"}
        with httpx.Client(base_url=api.url, trust_env=False, timeout=20) as http:
            for send in ({"method": "POST", "json": asked}, {"method": "GET", "params": asked}):
                with http.stream(url="/graphql", headers=headers, **send) as answer:  # type: ignore[arg-type]
                    assert answer.headers["content-type"].startswith("text/event-stream")
                    lines = answer.iter_lines()
                    assert [next(lines) for _ in range(5)][2:4] == ["event: next", 'data: {"data": {"seen": {"a": 1}}}']


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("subscription { seen(limit: 3) { a } }", 400, "B8002"),
        ("subscription { seen { a } byA(a: 1) { b } }", 400, "B8002"),
        ("subscription { nothing { a } }", 400, "B8002"),
        ("subscription { byA { b } }", 400, "B8002"),
        ('subscription { seen(after: "x") { a } }', 400, "B8002"),
        ("subscription { __typename }", 400, "B80"),
        ("subscription { seen { a } }", 503, "B8005"),
    ],
)
def test_what_is_refused(text: str, status: int, code: str) -> None:
    client = TestClient(Application(CATALOG, lambda: open_reader("sqlite:////nowhere/x.db"), ServerSettings()))
    headers = {"accept": "text/event-stream, application/graphql-response+json"}
    answer = client.post("/graphql", json={"query": text}, headers=headers)
    assert answer.status_code == status
    assert answer.json()["errors"][0]["extensions"]["code"].startswith(code)
    plain = client.post("/graphql", json={"query": text})
    assert "errors" in plain.json()


def test_what_is_over_in_a_moment_does_not_end_an_event_source() -> None:
    application = Application(CATALOG, lambda: open_reader("sqlite:////nowhere/x.db"), ServerSettings())
    client = TestClient(application)
    for _ in range(2):
        alone = client.get("/streams/Seen/events", headers={"accept": "text/event-stream"})
        assert (alone.status_code, alone.text) == (200, "retry: 1000\n\n")
        other = client.get("/streams/Seen/events", headers={"accept": "*/*"})
        assert (other.status_code, other.headers["retry-after"]) == (503, "1")
        application._ending = True


def test_the_schema_has_them() -> None:
    schema = Application(CATALOG, lambda: open_reader("sqlite:////nowhere/x.db")).served.roles.all.api.schema
    assert schema.subscription_type is not None
    text = print_type(schema.subscription_type)
    assert '"""What came."""' in text
    assert "filter: SeenFilter" in text
    assert "other: Int! = 0" in text
    assert text.count("after: Long") == 3
    assert "): Seen!" in text
