"""The reference clients of JavaScript against a server: graphql-sse, graphql-ws, eventsource, graphql-http's audits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.api.serving.processes import Serving, start_api
from belvedere.compiler import compile_script
from belvedere.store import StoredTable
from tests.api.committed_events import NOON, Commit, committing
from tests.api.node_clients import NodeClient
from tests.depth import at_night

pytestmark = pytest.mark.node
SCRIPT = """
CREATE STREAM T (a INT, b STRING) KEEP 1 DAY;
CREATE SUBSCRIPTION Seen ON ADD AS SELECT a, b FROM T;
ByA(a INT) := SUBSCRIBE SELECT b FROM T WHERE a = :a;
Above(least INT) := SELECT a, b FROM T WHERE a >= :least;
"""
CATALOG = compile_script(SCRIPT).catalog
TABLES = {n: StoredTable(n, CATALOG.schema_of(n), fingerprint="test") for n in ("T", "Seen", "ByA")}
BOTH = pytest.mark.parametrize(
    ("client", "url"),
    [
        ("graphql-sse", "sqlite"),
        pytest.param("graphql-ws", "postgres", marks=pytest.mark.postgres),
        *at_night([("graphql-sse", "postgres"), ("graphql-ws", "sqlite")]),
    ],
    indirect=["url"],
)
SEEN = "subscription($after: Long) { seen(after: $after) { a b _seq } }"

Subscribe = Callable[..., NodeClient]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    return (
        str(request.getfixturevalue("postgres_url"))
        if request.param == "postgres"
        else f"sqlite:///{tmp_path}/store.db"
    )


@pytest.fixture
def commit(url: str) -> Iterator[Commit]:
    """Commits an epoch in which rows with these values of `a` come, and an event for each."""

    def row(name: str, n: int, a: int) -> dict[str, Any]:
        fixed = {"_op": "ADD", "_event_time": NOON, "_ingest_time": NOON}
        return {"_key": str(n), "_seq": n, "_uid": n, "b": f'"ü{n}"\n', "a": a, "_argument1": a, **fixed}

    yield from committing(url, TABLES, ("Seen", "ByA"), row)


@pytest.fixture
def serve(url: str) -> Iterator[Callable[..., Serving]]:
    """Starts the API; a server that was started before is ended, and the new one has its port."""
    running: list[Serving] = []

    def start(**settings: Any) -> Serving:
        port = running[-1].port if running else 0
        for former in running:
            former.close()
        running.append(start_api(CATALOG, url, port, processes=1, settings=settings))
        running[-1].wait_until_listening()
        return running[-1]

    yield start
    for each in running:
        each.close()


def seen(n: int, a: int) -> dict[str, Any]:
    return {"data": {"seen": {"a": a, "b": f'"ü{n}"\n', "_seq": n}}}


@BOTH
def test_every_operation(client: str, serve: Callable[..., Serving], commit: Commit, subscribe: Subscribe) -> None:
    commit(1, 2)
    url = f"{serve(token='s3cret').url}/graphql"
    given = {"token": "s3cret"}
    events = subscribe(client, url, SEEN, variables={"after": 1}, **given)
    assert events.next() == seen(2, 2)
    now = subscribe(client, url, "subscription { byA(a: 7) { _seq } }", **given)
    live = subscribe(client, url, "subscription($n: Int!) { above(least: $n) { a } }", variables={"n": 2}, **given)
    assert live.next()["data"] == {"above": [{"a": 2}]}
    assert now.reported() == ["connected", False]
    assert now.is_quiet()
    commit(7, 1)
    assert [events.next() for _ in range(2)] == [seen(3, 7), seen(4, 1)]
    assert now.next() == {"data": {"byA": {"_seq": 3}}}
    assert live.next()["data"] == {"above": [{"a": 2}, {"a": 7}]}
    commit(1)
    assert events.next() == seen(5, 1)
    assert live.is_quiet(), "its answer is the same"
    for each in (events, live):
        each.unsubscribe()
        assert each.reported() == ["complete", None]
    query = subscribe(client, url, "{ t(limit: 1) { a } }", **given)
    assert query.next()["data"] == {"t": [{"a": 1}]}
    assert query.reported() == ["complete", None]


@BOTH
def test_what_is_wrong_reaches_the_client(
    client: str, serve: Callable[..., Serving], commit: Commit, subscribe: Subscribe
) -> None:
    commit(1)
    url = f"{serve(token='s3cret').url}/graphql"
    for query, code in (
        ("subscription { nothing { a } }", "B8002"),
        ("subscription {", "B8001"),
        ("mutation { nothing { taken } }", "B8002"),
    ):
        wrong = subscribe(client, url, query, token="s3cret")
        if client == "graphql-sse":  # as an event: a status would hide what is wrong from an `EventSource`
            assert wrong.next()["errors"][0]["extensions"]["code"] == code
            assert wrong.reported() == ["complete", None]
        else:
            assert wrong.reported() == ["connected", False]
            what, errors = wrong.reported()
            assert (what, errors[0]["extensions"]["code"]) == ("error", code)
    for token in (None, "other"):
        unknown = subscribe(client, url, SEEN, token=token)
        assert unknown.reported() == ["error", 401 if client == "graphql-sse" else 4401]


@BOTH
def test_a_client_goes_on_when_the_server_comes_back(
    client: str, serve: Callable[..., Serving], commit: Commit, subscribe: Subscribe
) -> None:
    commit(1)
    url = f"{serve().url}/graphql"
    events = subscribe(client, url, SEEN, variables={"after": 0}, resume="after", retries=100)
    live = subscribe(client, url, "subscription { above(least: 3) { a } }", retries=100)
    assert events.next() == seen(1, 1)
    assert live.next()["data"] == {"above": []}
    serve()
    commit(2, 3)
    assert [events.next() for _ in range(2)] == [seen(2, 2), seen(3, 3)]
    while (found := live.next()["data"]) == {"above": []}:
        pass  # it asks anew
    assert found == {"above": [{"a": 3}]}
    assert events.is_quiet(), "no event comes twice"


def test_an_event_source_goes_on_from_its_last_event(
    serve: Callable[..., Serving], commit: Commit, subscribe: Subscribe
) -> None:
    serving = serve()
    everything = subscribe("eventsource", f"{serving.url}/streams/Seen/events?after=0")
    assert everything.reported() == ["connected", None], "before there is an epoch"
    commit(1)
    number, event = everything.next()
    assert (number, event["a"], event["_op"]) == ("1", 1, "ADD")
    chosen = subscribe("eventsource", f"{serving.url}/streams/ByA/events?a=7")
    assert chosen.reported() == ["connected", None]
    serve()
    commit(7, 8)
    assert [everything.next()[0] for _ in range(2)] == ["2", "3"]
    while not chosen.is_quiet():
        chosen.reported()  # it had no event, and comes again for those from then on
    commit(7)
    number, event = chosen.next()
    assert (number, event["b"]) == ("4", '"ü4"\n')
    assert everything.next()[0] == "4"
    wrong = subscribe("eventsource", f"{serving.url}/streams/T/events")
    assert wrong.reported() == ["error", 404]


def test_pings_and_equal_identities_of_a_websocket(
    serve: Callable[..., Serving], commit: Commit, subscribe: Subscribe
) -> None:
    commit(1)
    url = f"{serve().url}/graphql"
    kept = subscribe("graphql-ws", url, SEEN, keepAlive=50)
    assert kept.reported() == ["connected", False]
    assert [kept.reported() for _ in range(3)] == [["pong", None]] * 3
    twice = subscribe("graphql-ws", url, SEEN, twice=True)
    while (found := twice.reported())[0] == "connected":
        pass
    assert found == ["error", 4409]


def test_the_audits_of_graphql_over_http(serve: Callable[..., Serving], commit: Commit, node_folder: Path) -> None:
    commit(1)
    command = ["node", str(node_folder / "audit.mjs"), f"{serve().url}/graphql"]
    reported = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert json.loads(reported) == {"audits": 61, "failed": []}
