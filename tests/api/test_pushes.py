"""Pushes over HTTP through serving processes: statuses, hints, and the examples of docs/reference/pushes.md."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.status import status_of
from belvedere.api.limits import Limits
from belvedere.api.serving.processes import start_api
from belvedere.compiler import compile_script
from belvedere.errors import fail
from belvedere.intake.ingest_service import IngestService
from belvedere.intake.journal import JournalPosition
from belvedere.intake.wire import IngestServer
from belvedere.store.protocol import EpochRow
from belvedere.time.event_time import Clocks
from belvedere.time.producers import StreamClock, bounded, closed, opened

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pushes.md"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRIPT = "CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime) KEEP 30 DAYS;\n"


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(PAGE.read_text())


class Service:
    """Serving processes and the desk behind them."""

    def __init__(self, folder: Path, script: str, processes: int = 2):
        self.catalog = compile_script(script).catalog
        self.ingest_service = IngestService(self.catalog, folder / "j", Clocks(), JournalPosition())
        self.server = IngestServer(self.ingest_service)
        self.api = start_api(
            self.catalog, f"sqlite:///{folder / 'none.db'}", processes=processes, ingest_service=self.server
        )
        self.api.wait_until_listening()

    def close(self) -> None:
        self.api.close()
        self.server.close()
        self.ingest_service.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    script = next(text for language, text in blocks() if language == "sql")
    made = Service(tmp_path, script)
    yield made
    made.close()


@pytest.mark.smoke("way push")
def test_the_examples_of_the_page(service: Service) -> None:
    found = blocks()
    examples = [(text, found[n + 1][1]) for n, (language, text) in enumerate(found) if language == "sh"]
    assert len(examples) == 5
    for commands, expected in examples:
        lines = commands.replace("localhost:8080", f"localhost:{service.api.port}")
        done = subprocess.run(["bash", "-ec", lines], capture_output=True, text=True, timeout=60, check=True)
        printed = [json.loads(line) for line in done.stdout.replace("}{", "}\n{").splitlines()]
        assert printed[-1] == json.loads(expected), commands
    counts = service.ingest_service.waiting().clocks.counts
    assert (counts["Bid"].used, counts["Bid"].malformed, counts["Items"].used) == (3, 2, 3)


def test_clients_at_once_are_all_answered_and_taken_once(service: Service) -> None:
    """Many connections to both processes; keys repeated by several."""
    answers: list[int] = []

    def send(client: int) -> None:
        with httpx.Client(base_url=service.api.url, trust_env=False) as http:
            for number in range(25):
                row = {"bidtime": "2020-01-01T08:00:00Z", "price": number, "item": f"c{client % 4}"}
                given = http.post("/streams/bid", params={"id": f"{client % 4}-{number}"}, json=row)
                answers.append(given.status_code)

    threads = [threading.Thread(target=send, args=(c,)) for c in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [200] * 200
    (rows,) = service.ingest_service.waiting().arrivals(service.catalog).values()
    assert sorted(zip(rows["item"].to_pylist(), rows["price"].to_pylist(), strict=True)) == sorted(
        (f"c{c}", n) for c in range(4) for n in range(25)
    )


def test_a_desk_that_ends_is_told(service: Service) -> None:
    service.server.close()
    for _ in range(2):
        answer = httpx.post(f"{service.api.url}/streams/Bid", json={"price": 1}, trust_env=False)
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] in ("B8030", "B8034")


@pytest.fixture
def client() -> TestClient:
    def no_store() -> Any:
        raise fail("B7001", "there is no store")

    project_free = compile_script(SCRIPT).catalog
    return TestClient(
        Application(project_free, no_store, ServerSettings(limits=Limits(push=1000, push_rows=3), token="secret"))
    )


@pytest.mark.parametrize(
    ("path", "content", "media", "status", "code"),
    [
        ("/streams/Bod", b"[]", "application/json", 404, "B6012"),
        ("/streams/LATE(Bid)", b"[]", "application/json", 404, "B6012"),
        ("/streams/Bid", b"[]", "text/plain", 415, "B8007"),
        ("/streams/Bid", b"a=1", "application/x-www-form-urlencoded", 415, "B8007"),
        ("/streams/Bid", b" " * 1001, "application/json", 413, "B8004"),
        ("/streams/Bid", b"[1, 1, 1, 1]", "application/json", 413, "B8004"),
        ("/streams/Bid", b"1\n" * 4, "application/x-ndjson", 413, "B8004"),
        ("/streams/Bid", b"1\n" * 3, "application/x-ndjson", 503, "B8030"),
        ("/streams/Bid", b"[1", "application/json", 400, "B8007"),
        ("/streams/Bid", b"\xff", "application/json", 400, "B8007"),
        ("/streams/Bid", b"[" * 900, "application/json", 400, "B8007"),
        ("/streams/Bid?producer=" + "p" * 300, b"[]", "application/json", 422, "B8007"),
        ("/streams/Bid/bound", b"{}", "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b"[]", "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "soon"}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": 1e300}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"time": "2020-01-01"}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "2020-01-01", "strict": 1}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "2020-01-01", "column": 1}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "2020-01-01", "column": []}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "2020-01-01", "column": {}}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "0001-01-01T00:00:00+23:59"}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b'{"at": "2020-01-01", "producer": 1}', "application/json", 422, "B5025"),
        ("/streams/Bid/bound", b"{", "application/json", 400, "B8007"),
        ("/streams/Bid", b"[]", "application/json", 503, "B8030"),
        ("/streams/Bid/close", b"", "", 503, "B8030"),
    ],
)
def test_what_is_refused(client: TestClient, path: str, content: bytes, media: str, status: int, code: str) -> None:
    headers = {"content-type": media, "authorization": "Bearer secret"}
    answer = client.post(path, content=content, headers=headers)
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert answer.json()["title"]


def test_pushes_and_status_need_the_token(client: TestClient) -> None:
    assert client.post("/streams/Bid", json=[]).status_code == 401
    assert client.get("/status").status_code == 401
    assert client.get("/streams/Bid", headers={"authorization": "Bearer secret"}).status_code == 405
    assert client.get("/status", headers={"authorization": "Bearer secret"}).json()["takes_pushes"] is False


def test_the_nearest_name_is_a_hint(client: TestClient) -> None:
    answer = client.post("/streams/Bids", json=[], headers={"authorization": "Bearer secret"})
    assert "`Bid`" in answer.json()["hint"]


def test_status_before_the_first_epoch() -> None:
    (bid,) = status_of(compile_script(SCRIPT).catalog, None, True)["inputs"]
    assert bid["event_time"] == [
        {"column": "bidtime", "watermark": None, "assumed": False, "held_back_by": [], "producers": []}
    ]


def test_status_names_who_holds_a_stream_back_and_accounts_for_rows() -> None:
    hour = 3_600_000_000
    clock = bounded(bounded(opened(StreamClock(), "p3", None, 0), "p1", 8 * hour, 0), "p2", 9 * hour, 0)
    clocks = Clocks().with_clock("Bid", "bidtime", closed(clock, "p3", 0)).counted("Bid", given=7, late=2, malformed=1)
    row = EpochRow(3, datetime(2020, 1, 1, tzinfo=UTC), bounds=json.loads(json.dumps(clocks.as_document())))
    (bid,) = status_of(compile_script(SCRIPT).catalog, row, True)["inputs"]
    assert bid["rows"] == {"in": 7, "used": 4, "late": 2, "malformed": 1}
    (time,) = bid["event_time"]
    assert (time["watermark"], time["held_back_by"]) == ("1970-01-01T08:00:00Z", ["p1"])
    assert {p["producer"]: p["bound"] for p in time["producers"]} == {
        "p1": "1970-01-01T08:00:00Z",
        "p2": "1970-01-01T09:00:00Z",
    }
