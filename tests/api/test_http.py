"""The HTTP side: GraphQL over HTTP, readiness, metrics, the console, and what is refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.metrics import AllCounts, Metrics, shared_file
from belvedere.api.http.status import status_of
from belvedere.api.limits import Limits
from belvedere.api.serving import lazy_reader
from belvedere.compiler import compile_script
from belvedere.errors import fail
from belvedere.store.protocol import EpochRow
from belvedere.time.event_time import Clocks, send_bound
from belvedere.values.instants import instant, microseconds

CATALOG = example.catalog()


def client_of(reader: Any, **settings: Any) -> TestClient:
    return TestClient(Application(CATALOG, lambda: reader, ServerSettings(**settings)))


@pytest.fixture
def client(reader: MemoryReader) -> Iterator[TestClient]:
    reader.last_epoch = lambda: None  # type: ignore[attr-defined]
    with client_of(reader) as made:
        yield made


def test_post_and_get(client: TestClient) -> None:
    for answer in (
        client.post("/graphql", json={"query": "query A($n: Int) { things(limit: $n) { id } }", "variables": {"n": 1}}),
        client.get(
            "/graphql", params={"query": "query A($n: Int) { things(limit: $n) { id } }", "variables": '{"n": 1}'}
        ),
        client.post(
            "/graphql",
            json={"query": "query A { things(limit: 1) { id } } query B { things { id } }", "operationName": "A"},
        ),
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["data"] == {"things": [{"id": 1}]}
        assert answer.json()["extensions"]["epoch"] == 7


def test_the_newer_media_type_has_statuses(client: TestClient) -> None:
    wrong = {"query": "{ thing { id } }"}
    assert client.post("/graphql", json=wrong).status_code == 200
    answer = client.post("/graphql", json=wrong, headers={"accept": "application/graphql-response+json"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/graphql-response+json"
    assert "things" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"query": 5}', "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"query": "{ things { id } }", "variables": []}', "application/json", 400),
        (b'{"query": "{ things { id } }"}', "text/plain", 415),
        (b"query=1", "application/x-www-form-urlencoded", 415),
        (b'{"query": "' + b" " * 200_000 + b'"}', "application/json", 413),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
    ],
)
def test_bodies_that_are_refused(client: TestClient, content: bytes, media: str, status: int) -> None:
    answer = client.post("/graphql", content=content, headers={"content-type": media})
    assert answer.status_code == status
    assert answer.json()["errors"][0]["extensions"]["code"].startswith("B80")


def test_automatic_persisted_queries_are_refused_as_their_clients_expect(client: TestClient) -> None:
    extensions = {"persistedQuery": {"version": 1, "sha256Hash": "0" * 64}}
    for answer in (
        client.post("/graphql", json={"extensions": extensions, "variables": {}}),
        client.get("/graphql", params={"extensions": json.dumps(extensions)}),
    ):
        assert answer.status_code == 200
        assert answer.json()["errors"][0]["message"] == "PersistedQueryNotSupported"
    newer = {"accept": "application/graphql-response+json"}
    assert client.post("/graphql", json={"extensions": extensions}, headers=newer).status_code == 400
    with_text = {"query": "{ things(limit: 1) { id } }", "extensions": extensions}
    assert client.post("/graphql", json=with_text).json()["data"] == {"things": [{"id": 1}]}
    assert client.get("/graphql", params={"extensions": "{}"}).status_code == 400


def test_scalars_name_the_standards_of_their_forms(client: TestClient) -> None:
    asked = client.post("/graphql", json={"query": "{ __schema { types { name specifiedByURL } } }"}).json()
    reported = {t["name"]: t["specifiedByURL"] for t in asked["data"]["__schema"]["types"]}
    assert reported["DateTime"] == "https://www.rfc-editor.org/rfc/rfc3339#section-5.6"
    assert reported["JSON"] == "https://www.rfc-editor.org/rfc/rfc8259"
    assert reported["Long"] is None


def test_other_methods(client: TestClient) -> None:
    answer = client.delete("/graphql")
    assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (405, "B8007")
    assert client.get("/graphql").status_code == 400
    assert client.get("/nothing").status_code == 404


def test_subscriptions_of_nothing_are_refused(client: TestClient) -> None:
    error = client.post("/graphql", json={"query": "subscription { a }"}).json()["errors"][0]
    assert error["extensions"]["code"] == "B8002"


def test_readiness_follows_the_store(reader: MemoryReader) -> None:
    there: list[Any] = []

    def open_reader() -> Any:
        if not there:
            raise fail("B7001", "there is no store")
        return reader

    with TestClient(Application(CATALOG, open_reader)) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        answer = client.post("/graphql", json={"query": "{ things { id } }"})
        assert answer.status_code == 503
        assert answer.json()["errors"][0]["extensions"]["code"] == "B8005"
        there.append(True)
        assert client.post("/graphql", json={"query": "{ things(limit: 1) { id } }"}).json()["data"] == {
            "things": [{"id": 1}]
        }


def test_a_run_on_standby_answers_reads_and_is_not_ready(reader: MemoryReader) -> None:
    counts = AllCounts(descriptor := shared_file(1), 1)
    counts.set_standby(True)
    query = {"query": "{ things(limit: 1) { id } }"}
    with TestClient(Application(CATALOG, lambda: reader, metrics=Metrics(descriptor))) as client:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "standby\n")
        assert client.get("/healthz").status_code == 200
        assert client.post("/graphql", json=query).json()["data"] == {"things": [{"id": 1}]}
        assert client.get("/status").json()["standby"] is True
        assert "\nbelvedere_standby 1\n" in client.get("/metrics").text
        counts.set_standby(False)
        assert client.get("/readyz").status_code == 200
        assert "standby" not in client.get("/status").json()
        assert "\nbelvedere_standby 0\n" in client.get("/metrics").text


class Leaving(MemoryReader):
    """A store that can be reached or not, as `faults` says, and counts who tries."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: str | None = None
        self.tries = 0

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self.tries += 1
        if self.fault is not None:
            raise fail(self.fault, "the server at secret.example is gone")
        return super().execute(sql, parameters)

    def last_epoch(self) -> EpochRow | None:
        ((epoch, clock),) = self.execute("SELECT epoch, clock FROM _belvedere_epoch")
        return EpochRow(epoch, instant(clock))


