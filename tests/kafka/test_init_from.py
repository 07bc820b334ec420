"""`belvedere init --from kafka://...`: a project over topics, which checks and runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from belvedere.cli import run
from tests.kafka.conftest import Bus
from tests.kafka.registry import serving
from tests.kafka.test_avro import avro
from tests.kafka.test_protobuf import descriptors, framed, message, registered, reported
from tests.run.loops import Loop

__all__ = ["descriptors", "reported"]
pytestmark = [pytest.mark.spark, pytest.mark.kafka]

FIELDS = [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}]
CITY = {"type": "record", "name": "City", "fields": FIELDS}
KEY = {"type": "record", "name": "Key", "fields": FIELDS[:1]}
SCHEMAS: dict[str, Any] = {
    "/base/schemas/ids/11": {"schema": json.dumps(CITY)},
    "/base/schemas/ids/12": {"schema": json.dumps(KEY), "schemaType": "AVRO"},
    "/base/schemas/ids/13": {"schema": '"long"'},
    "/base/schemas/ids/14": {"schema": "{}", "schemaType": "JSON"},
}


def test_a_project_is_made_of_topics(
    empty_bus: Bus, tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    empty_bus.topic(2, "shop.orders")
    empty_bus.send(
        "shop.orders", {"id": 1, "city": "Köln", "at": "2024-01-01T00:00:00Z", "né 1": 1.5}, key="1", partition=1
    )
    empty_bus.send("shop.orders", {"id": 2, "items": [{"n": 1}]}, key="2", partition=0)
    empty_bus.send("shop.orders", {"id": 3}, key="3", partition=0)
    empty_bus.topic(1, "customers", cleanup_policy="compact")
    empty_bus.send("customers", {"id": 7, "city": "Ulm"}, key="7")
    empty_bus.send("customers", {"id": 8, "city": "Ulm"}, None, key="8")
    empty_bus.topic(1, "clicks")
    empty_bus.send("clicks", {"page": "/a"}, key="someone")
    empty_bus.topic(1, "log-lines")
    empty_bus.send("log-lines", b"a line", b"another \xc3\xbc")
    empty_bus.topic(1, "empty")
    empty_bus.topic(1, "shop-orders")
    empty_bus.send("shop-orders", {"a": True})
    folder = tmp_path / "p"
    assert run(["init", str(folder), "--from", f"kafka://{empty_bus.address}"]) == 0
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
    assert (columns["id"], columns["city"], columns["at"], columns["né 1"]) == (
        "BIGINT",
        "STRING",
        "TIMESTAMP",
        "DOUBLE",
    )
    assert tables["clicks"]["metadata"] == {"message_key": "key"}
    assert project["sources"]["bus_text"]["format"] == "text"
    assert run(["check", str(folder / "bus.sqrl")]) == 0
    loop = Loop(spark, folder, script, (folder / "belvedere.toml").read_text())
    loop.once()
    counts = {
        n: [r["rows_so_far"] for r in loop.rows(f"{n}Count")]
        for n in ("shop_orders2", "customers", "log_lines", "clicks")
    }
    assert counts == {"shop_orders2": [3], "customers": [1], "log_lines": [2], "clicks": [1]}
    assert loop.rows("_belvedere_rejected") == []


def test_passwords_stay_out_of_files(empty_bus: Bus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty_bus.topic(1, "orders")
    empty_bus.send("orders", {"id": 1})
    address = f"kafka://me:gehe%2Fim@{empty_bus.address}?security.protocol=PLAINTEXT&sasl.mechanism=PLAIN"
    assert run(["init", str(tmp_path / "p"), "--from", address]) == 0
    text = (tmp_path / "p" / "belvedere.toml").read_text()
    said = capsys.readouterr()
    assert '"sasl.password" = "${env:BUS_PASSWORD}"' in text
    assert '"sasl.username" = "me"' in text
    assert "geheim" not in text.replace("/", "").replace("%2F", "")
    assert "BUS_PASSWORD" in said.out


def test_a_cluster_without_messages(empty_bus: Bus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "p"), "--from", f"kafka://{empty_bus.address}"]) == 1
    assert "B9113" in capsys.readouterr().err


def test_topics_with_a_schema_registry(
    empty_bus: Bus,
    tmp_path: Path,
    spark: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    descriptors: Path,
    reported: dict[str, Any],
) -> None:
    ulm, trier = avro({"id": 1, "city": "Ülm"}, CITY, 11), avro({"id": 2, "city": None}, CITY, 11)
    for topic in ("stream", "by-record", "by_value", "by_text", "schema-of-json", "unknown", "orders"):
        empty_bus.topic(1, topic, **({"cleanup_policy": "compact"} if topic.startswith("by") else {}))
    empty_bus.send("stream", ulm, trier, key=avro({"id": 9}, KEY, 12))
    empty_bus.send("by-record", ulm, key=avro({"id": 1}, KEY, 12))
    empty_bus.send("by-record", trier, None, key=avro({"id": 2}, KEY, 12))
    empty_bus.send("by_value", ulm, key=avro(1, "long", 13))  # type: ignore[arg-type]
    empty_bus.send("by_text", trier, key="2")
    empty_bus.send("schema-of-json", b"\0\0\0\0\x0e{}")
    empty_bus.send("unknown", b"\0\0\0\0\x63{}")
    empty_bus.send("orders", framed(message(reported, {"id": 5, "city": "a"}), 1))
    with serving(
        SCHEMAS | registered(descriptors) | {"/base/schemas/ids/1": {"schemaType": "PROTOBUF", "schema": ""}}
    ) as registry:
        address, folder = f"kafka://{empty_bus.address}", tmp_path / "p"
        assert run(["init", str(folder), "--from", address]) == 1
        assert "give the registry's address: `--registry http://host:8081`" in capsys.readouterr().err
        assert run(["init", str(folder), "--from", address, "--registry", registry]) == 0
        said = capsys.readouterr()
        assert "BUS_REGISTRY_PASSWORD" in said.out
        assert 'topic "schema-of-json" has messages of a JSON schema' in said.err
        assert "does not return schema 99: it is skipped" in said.err
        text = (folder / "belvedere.toml").read_text()
        assert "u:p@" not in text
        sources = tomllib.loads(text)["sources"]
        tables = sources["bus_avro"]["tables"]
        assert {n: (t.get("primary_key"), t.get("key_format")) for n, t in tables.items()} == {
            "by_record": (["id"], "avro"),
            "by_value": (["id"], "avro"),
            "by_text": (["id"], None),
            "stream": (None, None),
        }
        assert tables["stream"]["columns"] == {"id": "BIGINT", "city": "STRING"}
        assert sources["bus_protobuf"]["tables"]["orders"]["columns"]["city"] == "STRING"
        monkeypatch.setenv("BUS_REGISTRY_PASSWORD", "p")
        assert run(["check", str(folder / "bus.sqrl")]) == 0
        loop = Loop(spark, folder, (folder / "bus.sqrl").read_text(), text)
        loop.once()
        counts = {n: loop.rows(f"{n}Count")[0]["rows_so_far"] for n in (*tables, "orders")}
        assert counts == {"by_record": 1, "by_value": 1, "by_text": 1, "stream": 2, "orders": 1}
        assert loop.rows("_belvedere_rejected") == []


def test_a_registry_without_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "p"), "--from", str(tmp_path), "--registry", "http://localhost:1"]) == 2
    assert "--from kafka://host:port" in capsys.readouterr().err
