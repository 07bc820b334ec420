"""Traces of epochs for OpenTelemetry: spans in their order, failures, and nothing imported where nobody wants them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import belvedere
from belvedere.errors import BelvedereError
from belvedere.process.tracing import TRACES, traced_by_environment
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE T (k INT NOT NULL, a INT, PRIMARY KEY (k));
Q := SELECT a % 2 AS odd, sum(100 / a) AS q FROM T GROUP BY odd;
Q := SELECT odd, q FROM Q WHERE q > 0;
Best := SELECT max(q) AS best FROM Q;
"""


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    belvedere.trace_epochs(provider)
    yield exporter
    TRACES.stop()


@pytest.mark.spark
def test_an_epoch_is_a_trace(spark: Any, spans: InMemorySpanExporter) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    wb.insert("T", [{"k": 1, "a": 2}, {"k": 2, "a": 3}])
    wb.step()
    *steps, epoch = spans.get_finished_spans()
    assert (epoch.name, dict(epoch.attributes or {})) == ("epoch", {"belvedere.epoch": 1, "belvedere.rows": 2})
    names = [s.name for s in steps]
    assert names[0] == "ingest"
    assert names[-4:] == ["expire", "sync", "write", "commit"]
    assert set(names[1:-4]) == {"Q", "Best"}, "as the script calls them"
    assert epoch.context is not None
    for step in steps:
        assert step.parent is not None
        assert step.parent.span_id == epoch.context.span_id
        assert epoch.start_time <= step.start_time <= step.end_time <= epoch.end_time  # type: ignore[operator]
    (best,) = [s for s in steps if s.name == "Best"]
    assert best.attributes is not None
    assert best.attributes["belvedere.rows"] == 1
    levels = [(s.attributes or {})["belvedere.level"] for s in steps if s.name == "Q"]
    assert best.attributes["belvedere.level"] > max(levels) >= 2  # type: ignore[operator, type-var]
    assert best.attributes["belvedere.rule"] in {"whole", "merge", "top", "keyed"}

    spans.clear()
    wb.insert("T", [{"k": 3, "a": 0}])
    with pytest.raises(BelvedereError):
        wb.step()
    *steps, epoch = spans.get_finished_spans()
    assert epoch.name == "epoch"
    assert epoch.status.status_code.name == "ERROR"
    assert str((epoch.attributes or {})["belvedere.code"]).startswith("B")
    assert "commit" not in [s.name for s in steps]
    wb.close()


def test_nothing_is_imported_before_it_is_wanted(tmp_path: Path) -> None:
    code = """
import sys
import belvedere.engine.epoch, belvedere.spark.run.run_loop
from belvedere.process.tracing import TRACES, traced_by_environment
with traced_by_environment(), TRACES.failing(), TRACES.step("read"):
    TRACES.begin()
TRACES.end({}, {})
assert not TRACES.is_on and not [m for m in sys.modules if m.startswith("opentelemetry")], sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "", "PYTHONPATH": ":".join(sys.path)})


def test_the_environment_names_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with traced_by_environment():
        assert TRACES.is_on
        TRACES.begin()
    assert not TRACES.is_on
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with traced_by_environment():
        assert not TRACES.is_on


def test_opentelemetry_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(BelvedereError, match="B9142"), traced_by_environment():
        pytest.fail("not reached")
