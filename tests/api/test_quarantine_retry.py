"""`belvedere quarantine`: what stands still, and asking a run to try it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.access.gate import FixedToken, ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.metrics import AllCounts, Metrics, shared_file
from belvedere.catalog.access import Right
from belvedere.commands import quarantine
from belvedere.engine.errors.failed_stages import Failed, failures_document
from belvedere.errors import BelvedereError
from belvedere.store import open_store
from belvedere.store.protocol import EpochRow
from belvedere.values.instants import instant

FAILED = Failed("Things", "m", "Things", 5, 0, "B7040", 'view "Things" failed: divide by zero', good={"Things": 4})
"""A view that failed in epoch 5."""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "s.sqrl").write_text("A := SELECT 1 AS a;")
    return tmp_path / "s.sqrl"


@pytest.mark.smoke("command quarantine")
def test_the_views_in_quarantine_are_listed(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{script.with_suffix('.db')}"
    store = open_store(url)
    store.acquire("test", 60)
    transaction = store.begin(1 << 20)
    transaction.commit(EpochRow(1, instant(0), {}, extra=failures_document([FAILED])))
    store.release("test")
    store.close()
    assert quarantine.command("list", script) == 0
    assert "B7045" in capsys.readouterr().out
    assert quarantine.command("list", script, json=True) == 0
    assert json.loads(capsys.readouterr().out)["quarantined"][0]["owner"] == "Things"


def test_a_run_that_does_not_answer_is_told(script: Path) -> None:
    with pytest.raises(BelvedereError, match="B9128: no server answers"):
        quarantine.command("retry", script, url="http://127.0.0.1:1")


def test_the_run_hears_who_may_ask() -> None:
    descriptor = shared_file(2)
    reader: Any = MemoryReader()
    reader.last_epoch = lambda: EpochRow(5, instant(0), {}, extra=failures_document([FAILED]))
    tokens = tuple(FixedToken(r.value, None, frozenset({r})) for r in Right)
    settings, counts = ServerSettings(token="all", fixed=tokens), AllCounts(descriptor, 2)
    for heals in (False, True):
        application = Application(example.catalog(), lambda: reader, settings, Metrics(descriptor, 1, 2), heals=heals)
        with TestClient(application) as client:
            for token, status in (("read", 403), ("push", 403), ("status", 403), ("admin", 202), ("all", 202)):
                answer = client.post("/quarantine/retry", headers={"authorization": f"Bearer {token}"})
                assert answer.status_code == (status if heals or status == 403 else 503), (heals, token)
            assert client.get("/quarantine/retry", headers={"authorization": "Bearer admin"}).status_code == 405
    assert counts.heals() == 2
    assert answer.json() == {"quarantined": [{"view": "Things", "epoch": 4}]}
