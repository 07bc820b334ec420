"""`belvedere sources` over topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.asked_sources import as_json, called, part
from tests.kafka.conftest import Bus
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_topics(bus: Bus, tmp_path: Path, spark: Any) -> None:
    name, other, late = bus.topic(2), bus.topic(3), bus.topic(name="late-1")
    bus.send(name, {"city": "Köln"}, {"city": "Ulm"}, partition=1)
    bus.send(other, {"a": 1}, partition=2)
    bus.send(late, {"city": "Bonn"})
    tables = f'[sources.bus.tables.Orders]\ntopic = "{name}"\n[sources.bus.tables.Late]\ntopic = "/late-.*/"\n'
    project = f'[sources.bus]\nconnector = "kafka"\nservers = "{bus.address}"\n{tables}'
    text = "IMPORT bus.Orders;\nIMPORT bus.Late;\nTotal := SELECT city, count(*) AS n FROM Orders GROUP BY city;\n"
    text += "Seen := SELECT * FROM Late;\n"
    (tmp_path / "s.sqrl").write_text(text)
    loop = Loop(spark, tmp_path, text, project)
    before = part(as_json(str(tmp_path / "s.sqrl")), "bus", name, "1")
    assert before == {"table": name, "part": "1", "imported": "Orders", "first": 0, "end": 2, "unit": "messages"}
    loop.once()
    bus.send(name, {"city": "Bonn"}, partition=0)
    found = as_json(str(tmp_path / "s.sqrl"), "--store", loop.url)
    expected = {"table": name, "part": "0", "imported": "Orders", "first": 0, "end": 1, "taken": 0, "behind": 1}
    assert part(found, "bus", name, "0") == expected | {"unit": "messages"}
    assert part(found, "bus", name, "1")["behind"] == 0
    assert part(found, "bus", late, "0")["imported"] == "Late"
    assert part(found, "bus", other) == {"table": other, "facts": {"partitions": 3, "messages": 1}}
    shown = called(str(tmp_path / "s.sqrl")).stdout
    assert f"{name}[0]" in shown
    assert "3 partitions, 1 message\n" in shown.replace(" \n", "\n") or "3 partitions, 1 message " in shown
    bus.drop(name)
    missing = part(as_json(str(tmp_path / "s.sqrl")), "bus", name)
    assert missing == {"table": name, "imported": "Orders", "note": "there is no such topic"}
    bus.topic(2, name)
    assert "recreated" in part(as_json(str(tmp_path / "s.sqrl")), "bus", name, "0")["note"]
