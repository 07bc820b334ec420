"""`belvedere init --from kafka://...`: a project over topics, which checks and runs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from belvedere.cli import run
from tests.kafka.conftest import Bus
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_project_is_made_of_topics(own_bus: Bus, tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    own_bus.topic(2, "shop.orders")
    own_bus.send("shop.orders", {"id": 1, "city": "Köln", "at": "2024-01-01T00:00:00Z", "né 1": 1.5}, key="1", partition=1)
    own_bus.send("shop.orders", {"id": 2, "items": [{"n": 1}]}, key="2", partition=0)
    own_bus.send("shop.orders", {"id": 3}, key="3", partition=0)
    own_bus.topic(1, "customers", cleanup_policy="compact")
    own_bus.send("customers", {"id": 7, "city": "Ulm"}, key="7")
    own_bus.send("customers", {"id": 8, "city": "Ulm"}, None, key="8")
    own_bus.topic(1, "clicks")
    own_bus.send("clicks", {"page": "/a"}, key="someone")
    own_bus.topic(1, "log-lines")
    own_bus.send("log-lines", b"a line", b"another \xc3\xbc")
    own_bus.topic(1, "empty")
    own_bus.topic(1, "shop-orders")
    own_bus.send("shop-orders", {"a": True})
    folder = tmp_path / "p"
    assert run(["init", str(folder), "--from", f"kafka://{own_bus.address}"]) == 0
    said = capsys.readouterr()
    assert 'topic "empty" has no messages' in said.err
    script, project = (folder / "bus.sqrl").read_text(), tomllib.loads((folder / "belvedere.toml").read_text())
    tables = project["sources"]["bus"]["tables"]
    assert {n: t["topic"] for n, t in tables.items()} == {
        "clicks": "clicks",
        "customers": "customers",
        "shop_orders": "shop-orders",
        "shop_orders2": "shop.orders",
    }
    assert tables["customers"]["primary_key"] == ["id"]
    assert "primary_key" not in tables["shop_orders2"]
    columns = tables["shop_orders2"]["columns"]
    assert (columns["id"], columns["city"], columns["at"], columns["né 1"]) == ("BIGINT", "STRING", "TIMESTAMP", "DOUBLE")
    assert tables["clicks"]["metadata"] == {"message_key": "key"}
    assert project["sources"]["bus_text"]["format"] == "text"
    assert run(["check", str(folder / "bus.sqrl")]) == 0
    loop = Loop(spark, folder, script, (folder / "belvedere.toml").read_text())
    loop.once()
    counts = {
        n: [r["rows_so_far"] for r in loop.rows(f"{n}Count")] for n in ("shop_orders2", "customers", "log_lines", "clicks")
    }
    assert counts == {"shop_orders2": [3], "customers": [1], "log_lines": [2], "clicks": [1]}
    assert loop.rows("_belvedere_rejected") == []


def test_passwords_stay_out_of_files(own_bus: Bus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_bus.topic(1, "orders")
    own_bus.send("orders", {"id": 1})
    address = f"kafka://me:gehe%2Fim@{own_bus.address}?security.protocol=PLAINTEXT&sasl.mechanism=PLAIN"
    assert run(["init", str(tmp_path / "p"), "--from", address]) == 0
    text = (tmp_path / "p" / "belvedere.toml").read_text()
    said = capsys.readouterr()
    assert '"sasl.password" = "${env:BUS_PASSWORD}"' in text
    assert '"sasl.username" = "me"' in text
    assert "geheim" not in text.replace("/", "").replace("%2F", "")
    assert "BUS_PASSWORD" in said.out


def test_a_cluster_without_messages(own_bus: Bus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "p"), "--from", f"kafka://{own_bus.address}"]) == 1
    assert "B9113" in capsys.readouterr().err
