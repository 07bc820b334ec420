"""The right of each route and method, listed a second time: a route that is missing here or differs fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.access.gate import FixedToken, ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.route_rights import Mount, Route
from belvedere.catalog.access import Right
from belvedere.compiler import compile_script

SCRIPT = """
CREATE STREAM Events (at TIMESTAMP NOT NULL, price INT) KEEP 30 DAYS;
CREATE STREAM bound (at TIMESTAMP NOT NULL, price INT) KEEP 30 DAYS;
CREATE TABLE graphql (id INT NOT NULL, PRIMARY KEY (id));
CREATE SUBSCRIPTION Told ON ADD AS SELECT price FROM Events;
"""
CATALOG = compile_script(SCRIPT).catalog
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY")
RIGHTS: dict[str, Right | None] = {
    "/": None,
    "/console": None,
    "/healthz": None,
    "/readyz": None,
    "/metrics": Right.STATUS,
    "/status": Right.STATUS,
    "/status/events": Right.STATUS,
    "/schema.graphql": Right.READ,
    "/openapi.json": Right.READ,
    "/lineage": Right.READ,
    "/lineage/{id:path}": Right.READ,
    "/rest": Right.READ,
    "/mcp": Right.READ,
    "/graphql": None,
    "/quarantine/retry": Right.ADMIN,
    "/streams/{name}/events": Right.READ,
    "/streams/{name}": Right.PUSH,
    "/streams/{name}/bound": Right.PUSH,
    "/streams/{name}/open": Right.PUSH,
    "/streams/{name}/close": Right.PUSH,
}
ENDLESS = {"/status/events"}
"""Streams without an end: only those who may not have them ask."""
TOKENS = {r.value: FixedToken(r.value, None, frozenset({r})) for r in Right}
SETTINGS = ServerSettings(token="everything", fixed=tuple(TOKENS.values()), origins=("*",))


@pytest.fixture(scope="module")
def application() -> Application:
    return Application(CATALOG, MemoryReader, SETTINGS)


@pytest.fixture(scope="module")
def client(application: Application) -> Iterator[TestClient]:
    with TestClient(application) as made:
        yield made


def addresses(path: str) -> list[str]:
    """Addresses of a route; names of streams are such that other routes could take them for their own."""
    if path in ("/rest", "/console"):
        return [f"{path}/x"]
    return [
        path.replace("{name}", n).replace("{id:path}", n)
        for n in ("Events", "events", "bound", "open", "nothing", "graphql")
    ]


def asked(client: TestClient, method: str, path: str, token: str | None, **headers: str) -> int:
    own = {} if token is None else {"authorization": f"Bearer {token}"}
    answer: Any = client.request(method, path, headers=own | headers)
    return int(answer.status_code)


def test_each_route_says_its_right(application: Application) -> None:
    assert {r.path: r.right if isinstance(r.right, Right) else None for r in application.routes} == RIGHTS
    assert all(isinstance(r, Route | Mount) for r in application.routes)


@pytest.mark.parametrize("path", RIGHTS)
def test_a_route_takes_its_right_by_every_method(client: TestClient, application: Application, path: str) -> None:
    route = next(r for r in application.routes if r.path == path)
    own = getattr(route, "methods", None) or METHODS
    for address in dict.fromkeys(addresses(path)):
        for method in METHODS:
            if method not in own and path.startswith("/streams"):
                continue  # another route takes it, if any
            for right in Right:
                status = (
                    asked(client, method, address, right.value)
                    if path not in ENDLESS or right is not RIGHTS[path]
                    else 200
                )
                refused = RIGHTS[path] is not None and right is not RIGHTS[path]
                assert (status == 403) == refused, (method, address, right, status)
            if path not in ENDLESS and not (path == "/" or path in ("/healthz", "/readyz", "/console")):
                assert asked(client, method, address, None) == 401, (method, address)


@pytest.mark.parametrize("name", ["Events", "events", "bound", "open", "close"])
def test_a_stream_whose_name_is_that_of_an_address_is_pushed_to_by_those_who_may(client: TestClient, name: str) -> None:
    for path in (f"/streams/{name}", f"/streams/{name}/bound", f"/streams/{name}/"):
        for right in (Right.READ, Right.STATUS):
            assert asked(client, "POST", path, right.value) in ((403,) if not path.endswith("/") else (403, 404)), path
        assert asked(client, "POST", path, "push") in (404, 415, 503), path


@pytest.mark.parametrize(
    "path", ["/streams/Events", "/streams/events", "/streams/Events/bound", "/streams/events/open"]
)
def test_no_foreign_page_pushes(client: TestClient, path: str) -> None:
    page = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    assert asked(client, "POST", path, "everything", **page) == 403
    wishes = page | {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    assert client.options(path, headers=wishes).status_code == 400
    assert asked(client, "GET", "/streams/Nothing/events", "everything", **page) == 404, "pages may read"


def test_what_is_not_there_is_told_as_everything_else(client: TestClient) -> None:
    own = {"authorization": "Bearer everything"}
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/status/", 404),
        ("POST", "/streams/Events/", 404),
        ("GET", "/console/__init__.py", 404),
        ("GET", "/console/__pycache__/x.pyc", 404),
        ("GET", "/console/editor/bundle.mjs", 404),
        ("GET", "/console/../pyproject.toml", 404),
        ("GET", "/console", 404),
        ("DELETE", "/status", 405),
        ("POST", "/console/app.js", 405),
    ):
        answer = client.request(method, path, headers=own | {"host": "evil.example"}, follow_redirects=False)
        assert answer.status_code == status, (method, path)
        assert "location" not in answer.headers
        assert answer.headers["content-type"] == "application/problem+json", (method, path)
        assert {"title", "status", "code", "message"} <= answer.json().keys()
    for path in ("/console/app.js", "/console/index.html", "/console/icon.svg", "/console/styles/base.css"):
        assert client.get(path).status_code == 200, path


def test_graphql_is_there_with_a_slash_too(client: TestClient) -> None:
    answer = client.post("/graphql/", json={"query": "{ __typename }"}, headers={"authorization": "Bearer read"})
    assert (answer.status_code, answer.json()["data"]) == (200, {"__typename": "Query"})
    assert (
        client.post("/graphql/", json={"query": "{ __typename }"}).json()["errors"][0]["extensions"]["code"] == "B8008"
    )


def test_a_request_names_one_host(client: TestClient) -> None:
    hosts = [("host", "testserver"), ("host", "evil.example")]
    for path in ("/healthz", "/graphql", "/rest/graphql", "/"):
        assert client.get(path, headers=hosts).status_code == 400, path
