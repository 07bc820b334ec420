"""Foreign web pages: they can move nothing, and make no process work."""

from __future__ import annotations

from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.compiler import compile_script

STREAMS = compile_script("CREATE STREAM Bid (at TIMESTAMP, price INT, WATERMARK FOR at) KEEP 30 DAYS;").catalog
HOST = {"host": "localhost:8080"}
FOREIGN: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},
    {"origin": "http://[bad"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:3000"},
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
]
OWN: list[dict[str, str]] = [
    {},
    {"origin": "http://localhost:8080"},
    {"origin": "https://seen-by-a-proxy.example", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"origin": "https://app.example", "sec-fetch-site": "cross-site"},
]


def client(catalog: Any, reader: Any = None, **settings: Any) -> TestClient:
    origins = settings.pop("origins", ("https://app.example",))
    made = ServerSettings(origins=origins, hosts=frozenset({"localhost"}), **settings)
    return TestClient(Application(catalog, lambda: reader, made))


@pytest.mark.parametrize(
    "path", ["/streams/Bid", "/streams/Bid/open?producer=evil", "/streams/Bid/bound", "/streams/Bid/close"]
)
def test_a_foreign_page_moves_nothing(path: str) -> None:
    with client(STREAMS) as known, client(STREAMS, origins=("*",)) as anybody:
        for headers in FOREIGN:
            for asked in (known, anybody):
                answer = asked.post(path, headers=HOST | headers)
                assert (answer.status_code, answer.json()["code"]) == (403, "B8008"), headers
                assert answer.headers["content-type"] == "application/problem+json"
        for headers in OWN:
            assert known.post(path, headers=HOST | headers).status_code in (415, 503)  # no JSON, or nobody takes it in


def test_a_foreign_page_makes_no_process_work() -> None:
    reader = MemoryReader()
    asked = {"query": "{ things(limit: 1) { id } }"}
    with client(example.catalog(), reader) as known, client(example.catalog(), reader, origins=("*",)) as anybody:
        for headers in FOREIGN:
            assert known.get("/graphql", params=asked, headers=HOST | headers).status_code == 403
            assert known.post("/graphql", json=asked, headers=HOST | headers).status_code == 403
            assert anybody.post("/graphql", json=asked, headers=HOST | headers).status_code == 200
        for headers in OWN:
            assert known.post("/graphql", json=asked, headers=HOST | headers).status_code == 200
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert known.get("/graphql", params=asked, headers=HOST | link).status_code == 200
        assert known.post("/graphql", json=asked, headers=HOST | link).status_code == 403
        assert known.options("/graphql", headers=HOST | FOREIGN[0]).status_code == 204
    reader.close()


def test_a_named_page_asks_before_it_sends_json() -> None:
    page, stranger = "https://app.example", "https://evil.example"
    preflight = HOST | {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    with client(STREAMS, token="secret") as known, client(STREAMS, origins=("*", page)) as anybody:
        for path in ("/graphql", "/streams/Bid", "/streams/Bid/bound"):
            for asked in (known, anybody):
                answer = asked.options(path, headers=preflight | {"origin": page})
                assert answer.status_code == 200, path
                assert answer.headers["access-control-allow-origin"] in (page, "*")
                assert "content-type" in answer.headers["access-control-allow-headers"].lower()
            assert known.options(path, headers=preflight | {"origin": stranger}).status_code == 400
        assert anybody.options("/streams/Bid", headers=preflight | {"origin": stranger}).status_code == 400
        assert anybody.options("/graphql", headers=preflight | {"origin": stranger}).status_code == 200
        pushed = anybody.post("/streams/Bid", json=[], headers=HOST | {"origin": page})
        assert (pushed.status_code, pushed.headers["access-control-allow-origin"]) == (
            503,
            page,
        )  # the page can read why
        refused = known.post("/streams/Bid", json=[], headers=HOST | {"origin": page})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, page)
