"""`/metrics` tells of each view and input, and the files that watch it name what is there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import roles_example as shop
from starlette.testclient import TestClient

from belvedere.api.http.application import Application
from belvedere.api.http.status import status_of
from belvedere.api.http.view_metrics import FAMILIES, view_metrics
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.engine.errors.failed_stages import Failed, failures_document
from belvedere.store import EpochRow, open_reader
from belvedere.time.event_time import Clocks, Counts

yaml: Any = pytest.importorskip("yaml")
DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPT = """
CREATE TABLE T (k INT, PRIMARY KEY (k));
_Hidden := SELECT k FROM T WHERE k > 1;
Größe := SELECT count(*) AS n FROM _Hidden;
Sum := SELECT sum(k) AS s FROM T;
"""
CATALOG = compile_script(SCRIPT).catalog
COMMITTED = datetime(2024, 1, 1, tzinfo=UTC)
NOW = COMMITTED + timedelta(seconds=30)
MICROS = int(COMMITTED.timestamp()) * 1_000_000
ROW = EpochRow(
    7,
    COMMITTED,
    bounds=Clocks({}, {"T": Counts(10, malformed=2)}).as_document(),
    extra={
        "measured": Measured()
        .after({"T": 3, "_Hidden": 3, "Größe": 2, "Sum": 1}, {"_Hidden": 1.0, "Größe": 0.25}, 0.0)
        .as_document(),
        "changed": {"Größe": [6, MICROS], "T": [7, MICROS]},
        "rows": {"T": 3, "Größe": 1},
    },
    committed_at=COMMITTED,
)
FAILED = Failed("Sum", "m", "Sum", 5, MICROS - 60_000_000, "B7045", "failed", good={"Sum": 4})


def reported(row: EpochRow | None, **status: Any) -> dict[str, float]:
    """The samples, by name and labels."""
    text = view_metrics(status_of(CATALOG, row, takes_pushes=False) | status, row, NOW)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_each_view_has_its_figures() -> None:
    found = reported(ROW)
    assert found['belvedere_view_changed_rows{view="Größe"}'] == 2
    assert found['belvedere_view_seconds{view="Größe"}'] == 0.25
    assert found["belvedere_epoch_mean_seconds"] == 1.25, "of all stages, hidden ones too"
    assert found['belvedere_view_freshness_seconds{view="Sum"}'] == 30
    assert found['belvedere_view_epoch{view="Sum"}'] == 7
    assert found['belvedere_view_changed_timestamp_seconds{view="Größe"}'] == COMMITTED.timestamp()
    assert 'belvedere_view_changed_timestamp_seconds{view="Sum"}' not in found, "no epoch has changed it"
    assert found['belvedere_input_rows_total{input="T",fate="used"}'] == 8
    assert found['belvedere_input_rows_total{input="T",fate="malformed"}'] == 2
    assert found["belvedere_store_up"] == 1
    assert found['belvedere_view_rows{view="Größe"}'] == 1
    assert 'belvedere_view_rows{view="Sum"}' not in found, "an earlier version has counted nothing"
    assert not any("Hidden" in name for name in found)


def test_a_view_in_quarantine() -> None:
    found = reported(replace(ROW, extra={**ROW.extra, **failures_document([FAILED])}))
    assert (found['belvedere_view_quarantined{view="Sum"}'], found['belvedere_view_quarantined{view="Größe"}']) == (
        1,
        0,
    )
    assert found['belvedere_view_epoch{view="Sum"}'] == 4, "its last good one"
    assert found['belvedere_view_freshness_seconds{view="Sum"}'] == 90, "since it failed"
    never = reported(replace(ROW, extra=failures_document([replace(FAILED, good={"Sum": None})])))
    assert 'belvedere_view_epoch{view="Sum"}' not in never
    assert never['belvedere_view_quarantined{view="Sum"}'] == 1


def test_without_an_epoch_or_a_store() -> None:
    found = reported(None, store="away")
    assert found["belvedere_store_up"] == 0
    assert not any(name.startswith("belvedere_view") for name in found)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_metrics_over_http(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}" if store == "sqlite" else request.getfixturevalue("postgres_url")
    shop.fill(url, shop.rows())
    with TestClient(Application(shop.catalog(), lambda: open_reader(url))) as client:
        text = client.get("/metrics").text
    assert 'belvedere_view_quarantined{view="Totals"} 0.0' in text
    assert 'belvedere_input_rows_total{input="Orders",fate="used"}' in text
    assert len(re.findall(r"^# TYPE (\S+)", text, re.M)) == len(set(re.findall(r"^# TYPE (\S+)", text, re.M)))


# what watches it


def named(text: str) -> set[str]:
    return set(re.findall(r"\bbelvedere_\w+", text))


def exposed() -> set[str]:
    """All names of `/metrics`; of a histogram those of its series."""
    with TestClient(Application(CATALOG, lambda: pytest.fail("not opened"))) as client:
        text = client.app.served.metrics.text(1, 0.5)  # type: ignore[attr-defined]
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line[0] != "#"} | FAMILIES.keys()


def test_alert_rules_name_what_is_there() -> None:
    rules = [r for g in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"] for r in g["rules"]]
    for rule in rules:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert named(rule["expr"]) <= exposed(), rule["alert"]
    assert len({r["alert"] for r in rules}) == len(rules) >= 7


def test_the_dashboard_names_what_is_there() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text())
    panels = board["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert named(target["expr"]), panel["title"]
            assert named(target["expr"]) <= exposed(), panel["title"]
    assert board["uid"] == "belvedere"