@pytest.mark.parametrize("fault", sorted(lazy_reader.AWAY))
def test_a_store_that_is_away_is_asked_for_again_later(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = Leaving(), [0.0]
    application = Application(CATALOG, lambda: store)
    monkeypatch.setattr(application.served.store.reader, "_now", lambda: now[0])
    asked = {"query": "{ things(limit: 1) { id } }"}
    with TestClient(application) as client:
        assert client.post("/graphql", json=asked).status_code == 200
        store.fault = fault
        before = store.tries
        for _ in range(3):
            answer = client.post("/graphql", json=asked)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["errors"][0]["extensions"]["code"] == "B8013"
            assert "secret" not in answer.text
            assert application.served.status(None, CATALOG)["store"] == "away", "which `/status/events` goes on telling"
            for path in ("/readyz", "/status"):
                answer = client.get(path)
                assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "1", "B8013")
        assert store.tries == before + 1  # the others did not wait for it
        assert "belvedere_requests_total" in client.get("/metrics").text
        store.fault = None
        assert client.post("/graphql", json=asked).status_code == 503
        now[0] += 1.0
        assert client.post("/graphql", json=asked).status_code == 200
        assert client.get("/readyz").status_code == 200
        assert client.get("/status").json()["store"] == "here"


def test_a_store_that_is_away_from_the_start() -> None:
    def open_reader() -> Any:
        raise fail("B7005", "the Postgres server cannot be reached")

    with TestClient(Application(CATALOG, open_reader)) as client:
        answer = client.post("/graphql", json={"query": "{ things { id } }"})
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (503, "B8013")
        assert client.get("/healthz").status_code == 200


