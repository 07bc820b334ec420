"""Safety of a server on a network: no request blocks others, limits of rate and time, headers, an orderly shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import api_example as example
import httpx
import pytest
import uvicorn
from api_reader import MemoryReader
from joserfc import jwt
from joserfc.jwk import OctKey
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.access.rates import Rates
from belvedere.api.access.tokens import LEEWAY, TokenRules
from belvedere.api.failures import RequestError
from belvedere.api.http import connections, push_bodies
from belvedere.api.http.application import Application
from belvedere.api.http.connections import Connection
from belvedere.api.http.push_bodies import MAX_ROW_LENGTH, elements
from belvedere.api.limits import Limits
from belvedere.api.live import websockets
from belvedere.api.serving.processes import server_settings, start_api
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.intake.request_rows import REFUSED_MOST

CATALOG = example.catalog()
ASKED = {"query": "{ things(limit: 1) { id } }"}
NEW = {"accept": "application/graphql-response+json"}


def client_of(reader: Any = None, **settings: Any) -> TestClient:
    return TestClient(Application(CATALOG, lambda: reader or MemoryReader(), ServerSettings(**settings)))


def test_what_is_seen_for_the_first_time_is_planned_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(CATALOG, MemoryReader)
    where: list[str] = []
    for name in ("_read", "_plan"):
        found = getattr(application.served.roles.all.api.operations, name)

        def noted(*given: Any, found: Any = found) -> Any:
            where.append(threading.current_thread().name)
            return found(*given)

        monkeypatch.setattr(application.served.roles.all.api.operations, name, noted)
    with TestClient(application) as client:
        for limit in (1, 2):
            query = f"query($f: ThingsFilter) {{ things(limit: {limit}, filter: $f) {{ id }} }}"
            for variables in ({}, {"f": {"id": {"eq": 1}}}):
                answer = client.post("/graphql", json={"query": query, "variables": variables})
                assert answer.json()["data"]["things"][0] == {"id": 1}
    assert len(where) == 3, "literals alone make no new plan"
    assert all(name.startswith("plan") for name in where)


@pytest.mark.parametrize("extensions", ["x", 0, False, ["x"]])
def test_extensions_are_an_object(extensions: Any) -> None:
    with client_of() as client:
        asked = {**ASKED, "extensions": extensions}
        assert client.post("/graphql", json=asked).status_code == 400
        assert client.get("/graphql", params={**asked, "extensions": json.dumps(extensions)}).status_code == 400
        assert client.post("/graphql", json={**ASKED, "extensions": {"a": 1}}).json()["data"]


def test_refusals_have_their_headers() -> None:
    with client_of(token="s3cret") as client:
        for path in ("/graphql", "/streams/T", "/status", "/schema.graphql", "/metrics", "/whatever"):
            none = client.get(path)
            wrong = client.get(path, headers={"authorization": "Bearer x"})
            assert (none.status_code, none.headers["www-authenticate"]) == (401, 'Bearer realm="belvedere"'), path
            assert wrong.headers["www-authenticate"] == 'Bearer realm="belvedere", error="invalid_token"'
        assert client.get("/healthz").status_code == client.get("/").status_code == 200
    with client_of() as client:
        assert client.delete("/graphql").headers["allow"] == "GET, POST, OPTIONS"
        assert client.options("/graphql").status_code == 204
        assert set(client.delete("/status").headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_pages_of_known_origins_may_ask_everywhere() -> None:
    headers = {"origin": "https://app.example"}
    with client_of(origins=("https://app.example",)) as client:
        for path in ("/graphql", "/status", "/metrics", "/healthz", "/schema.graphql", "/streams/T", "/nothing"):
            asked = {
                **headers,
                "access-control-request-method": "GET",
                "access-control-request-headers": "authorization",
            }
            for answer in (client.options(path, headers=asked), client.get(path, headers=headers)):
                assert answer.headers["access-control-allow-origin"] == "https://app.example", path


def test_a_get_has_a_tag_of_its_epoch(reader: Any) -> None:
    with client_of(reader) as client:
        first = client.get("/graphql", params=ASKED)
        tag = first.headers["etag"]
        assert tag.startswith('W/"7-')
        assert "Authorization" in first.headers["vary"]
        for known in (tag, f'"x", {tag}', tag.removeprefix("W/")):
            again = client.get("/graphql", params=ASKED, headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get("/graphql", params=ASKED, headers={"if-none-match": '"7"'}).status_code == 200
        assert "etag" not in client.post("/graphql", json=ASKED).headers
        wrong = client.get("/graphql", params={"query": "{ thing }"}, headers={"if-none-match": tag, **NEW})
        assert wrong.status_code == 400


def test_long_answers_are_compressed() -> None:
    query = {"query": "{ monitoringGroup { hourReading { time_hour avg_temp max_temp } } }"}
    with client_of() as client:
        plain = client.post("/graphql", json=query, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert (
            "content-encoding"
            not in client.post("/graphql", json=query, headers={"accept-encoding": "gzip;q=0"}).headers
        )
        with client.stream("POST", "/graphql", json=query, headers={"accept-encoding": "br, gzip"}) as answer:
            raw = b"".join(answer.iter_raw())
        assert (answer.headers["content-encoding"], int(answer.headers["content-length"])) == ("gzip", len(raw))
        assert json.loads(gzip.decompress(raw))["data"] == plain.json()["data"]
        assert len(raw) < len(plain.content) / 3
        assert "content-encoding" not in client.post("/graphql", json=ASKED).headers


def test_rates() -> None:
    now = [0.0]
    rates = Rates(2, lambda: now[0])
    assert [rates.wait("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    assert rates.wait("b") == 0.0
    now[0] = 0.5
    assert [rates.wait("a"), rates.wait("a")] == [0.0, 0.5]
    now[0] = 100.0
    assert [rates.wait("a") for _ in range(3)] == [0.0, 0.0, 0.5]


def test_who_asks_too_often_waits() -> None:
    with client_of(per_address=2) as client:
        statuses = [client.post("/graphql", json=ASKED).status_code for _ in range(4)]
        assert statuses[:2] == [200, 200]
        refused = client.post("/graphql", json=ASKED)
        assert 429 in (*statuses, refused.status_code)
        assert refused.status_code == 200 or refused.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
    bearer = {"authorization": "Bearer s3cret"}
    with client_of(token="s3cret", per_token=1) as client:
        found = [client.post("/graphql", json=ASKED, headers=bearer).status_code for _ in range(3)]
        assert found[0] == 200
        assert 429 in found


@pytest.mark.parametrize("settings", [{"per_address": 3}, {"token": "s3cret", "per_token": 3}])
def test_operations_of_a_websocket_count_each(settings: Any) -> None:
    with client_of(**settings) as client, client.websocket_connect("/graphql", [websockets.PROTOCOL]) as socket:
        socket.send_json({"type": "connection_init", "payload": {"authorization": "Bearer s3cret"}})
        assert socket.receive_json()["type"] == "connection_ack"
        found = []
        for n in range(8):
            socket.send_json({"type": "subscribe", "id": str(n), "payload": ASKED})
            found.append(socket.receive_json())
            assert found[-1]["type"] == "error" or socket.receive_json()["type"] == "complete"
        assert found[0]["payload"]["data"] == {"things": [{"id": 1}]}
        assert "too many requests" in [f["payload"][0]["message"] for f in found if f["type"] == "error"]


def test_operations_of_a_websocket_end_with_the_token() -> None:
    rules = TokenRules("x" * 32)
    token = jwt.encode({"alg": "HS256"}, {"exp": int(time.time()) - LEEWAY + 2}, OctKey.import_key("x" * 32))
    with client_of(tokens=rules) as client, client.websocket_connect("/graphql", [websockets.PROTOCOL]) as socket:
        socket.send_json({"type": "connection_init", "payload": {"authorization": f"Bearer {token}"}})
        assert socket.receive_json()["type"] == "connection_ack"
        for n in range(600):
            socket.send_json({"type": "subscribe", "id": str(n), "payload": ASKED})
            found = socket.receive_json()
            if found["type"] == "error":
                break
            assert socket.receive_json()["type"] == "complete"
            time.sleep(0.02)
        assert found["payload"][0]["message"] == "this request carries no valid token"


def test_settings_of_rates() -> None:
    public = {"token": "s3cret"}
    assert server_settings("127.0.0.1", {}).per_address is None
    assert server_settings("0.0.0.0", public).per_address == 200
    made = server_settings("0.0.0.0", public | {"max_requests_per_address": 7, "max_requests_per_token": 9})
    assert (made.per_address, made.per_token) == (7, 9)


def test_settings_of_connections_to_the_store() -> None:
    assert server_settings("127.0.0.1", {}).connections == 8
    assert server_settings("127.0.0.1", {"store_connections": 3}).connections == 3


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, {"b": [2, "]"]}]', " [1,2 , 3]\n", "[]", "[ ]", '{"a": []}', '["x"]', "5", "[[1], []]"]
)
def test_an_array_is_read_row_by_row(text: str) -> None:
    assert elements(text, 100) == json.loads(text)
    assert len(elements("[1,2,3]", 1)) == 2


@pytest.mark.parametrize("text", ["[1,]", "[1", "[1 2]", "[1]]", "[,1]", "[1],", "", "[", "[1,,2]", "x", "[{]"])
def test_a_broken_array_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its text is not told
        elements(text, 100)


@pytest.mark.parametrize("window", [80, 100, 200])
def test_an_array_is_read_by_windows(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the window cuts; what is no JSON is refused as ever."""
    monkeypatch.setattr(push_bodies, "MAX_ROW_LENGTH", window)
    values = [1, -2.5, 1e-7, "ü,]\\", "", None, True, 2**60, {"a": [1, "b"]}, [[], {}], "🎈"]
    for number in range(400):
        rows = [values[(number * 7 + i * i) % len(values)] for i in range(number % 30)]
        text = json.dumps(rows, indent=(None, 1)[number % 2], ensure_ascii=number % 3 == 0)
        assert elements(text, 100) == rows
        for broken in (text[:-1], text[:-1] + ",]", text + "x", text[:-1] + "}"):
            with contextlib.suppress(RequestError), pytest.raises(ValueError):  # noqa: PT011 - its text is not told
                assert elements(broken, 100) == json.loads(broken)


