"""Exports into another database and to addresses: what arrives, what comes twice, what is away, what refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from belvedere.connectors.exporting import exports
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings, Sink
from belvedere.workbench.workbench import Workbench

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE TABLE Machine (id INT NOT NULL, hall STRING, temp DOUBLE, at TIMESTAMP, price DECIMAL(8, 2), tags ARRAY<STRING>,
    PRIMARY KEY (id));
Hot := SELECT id, temp, hall, at, price, tags, id > 1 AS more FROM Machine WHERE temp > 100;
Halls := SELECT hall, count(*) AS n FROM Machine GROUP BY hall;
CREATE SUBSCRIPTION GotHot ON ADD AS SELECT id, temp FROM Machine WHERE temp > 100;
EXPORT Hot TO out.Hot;
EXPORT Halls TO out.Halls;
EXPORT GotHot TO out.GotHot;
"""


def bench(spark: Any, folder: Path, connector: str, **options: Any) -> Workbench:
    made = ProjectSettings(folder, sinks={"out": Sink("out", connector, options=options)})
    return Workbench(SCRIPT, spark=spark, project=made)


def row(id_: int, hall: str | None = "Süd", temp: float = 120.0, **more: Any) -> dict[str, Any]:
    return {"id": id_, "hall": hall, "temp": temp, **more}


def heat(wb: Workbench, *rows: dict[str, Any]) -> None:
    wb.insert("Machine", list(rows))
    wb.step()


def crash(*_: object) -> None:
    raise KeyboardInterrupt


# -- another database
# ----------------------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_a_table_holds_the_view(spark: Any, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wb = bench(spark, tmp_path, "postgres", url=postgres_url, names={"Halls": 'hall "ü" counts'})
    found = psycopg.connect(postgres_url, autocommit=True)

    def rows(table: str) -> list[Any]:
        return sorted(found.execute(f"SELECT * FROM {table}").fetchall(), key=str)

    full = row(1, at="2024-01-01 00:00:00", price="12.50", tags=["a\0", "é"])
    heat(wb, full, row(2, None, float("nan")), row(3, "Nord"), row(4, None, 5.0))
    (first, second, third) = rows('"Hot"')
    assert [str(v) for v in first] == [
        "1",
        "120.0",
        "Süd",
        "2024-01-01 00:00:00+00:00",
        "12.50",
        "['a�', 'é']",
        "False",
    ]
    assert (str(second[1]), second[2], third[2]) == ("nan", None, "Nord")
    assert rows('"hall ""ü"" counts"') == [("Nord", 1), ("Süd", 1), (None, 2)]
    assert [r[0] for r in rows('"GotHot"')] == [1, 2, 3]

    heat(wb, row(1, temp=130.0), row(3, None, 20.0))
    with monkeypatch.context() as patch:
        patch.setattr(exports.Exports, "_advance", crash)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, row(1, None, 140.0), row(5))
    wb.restart()
    assert [(r[0], r[1]) for r in rows('"Hot"') if r[0] != 2] == [(1, 140.0), (5, 120.0)]
    assert rows('"hall ""ü"" counts"') == [("Süd", 1), (None, 4)]
    assert sorted((r[0], r[2]) for r in rows('"GotHot"')) == [(1, "ADD"), (2, "ADD"), (3, "ADD"), (5, "ADD")]

    found.execute('ALTER TABLE "Hot" DROP COLUMN more')
    with pytest.raises(BelvedereError) as caught:
        heat(wb, row(6))
    assert caught.value.diagnostics[0].code == "B6221"
    assert "more" in str(caught.value.diagnostics[0].detail)
    found.execute('ALTER TABLE "Hot" ADD COLUMN more boolean')
    wb.restart()
    assert [r[0] for r in rows('"Hot"')] == [1, 2, 5, 6], "what was refused is sent after it was mended"
    wb.close()
    found.close()


