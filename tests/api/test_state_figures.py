"""`/status` and `/metrics` tell what the operators' state takes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from belvedere.api.http.metrics import Metrics
from belvedere.api.http.status import status_of
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.schema import KEY
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State
from belvedere.store import EpochRow

SCHEMA = pa.schema([("n", pa.int64()), pa.field(KEY, pa.string(), nullable=False)])


def test_status_has_rows_bytes_and_runs_of_the_state(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.arrange([Arranged("R", SCHEMA)], frozenset())
    state.arrangements["R"].append([pa.record_batch([pa.array([1, 2]), pa.array(["1", "2"])], schema=SCHEMA)])
    assert len(list(state.arrangements["R"].look_up(KEY, pa.array(["1", "3", "1"])))) == 1
    row = EpochRow(1, datetime(2024, 1, 1, tzinfo=UTC), extra={"state": state.prepare()})
    found = status_of(Catalog(), row, takes_pushes=False)["state"]
    assert (found["rows"], found["runs"]) == (2, 1)
    assert 0 < found["bytes"] < (tmp_path / row.extra["state"]["file"]).stat().st_size, "the file has the manifest too"
    state.committed()
    state.close()
    assert (found["keys_looked_up"], found["rows_found"]) == (2, 1)
    seconds = {"write_seconds", "merge_seconds"}  # what passed through the driver is the engine's figure
    assert found.keys() == {"rows", "bytes", "runs", "keys_looked_up", "rows_found"} | seconds
    shown = State(tmp_path, row.extra["state"])
    assert str(shown.sizes()["R"]).endswith("in 1 run now; since the start keys looked up: 2, rows found: 1")
    shown.close()
    assert "state" not in status_of(Catalog(), EpochRow(0, datetime(2024, 1, 1, tzinfo=UTC)), takes_pushes=False)


def test_status_has_what_epochs_measured() -> None:
    catalog = compile_script("CREATE TABLE T (k INT, PRIMARY KEY (k));\nV := SELECT count(*) AS n FROM T;").catalog
    measured = Measured().after({"T": 3, "V": 2, "V$1": 2}, {"V": 0.25}, 0.0)
    row = EpochRow(1, datetime(2024, 1, 1, tzinfo=UTC), extra={"measured": measured.as_document()})
    found = status_of(catalog, row, takes_pushes=False)["epochs"]
    assert found["relations"] == [
        {"name": "T", "changed_rows": 3.0, "seconds": 0.0},
        {"name": "V", "changed_rows": 2.0, "seconds": 0.25},
    ]
    assert "epochs" not in status_of(catalog, EpochRow(0, datetime(2024, 1, 1, tzinfo=UTC)), takes_pushes=False)


def test_metrics_have_gauges() -> None:
    text = Metrics().text(1, 0.5, [("belvedere_state_rows", "Rows of operator state.", 2)])
    assert "# TYPE belvedere_state_rows gauge\nbelvedere_state_rows 2\n" in text
