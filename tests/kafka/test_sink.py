"""Exports into topics: each event once, whatever fails in between, by the view's key."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.exporting import exports
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings, Sink
from belvedere.store.stage_memory import Memories
from belvedere.workbench.workbench import Workbench
from tests.kafka.conftest import Bus
from tests.kafka.reading import key_and_value, messages

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SCRIPT = """
CREATE TABLE Machine (id INT NOT NULL, hall STRING, temp DOUBLE, PRIMARY KEY (id));
Hot := SELECT id, temp, hall FROM Machine WHERE temp > 100;
Halls := SELECT hall, temp > 50 AS warm, count(*) AS n FROM Machine GROUP BY hall, temp > 50;
Temps := SELECT temp FROM Machine WHERE temp > 100;
CREATE SUBSCRIPTION GotHot ON ADD AS SELECT id, temp FROM Machine WHERE temp > 100;
EXPORT Hot TO bus.Hot;
EXPORT Halls TO bus.Halls;
EXPORT Temps TO bus.Temps;
EXPORT GotHot TO bus.GotHot;
"""
TARGETS = ("Hot", "Halls", "Temps", "GotHot")
Messages = list[tuple[bytes | None, Any]]


def read(bus: Bus, topic: str, isolation: str = "read_committed") -> Messages:
    """All messages of a topic of one partition: keys, and values as JSON."""
    return [(m.key(), key_and_value(m)[1]) for m in messages(bus.address, topic, isolation=isolation)]


def project(bus: Bus, folder: Path, **options: Any) -> tuple[ProjectSettings, dict[str, str]]:
    topics = {t: bus.topic() for t in TARGETS}
    given = {"servers": bus.address, "names": topics, **options}
    return ProjectSettings(folder, sinks={"bus": Sink("bus", "kafka", options=given)}), topics


def heat(wb: Workbench, *rows: tuple[int, str, float], wait: bool = True) -> None:
    wb.insert("Machine", [{"id": i, "hall": h, "temp": t} for i, h, t in rows])
    wb.step()
    if wait:
        wb.engine.exports.catch_up(wait=True)  # a broker that has just started may be busy


def test_changes_go_by_key_and_events_as_they_are(bus: Bus, spark: Any, tmp_path: Path) -> None:
    settings, topics = project(bus, tmp_path)
    wb = Workbench(SCRIPT, spark=spark, project=settings)
    heat(wb, (1, "Süd", 120.0), (2, "Nord", 20.0))
    heat(wb, (1, "Süd", 130.0))
    wb.restart()
    heat(wb, (1, "Süd", 30.0), (2, "Nord", 110.0))
    assert read(bus, topics["Hot"]) == [
        (b"1", {"id": 1, "temp": 120.0, "hall": "Süd"}),
        (b"1", {"id": 1, "temp": 130.0, "hall": "Süd"}),
        (b"2", {"id": 2, "temp": 110.0, "hall": "Nord"}),
        (b"1", None),
    ]
    first, *_, last = read(bus, topics["Halls"])
    assert first == (b'{"hall":"Nord","warm":false}', {"hall": "Nord", "warm": False, "n": 1})
    assert last[1] is None
    assert [(k, v["temp"], v["_op"]) for k, v in read(bus, topics["Temps"])] == [
        (None, 120.0, "ADD"),
        (None, 130.0, "CHANGE"),
        (None, 110.0, "ADD"),
        (None, 130.0, "DELETE"),
    ]
    assert [(v["id"], v["_seq"]) for _, v in read(bus, topics["GotHot"])] == [(1, 1), (2, 2)]
    wb.close()


def test_a_crash_after_the_transaction_repeats_nothing(
    bus: Bus, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors.kafka import sink

    monkeypatch.setattr(sink, "MAX_MESSAGES", 3)
    settings, topics = project(bus, tmp_path)
    wb = Workbench(SCRIPT, spark=spark, project=settings)
    heat(wb, *((n, "Süd", 120.0) for n in range(8)))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(exports.Exports, "_advance", crash)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, *((n, "Süd", 130.0) for n in range(8)))
    wb.restart()
    wb.engine.exports.catch_up(wait=True)
    assert [v["temp"] for _, v in read(bus, topics["Hot"])] == [120.0] * 8 + [130.0] * 8

    # in the middle: after the first of three transactions, and within the second
    sent, kept = [0], sink.KafkaOutlet._heed

    def heed(self: Any, error: Any, message: Any) -> None:
        kept(self, error, message)
        sent[0] += 1
        if sent[0] == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sink.KafkaOutlet, "_heed", heed)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, *((n, "Süd", 140.0) for n in range(8)))
    wb.restart()
    wb.engine.exports.catch_up(wait=True)
    assert [v["temp"] for _, v in read(bus, topics["Hot"])] == [120.0] * 8 + [130.0] * 8 + [140.0] * 8
    wb.close()


def test_an_epoch_is_in_all_topics_at_once(
    bus: Bus, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors.kafka import sink

    settings, topics = project(bus, tmp_path)
    wb = Workbench(SCRIPT, spark=spark, project=settings)
    heat(wb, (1, "Süd", 120.0))
    seen = {t: len(read(bus, topics[t])) for t in TARGETS}
    assert all(seen.values())

    def crash(_: object, producer: Any, __: object) -> None:
        assert producer.flush(30) == 0
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sink.KafkaOutlet, "_commit", crash)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, (2, "Süd", 120.0))
    for target in TARGETS:
        assert len(read(bus, topics[target], "read_uncommitted")) > seen[target]
        assert len(read(bus, topics[target])) == seen[target], "no topic shows a part of the epoch"
    wb.restart()
    wb.engine.exports.catch_up(wait=True)
    for target in TARGETS:
        numbers = [int(dict(m.headers() or [])["seq"]) for m in messages(bus.address, topics[target])]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert len(numbers) > seen[target]
    wb.close()


def test_exports_share_topics_and_come_and_go(
    bus: Bus, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temps, events = bus.topic(), bus.topic()
    names = {"Temps": temps, "Hot": temps, "Again": temps, "GotHot": events}
    settings = ProjectSettings(
        tmp_path, sinks={"bus": Sink("bus", "kafka", options={"servers": bus.address, "names": names})}
    )
    script = "\n".join(line for line in SCRIPT.splitlines() if "bus.Halls" not in line) + "EXPORT Temps TO bus.Again;\n"
    url = f"sqlite:///{tmp_path}/s.db"
    wb = Workbench(script, spark=spark, project=settings, store=url)
    heat(wb, (1, "Süd", 120.0))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(exports.Exports, "_advance", crash)  # only the marks say that these were sent
        with pytest.raises(KeyboardInterrupt):
            heat(wb, (2, "Süd", 130.0))
    wb.close()
    wb = Workbench(script.replace("EXPORT GotHot", "-- EXPORT GotHot"), spark=spark, project=settings, store=url)
    heat(wb, (3, "Süd", 140.0))
    assert [v["id"] for _, v in read(bus, events)] == [1, 2], "nobody exports it"
    wb.close()
    wb = Workbench(script, spark=spark, project=settings, store=url)
    heat(wb, (4, "Süd", 150.0))
    assert [v["id"] for _, v in read(bus, events)] == [1, 2, 3, 4], "what came meanwhile is sent, and nothing again"
    found = sorted((k is None, v["temp"]) for k, v in read(bus, temps))
    degrees = [120.0, 130.0, 140.0, 150.0]
    assert found == [(False, t) for t in degrees] + [(True, t) for t in degrees for _ in range(2)]
    wb.close()


@pytest.mark.nightly
def test_a_broker_that_is_away_is_told_and_holds_nothing_up(
    own_bus: Bus, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors.kafka import sink
    from belvedere.connectors.kafka import topics as asked

    monkeypatch.setattr(sink, "TIMEOUT_SECONDS", 2.0)
    monkeypatch.setattr(asked, "TIMEOUT_SECONDS", 1.0)
    settings, topics = project(own_bus, tmp_path)
    script = "\n".join(line for line in SCRIPT.splitlines() if "EXPORT" not in line or "bus.Hot" in line)
    wb = Workbench(script, spark=spark, project=settings)
    heat(wb, (1, "Süd", 120.0))
    own_bus.broker.stop(signal.SIGKILL)
    for n in range(2, 5):
        heat(wb, (n, "Süd", 120.0), wait=False)
    assert len(wb.rows("Hot")) == 4, "epochs go on"
    explaining_failures = wb.engine.exports.catch_up()
    assert len(explaining_failures) == 1
    assert all(t.endswith("unsent events wait in the store") for t in explaining_failures)
    own_bus.broker.start()
    assert wb.engine.exports.catch_up(wait=True).count('sink "bus" accepts events again') == 1
    assert [k for k, _ in read(own_bus, topics["Hot"])] == [b"1", b"2", b"3", b"4"]
    wb.close()


def test_at_least_once(bus: Bus, spark: Any, tmp_path: Path) -> None:
    settings, topics = project(bus, tmp_path, exactly_once=False)
    wb = Workbench(SCRIPT, spark=spark, project=settings)
    heat(wb, (1, "Süd", 120.0))
    wb.restart()
    heat(wb, (2, "Süd", 120.0))
    assert [k for k, _ in read(bus, topics["Hot"], "read_uncommitted")] == [b"1", b"2"]
    wb.close()


def test_what_is_wrong_is_told(bus: Bus, spark: Any, tmp_path: Path) -> None:
    settings, topics = project(bus, tmp_path)
    wb = Workbench(SCRIPT, spark=spark, project=settings)
    heat(wb, (1, "Süd", 120.0))
    # a store from before what was sent
    (line,) = wb.engine.exports._lines
    line.is_sure = False
    with pytest.raises(BelvedereError) as caught:
        wb.engine.exports.deliver(1, Memories())
    assert caught.value.diagnostics[0].code == "B6211"

    # another process that sends for the same store
    from belvedere.connectors.kafka.sink import KafkaOutlet

    outgoings = [e.outgoing for e in line.outlet.exports]  # type: ignore[attr-defined]
    other = KafkaOutlet(outgoings)
    line.outlet.reached()
    line.is_sure = True
    assert other.reached() == [1, 1, 1, 1]
    with pytest.raises(BelvedereError) as caught:
        heat(wb, (2, "Süd", 120.0))
    assert caught.value.diagnostics[0].code == "B6210"
    wb.close()
    bus.drop(topics["Hot"])
    with pytest.raises(BelvedereError) as caught:
        Workbench(SCRIPT, spark=spark, project=settings)
    assert caught.value.diagnostics[0].code == "B6202"
    assert caught.value.diagnostics[0].message == f'sink "bus" has no topic "{topics["Hot"]}"'


def test_a_call_that_passes_over_its_timeout_is_left_behind() -> None:
    from threading import Event

    from belvedere.connectors.kafka.client import explaining_failures
    from belvedere.connectors.kafka.sink import _within

    released = Event()
    with pytest.raises(BelvedereError) as caught, explaining_failures("the sink cannot send"):
        _within(0.05, released.wait)
    released.set()
    assert caught.value.diagnostics[0].code == "B6201", "it is away: unsent events wait in the store"
    with pytest.raises(ZeroDivisionError):
        _within(5, lambda: 1 / 0)
    _within(5, lambda: None)