@pytest.mark.postgres
def test_a_server_that_is_away_gets_the_rows_later(spark: Any, tmp_path: Path, own_postgres: Any) -> None:
    url = own_postgres.get_uri()
    wb = bench(spark, tmp_path, "postgres", url=url)
    heat(wb, row(1))
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    heat(wb, row(2))
    reported = wb.engine.exports.catch_up()
    assert reported
    assert all("does not answer" in t for t in reported)
    assert {n.away.failure.diagnostics[0].code for n in wb.engine.exports._lines if n.away.failure} == {"B6220"}
    assert set(wb.engine.exports.catch_up(wait=True)) == {'sink "out" accepts events again'}
    with psycopg.connect(url) as found:
        assert found.execute('SELECT id FROM "Hot" ORDER BY id').fetchall() == [(1,), (2,)]
    wb.close()


@pytest.mark.parametrize(
    ("connector", "options", "code"),
    [
        ("postgres", {}, "B6221"),
        ("http", {"url": "ftp://x"}, "B6231"),
    ],
)
def test_sinks_that_say_too_little(
    spark: Any, tmp_path: Path, connector: str, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(BelvedereError) as caught:
        bench(spark, tmp_path, connector, **options)
    assert caught.value.diagnostics[0].code == code


# -- addresses
# -----------------------------------------------------------------------------------------------------------


class Receiver:
    """Takes what is posted, and answers with the next status."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"because" if status >= 400 else b"")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def events(self, target: str) -> list[dict[str, Any]]:
        """Those that a receiver has that discards what comes twice."""
        once = {h["Belvedere-Id"]: b for h, b in self.requests if h["Belvedere-Target"] == target}
        return [json.loads(line) for body in once.values() for line in body.splitlines()]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.smoke("connector http")
def test_events_are_posted_with_an_id_and_a_signature(
    spark: Any, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors import http

    monkeypatch.setattr(http, "MAX_EVENTS", 2)
    wb = bench(spark, tmp_path, "http", url=receiver.url, secret="s3cret", headers={"Authorization": "Bearer x"})
    heat(wb, row(1), row(2), row(3))
    assert [(e["id"], e["_op"], e["_seq"]) for e in receiver.events("GotHot")] == [
        (1, "ADD", 1),
        (2, "ADD", 2),
        (3, "ADD", 3),
    ]
    headers, body = next(r for r in receiver.requests if r[0]["Belvedere-Target"] == "GotHot")
    assert headers["Authorization"] == "Bearer x"
    assert headers["Content-Type"] == "application/x-ndjson"
    when, made = (part.split("=")[1] for part in headers["Belvedere-Signature"].split(","))
    assert made == hmac.new(b"s3cret", f"{when}.".encode() + body, hashlib.sha256).hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(exports.Exports, "_advance", crash)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, row(4))
    wb.restart()
    heat(wb, row(5))
    assert [e["id"] for e in receiver.events("Hot")] == [1, 2, 3, 4, 5]
    wb.close()


def test_who_is_away_or_busy_gets_them_later_and_who_refuses_ends_the_run(
    spark: Any, tmp_path: Path, receiver: Receiver
) -> None:
    wb = bench(spark, tmp_path, "http", url=receiver.url)
    receiver.statuses = [503, 429, 500]
    heat(wb, row(1))
    reported = wb.engine.exports.catch_up()
    assert sorted(reported)[0].startswith('sink "out" does not accept events: 429 Too Many Requests')
    assert {n.away.failure.diagnostics[0].code for n in wb.engine.exports._lines if n.away.failure} == {"B6230"}
    wb.engine.exports.catch_up(wait=True)
    assert [e["id"] for e in receiver.events("GotHot")] == [1]
    receiver.statuses = [404]
    with pytest.raises(BelvedereError) as caught:
        heat(wb, row(2))
    (told_,) = caught.value.diagnostics
    assert (told_.code, told_.detail) == ("B6231", "because")
    wb.restart()
    assert [e["id"] for e in receiver.events("GotHot")] == [1, 2]
    receiver.server.shutdown()
    receiver.server.server_close()
    heat(wb, row(3))
    assert "refused" in wb.engine.exports.catch_up()[0]
    wb.close()
