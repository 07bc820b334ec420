"""`belvedere serve`: the API alone over an existing store."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pyarrow as pa
import pytest

from belvedere.compiler import compile_script
from belvedere.store import EpochRow, StoredTable, open_store

SCRIPT = """
CREATE TABLE Machines (machineid INT NOT NULL, name STRING, PRIMARY KEY (machineid));
Named(prefix STRING) := SELECT machineid, name FROM Machines WHERE name = :prefix;
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "machines.sqrl"
    path.write_text(SCRIPT)
    catalog = compile_script(SCRIPT).catalog
    schema = catalog.schema_of("Machines")
    table = StoredTable("Machines", schema, fingerprint="test")
    store = open_store(f"sqlite:///{tmp_path / 'machines.db'}")
    store.create([table])
    store.acquire("test", 60)
    transaction = store.begin()
    row = dict.fromkeys(table.arrow.names) | {"machineid": 7, "name": "Mill Saw", "_key": "7", "_uid": 1}
    row["_ingest_time"] = datetime(2024, 1, 1, tzinfo=UTC)
    transaction.append("Machines", pa.Table.from_pylist([row], schema=table.arrow).to_reader())
    transaction.commit(EpochRow(0, datetime(2024, 1, 1, tzinfo=UTC)))
    store.release("test")
    store.close()
    return path


def serve(script: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "belvedere.cli", "serve", str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ask(url: str, text: str) -> Any:
    request = Request(f"{url}/graphql", json.dumps({"query": text}).encode(), {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(request, timeout=10) as answer:
        return json.load(answer)["data"]


def test_serve_answers_until_it_is_stopped(script: Path) -> None:
    running = serve(script, "--port", "0", "--json")
    assert running.stdout is not None
    url = json.loads(running.stdout.readline())["url"]
    assert ask(url, "{ machines { machineid name } }") == {"machines": [{"machineid": 7, "name": "Mill Saw"}]}
    assert ask(url, '{ named(prefix: "Mill Saw") { machineid } }') == {"named": [{"machineid": 7}]}
    running.send_signal(signal.SIGINT)
    assert running.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--host", "0.0.0.0", "--port", "0"), "B8010"), (("--store", "sqlite:////nowhere/x.db"), "B7001")],
)
def test_what_serve_refuses(script: Path, arguments: tuple[str, ...], code: str) -> None:
    running = serve(script, *arguments)
    _, reported = running.communicate(timeout=60)
    assert running.returncode == 1
    assert code in reported
    assert "Traceback" not in reported