def test_rows_that_are_too_long_or_do_not_fit_are_refused() -> None:
    streams = compile_script("CREATE STREAM Bid (item STRING) KEEP 30 DAYS;").catalog
    row = {"item": "ü" * MAX_ROW_LENGTH}
    with TestClient(Application(streams, MemoryReader)) as client:

        def status(body: str, media: str = "application/json") -> tuple[int, str]:
            answer = client.post("/streams/Bid", content=body.encode(), headers={"content-type": media})
            return answer.status_code, answer.json()["title"]

        too_long = (413, f"a row has more than {MAX_ROW_LENGTH} characters")
        assert status(json.dumps(row, ensure_ascii=False)) == too_long
        assert status(json.dumps([{"item": "a"}] * 10 + [row], ensure_ascii=False)) == too_long
        assert status('{"item": "a"}\n\n' + json.dumps(row, ensure_ascii=False), "application/x-ndjson") == too_long
        message = f'more than {REFUSED_MOST} rows do not fit "Bid": none was accepted'
        assert status("[" + "0," * REFUSED_MOST + "0]") == (422, message)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server with short patience."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.21)
    listener = socket.create_server(("127.0.0.1", 0))
    application = Application(CATALOG, MemoryReader)
    server = uvicorn.Server(uvicorn.Config(application, http=Connection, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def said(port: int, *parts: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        while more := connection.recv(65536):
            found += more
    return found


def test_slow_and_large_requests_are_cut_off(port: int) -> None:
    assert said(port).startswith(b"HTTP/1.1 408")
    assert said(port, b"GET / HTTP/1.1\r\nhost: x\r\n").startswith(b"HTTP/1.1 408")
    headers = [b"a%d: %s\r\n" % (n, b"x" * 900) for n in range(100)]
    for sent in (headers, [b"".join(headers)], [b"".join(headers) + b"\r\n"], [b"a: %s\r\n\r\n" % (b"x" * 200_000)]):
        large = said(port, b"GET / HTTP/1.1\r\nhost: x\r\n", *sent)
        assert large.startswith(b"HTTP/1.1 431"), "however its head comes"
        assert json.loads(large.partition(b"\r\n\r\n")[2])["code"] == "B8004"
    for words in (b"", b"connection: upgrade\r\nupgrade: websocket\r\n"):
        long = said(port, b"GET /graphql?query=%s HTTP/1.1\r\nhost: x\r\n%b\r\n" % (b"x" * 70_000, words))
        assert long.startswith(b"HTTP/1.1 414"), words
        assert json.loads(long.partition(b"\r\n\r\n")[2])["status"] == 414
    assert said(port, b"nonsense\r\n\r\n").partition(b"\r\n\r\n")[2].startswith(b'{"title": "the request is not HTTP"')
    most = connections.HEAD_BYTES - len(b"/healthzhost: xconnection: closea: ") - 12
    head = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\na: %s\r\n\r\n"
    assert said(port, head % (b"x" * most)).startswith(b"HTTP/1.1 200")
    assert said(port, head % (b"x" * (most + 20))).startswith(b"HTTP/1.1 431")
    head = (
        b"POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: "
        b"close\r\ncontent-length: 50\r\n\r\n"
    )
    assert said(port, head, b'{"query"').startswith(b"HTTP/1.1 408")
    kept = said(
        port,
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    assert kept.count(b"200 OK") == 2


def test_one_connection_too_many_is_refused(port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as one:
        one.get("/healthz")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as two:
            two.get("/healthz")
            assert said(port).startswith(b"HTTP/1.1 503")


class Slow(MemoryReader):
    """A store whose reads take until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self.asked.set()
        self.go.wait(20)
        return super().execute(sql, parameters)


def test_an_end_answers_what_is_under_way() -> None:
    reader = Slow()
    application = Application(CATALOG, lambda: reader)

    async def check() -> None:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            first = asyncio.create_task(http.post("/graphql", json=ASKED))
            await asyncio.to_thread(reader.asked.wait)
            ending = asyncio.create_task(application.end(20))
            await asyncio.sleep(0)
            for path in ("/graphql", "/status", "/streams/T"):
                late = await http.get(path)
                assert (late.status_code, late.headers["retry-after"]) == (503, "1")
                assert "B8015" in late.text
            assert not first.done()
            assert not ending.done()
            reader.go.set()
            assert (await first).json()["data"] == {"things": [{"id": 1}]}
            await ending

    asyncio.run(check())


def test_processes_answer_before_they_end(sqlite_file: str) -> None:
    """A request whose body comes when the processes were already told to end."""
    head = b"POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    body = json.dumps(ASKED).encode()
    with start_api(CATALOG, sqlite_file, processes=1) as api:
        api.wait_until_listening()
        with socket.create_connection(("127.0.0.1", api.port), timeout=20) as connection:
            connection.sendall(head % len(body))
            httpx.get(f"{api.url}/healthz", trust_env=False)  # the head was read by now
            api.supervisors[0].close()
            while httpx.get(f"{api.url}/healthz", trust_env=False).status_code == 200:
                pass
            connection.sendall(body)
            answered = b"".join(iter(lambda: connection.recv(65536), b""))  # the server closes when it has answered
            assert b'{"things":[{"id":1}]}' in answered


def test_all_settings_are_checked(tmp_path: Any) -> None:
    text = '[api]\nmax_requests_per_address = 0\nmax_requests_per_token = "x"\nmax_requests = 5\n'
    (tmp_path / "belvedere.toml").write_text(text)
    codes = [d.code for d in load_project(tmp_path).diagnostics]
    assert sorted(codes) == ["B9103", "B9104", "B9104"]


def test_a_script_of_streams_takes_long_arrays() -> None:
    streams = compile_script("CREATE STREAM Bid (price INT) KEEP 30 DAYS;").catalog
    with TestClient(Application(streams, MemoryReader, ServerSettings(limits=Limits(push_rows=3)))) as client:
        many = json.dumps([{"price": 1}] * 20_000)
        answer = client.post("/streams/Bid", content=many, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (413, "B8004")