def test_metrics_count_requests(client: TestClient) -> None:
    client.post("/graphql", json={"query": "{ things { id } }"})
    client.post("/graphql", json={"query": "{ thing { id } }"})
    text = client.get("/metrics").text
    assert 'belvedere_requests_total{outcome="ok"} 1' in text
    assert 'belvedere_requests_total{outcome="refused"} 1' in text
    assert "belvedere_request_seconds_count 2" in text


def test_the_console_needs_no_other_host(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert client.get("/graphql", headers={"accept": "text/html"}).text == page.text
    todo = re.findall(r'(?:href|src)="console/([^"]+)"', page.text)
    assert {"app.js", "icon.svg", "styles/base.css"} <= set(todo)
    todo += [f"pages/{name}.js" for name in ("status", "views", "view", "lineage", "query", "push")]
    for name in todo:  # grows by what the modules import
        answer = client.get(f"/console/{name}")
        assert answer.status_code == 200, name
        if name == "editor/codemirror.js":  # its messages name pages to read
            continue
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text, name
        assert "http://" not in text, name
        folder = PurePosixPath(name).parent
        found = [os.path.normpath(folder / path) for path in re.findall(r'(?:from|import)\s*\(?"(\.[^"]+)"', text)]
        todo += [path for path in found if path not in todo]
    assert {"editor/codemirror.js", "rows/table.js", "graph/drawing.js"} <= set(todo)
    assert "type MonitoringGroup " in client.get("/schema.graphql").text


def test_a_token_guards_the_data(reader: MemoryReader) -> None:
    with client_of(reader, token="s3cret") as client:
        asked = {"query": "{ things(limit: 1) { id } }"}
        answer = client.post("/graphql", json=asked)
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (401, "B8008")
        assert client.post("/graphql", json=asked, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.post("/graphql", json=asked, headers={"authorization": "Bearer s3cret"}).status_code == 200
        assert client.get("/healthz").status_code == 200


def test_foreign_names_and_origins(reader: MemoryReader) -> None:
    with client_of(reader, hosts=frozenset({"localhost"}), origins=("https://app.example",)) as client:
        asked = {"query": "{ things(limit: 1) { id } }"}
        assert client.post("/graphql", json=asked, headers={"host": "evil.example"}).status_code == 421
        answer = client.post("/graphql", json=asked, headers={"host": "localhost:1", "origin": "https://app.example"})
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        answer = client.post("/graphql", json=asked, headers={"host": "localhost", "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


# limits


def refused(reader: Any, text: str, **limits: Any) -> str:
    with client_of(reader, limits=Limits(**limits)) as client:
        error = client.post("/graphql", json={"query": text}).json()["errors"][0]
        assert error["extensions"]["code"] in ("B8004", "B8001", "B8002"), error
        return str(error["message"])


def test_limits(reader: MemoryReader) -> None:
    deep = "{ monitoringGroup " + "{ hourReading { parent " * 10 + "{ groupid }" + " } }" * 10 + " }"
    assert "levels deep" in refused(reader, deep)
    assert "100 levels" in refused(reader, "{ a " * 5_000)
    assert "aliases" in refused(reader, "{" + "".join(f"a{i}: things {{ id }} " for i in range(101)) + "}")
    wide = (
        "{ monitoringGroup(limit: 1000) { hourReading(limit: 1000) { parent { hourReading(limit: 1000) { avg_temp "
        "} } } } }"
    )
    assert "costs" in refused(reader, wide)
    bomb = "{ things { ...F0 } } " + " ".join(
        f"fragment F{i} on Things {{ {' '.join(f'...F{i + 1}' for _ in range(9))} id }}" for i in range(8)
    )
    assert refused(reader, bomb + " fragment F8 on Things { id }", aliases=10, fields=50)
    assert "spread" in refused(reader, "{ things { ...A } } fragment A on Things { ...A }")
    assert "token" in refused(reader, "{ things { " + "id " * 6_000 + "} }").lower()
    assert "bytes" in refused(reader, "{ things { id name } }", answer=10)


# injection


@pytest.mark.parametrize(
    "value",
    ["'; DROP TABLE Things; --", '" OR 1=1 --', "\\", "%_\\\\", "\u0000", "'||(SELECT 1)||'", "?1", "$1", "\x000\x00"],
)
def test_values_never_become_sql(client: TestClient, value: str) -> None:
    for operator in ("eq", "like", "ilike", "startsWith", "contains"):
        text = f"query($v: String) {{ things(filter: {{name: {{{operator}: $v}}}}) {{ id }} }}"
        answer = client.post("/graphql", json={"query": text, "variables": {"v": value}}).json()
        literal = client.post(
            "/graphql", json={"query": text.replace("query($v: String) ", "").replace("$v", json.dumps(value))}
        ).json()
        assert literal.get("data") == answer.get("data")
        assert answer.get("data", {"things": []})["things"] == [] or value in ("%_\\\\",)


@pytest.mark.parametrize("name", ['things"; DROP', "things(filter: {x'y: 1})", "_belvedere_epoch", "sqlite_master"])
def test_names_come_from_the_catalog_only(client: TestClient, reader: MemoryReader, name: str) -> None:
    before = len(reader.statements)
    assert "errors" in client.post("/graphql", json={"query": f"{{ {name} {{ id }} }}"}).json()
    assert (
        "errors"
        in client.post("/graphql", json={"query": "{ things(order: $o) { id } }", "variables": {"o": name}}).json()
    )
    assert len(reader.statements) == before


def test_aliases_are_quoted_as_json_only(client: TestClient, reader: MemoryReader) -> None:
    alias = "a" * 300
    answer = client.post("/graphql", json={"query": f"{{ {alias}: things(limit: 1) {{ {alias}: id }} }}"}).json()
    assert answer["data"] == {alias: [{alias: 1}]}


def test_times_beyond_those_of_python_are_shown() -> None:
    """A bound of the year 9999 is one of the year 10000 for a window of ten minutes behind it."""
    script = """
    CREATE STREAM T (at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
    V := SELECT wend, count(*) AS n FROM Tumble(data => TABLE(T), timecol => DESCRIPTOR(at), dur => INTERVAL '1' DAY)
        GROUP BY wend;
    """
    catalog = compile_script(script).catalog
    last = microseconds(datetime.max.replace(tzinfo=UTC))
    for bound, shown in (
        (last, "9999-12-31T23:59:59.999999Z"),
        (last + 1, "+10000-01-01T00:00:00Z"),
        (-(10**17), "-1199-02-15T14:13:20Z"),
    ):
        clocks = send_bound(Clocks(), catalog.inputs["T"], "at", bound, 0, None, False)
        row = EpochRow(1, instant(0), bounds=clocks.as_document())
        found = status_of(catalog, row, True)
        assert found["inputs"][0]["event_time"][0]["watermark"] == shown
        assert all(f["below"] for v in found["views"] for f in v["final"])


def test_every_address_answers_an_unexpected_error_as_a_problem(
    reader: MemoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **named: Any) -> Any:
        raise OverflowError("date value out of range")

    application = Application(CATALOG, lambda: reader, heals=True)
    with TestClient(application) as client:
        for name in ("last_epoch", "in_planner"):
            monkeypatch.setattr(application.served.store, name, broken)
        monkeypatch.setattr(application.served.roles, "view_of", broken)
        for method, path in (
            ("GET", "/status"),
            ("GET", "/metrics"),
            ("GET", "/readyz"),
            ("GET", "/schema.graphql"),
            ("GET", "/openapi.json"),
            ("GET", "/streams/Events/events"),
            ("POST", "/quarantine/retry"),
        ):
            answer = client.request(method, path)
            assert (answer.status_code, answer.headers["content-type"], path) == (500, "application/problem+json", path)
            assert (answer.json()["code"], answer.json()["status"]) == ("B8009", 500)
            assert "out of range" not in answer.text
        assert "B8009" in client.post("/graphql", json={"query": "{ things { id } }"}).text


def test_an_error_before_any_route_is_a_problem(reader: MemoryReader, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(reader) as client:
        application: Any = client.app

        def broken(*given: Any) -> Any:
            raise KeyError("x")

        monkeypatch.setattr(application._gate, "enter", broken)
        answer = client.get("/status")
        assert (answer.status_code, answer.json()["code"]) == (500, "B8009")
