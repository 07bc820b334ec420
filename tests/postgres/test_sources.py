"""`belvedere sources` over tables of another database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.asked_sources import as_json, called
from tests.postgres.conftest import Shop
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_tables_of_another_database(shop: Shop, tmp_path: Path, spark: Any) -> None:
    shop.run("INSERT INTO customers VALUES (1, 'Köln', 1)", "CREATE TABLE notes (text text)")
    text = "IMPORT crm.customers;\nA := SELECT city, count(*) AS n FROM customers GROUP BY city;"
    (tmp_path / "s.sqrl").write_text(text)
    project = f'[sources.crm]\nconnector = "postgres"\nurl = "{shop.url}"\nslot = "{shop.slot}"\n'
    loop = Loop(spark, tmp_path, text, project)
    (tmp_path / "belvedere.toml").write_text(project)
    slot = f"slot {shop.slot}"
    before = as_json(str(tmp_path / "s.sqrl"))["sources"][0]["parts"]
    assert before[-1] == {"part": slot, "note": "does not exist yet: the first run creates it"}
    loop.once()
    shop.run("INSERT INTO orders VALUES (1, 1, 1)")
    found = as_json(str(tmp_path / "s.sqrl"))
    parts = {p.get("table") or p["part"]: p for p in found["sources"][0]["parts"]}
    assert parts["customers"]["facts"] == {"published": True}
    assert parts["customers"]["behind"] > 0
    assert parts["customers"]["unit"] == "bytes"
    assert parts["orders"] == {"table": "orders", "facts": {"published": True}}
    assert parts["notes"] == {
        "table": "notes",
        "facts": {"published": False},
        "note": "has no key, so its changes cannot be followed",
    }
    assert parts[slot]["facts"] == {"wal_status": "reserved", "active": False}
    assert parts[slot]["taken"] == parts["customers"]["taken"]
    assert "not published" in called(str(tmp_path / "s.sqrl")).stdout
