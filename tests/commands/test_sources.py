"""`belvedere sources`: what sources have, how far a store has it, what waits for sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.asked_sources import as_json, called, part
from tests.run.loops import Loop
from tools.servers.kafka import free_port

FILES = """
[sources.shop]
connector = "files"
path = "data"

[sources.none]
path = "nowhere"

[sources.sensordata]
connector = "sensors"

[sinks.out]
path = "out"

[sinks.log]
connector = "console"
"""
SCRIPT = """
IMPORT shop.Orders AS Sold;
IMPORT sensordata.Sensors;
Total := SELECT city, count(*) AS n FROM Sold GROUP BY city;
EXPORT Total TO out.Totals;
"""


def test_files_before_there_is_a_store(tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text(FILES)
    script = tmp_path / "s.sqrl"
    script.write_text(SCRIPT)
    (tmp_path / "data" / "Orders").mkdir(parents=True)
    (tmp_path / "data" / "Orders" / "1.json").write_text('{"city": "Köln"}\n')
    (tmp_path / "data" / "Other.csv").write_text("a\n1\n")
    found = as_json(str(script))
    assert part(found, "shop", "Orders") == {
        "table": "Orders",
        "imported": "Sold",
        "facts": {"files": 1, "bytes": 17 + 1},
    }
    assert part(found, "shop", "Other") == {"table": "Other", "facts": {"files": 1, "bytes": 4}}
    assert part(found, "sensordata", "SensorReading") == {"table": "SensorReading"}
    assert "does not exist" in next(s for s in found["sources"] if s["source"] == "none")["parts"][0]["note"]
    assert found["sinks"] == [
        {"sink": "out", "connector": "files", "target": "Totals", "view": "Total"},
        {"sink": "log", "connector": "console"},
    ]
    shown = called(str(script)).stdout
    assert "1 file, 18 bytes" in shown
    assert "nothing is exported to it" in shown
    refused = called(str(script), "--store", f"sqlite:///{tmp_path / 'none.db'}", code=1)
    assert "B7001" in refused.stderr


@pytest.mark.spark
def test_files_that_were_not_read_and_events_that_wait(tmp_path: Path, spark: Any) -> None:
    script = tmp_path / "s.sqrl"
    script.write_text(SCRIPT)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Orders.json").write_text('{"city": "Köln"}\n{"city": "Ulm"}\n')
    loop = Loop(spark, tmp_path, SCRIPT, FILES.replace('"sensors"', '"sensors"\nrows = 0'))
    loop.once()
    (tmp_path / "data" / "Orders.2.json").write_text('{"city": "Ulm"}\n')
    found = as_json(str(script))
    orders = part(found, "shop", "Orders")
    assert (orders["taken"], orders["behind"], orders["unit"], orders["facts"]["files"]) == (1, 1, "files", 2)
    assert found["sinks"][0] == {
        "sink": "out",
        "connector": "files",
        "target": "Totals",
        "view": "Total",
        "sent": 2,
        "waiting": 0,
    }
    (tmp_path / "out").rename(tmp_path / "before")
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(Exception, match="cannot write"):
        loop.once()
    assert as_json(str(script))["sinks"][0]["waiting"] > 0


def test_sources_that_are_away_are_told_in_their_rows(tmp_path: Path) -> None:
    port = free_port()
    away = f"""
[sources.bus]
connector = "kafka"
servers = "127.0.0.1:{port}"

[sources.crm]
connector = "postgres"
url = "postgresql://u:geheim@127.0.0.1:{port}/crm"
"""
    (tmp_path / "belvedere.toml").write_text(away)
    script = tmp_path / "s.sqrl"
    script.write_text("IMPORT bus.Orders;\nIMPORT bus.Others;\nIMPORT crm.customers;\nA := SELECT * FROM Orders;\n")
    found = as_json(str(script), code=1)
    assert [s["failure"]["code"] for s in found["sources"]] == ["B6201", "B6220"]
    (tmp_path / "data").mkdir()
    (tmp_path / "belvedere.toml").write_text(away + '[sources.here]\npath = "data"\n')
    shown = called(str(script))
    assert "has no tables" in shown.stdout, "one that answers is an answer"
    assert "cannot be asked for its topics" in shown.stdout
    assert "does not answer" in shown.stdout
    assert "geheim" not in shown.stdout + shown.stderr


def test_a_script_with_errors(tmp_path: Path) -> None:
    script = tmp_path / "s.sqrl"
    script.write_text("A := SELECT * FROM Nobody;\n")
    found = called(str(script), code=1)
    assert "names no sources and no sinks" in found.stdout
    assert "Nobody" in found.stderr
