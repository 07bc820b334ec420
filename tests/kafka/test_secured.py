"""A broker with encryption and passwords: settings from the environment; failures are reported and block nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.project_file import load_project
from belvedere.connectors.registry import SourceTables
from belvedere.errors import BelvedereError
from tests.kafka.certificates import make_certificate
from tests.kafka.conftest import Bus
from tests.kafka.reading import committed
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SCRIPT = (
    "IMPORT bus.Orders;\nTotals := SELECT city, count(*) AS n FROM Orders GROUP BY city;\nEXPORT Totals TO bus.Totals;"
)


class Secured:
    """The broker by its encrypted listener, with two topics."""

    def __init__(self, bus: Bus, orders: str, totals: str):
        assert bus.encrypted is not None
        self.bus, self.orders, self.totals = bus, orders, totals
        self.address, self.certificate = bus.encrypted.address, bus.encrypted.certificate

    def project(self, mechanism: str = "PLAIN", protocol: str = "SASL_SSL", ca: str | None = None) -> str:
        shared = f"""connector = "kafka"
servers = "{self.address}"
"security.protocol" = "{protocol}"
"ssl.ca.location" = "{ca or self.certificate}"
"sasl.mechanism" = "{mechanism}"
"sasl.username" = "${{env:KAFKA_USER}}"
"sasl.password" = "${{env:KAFKA_PASSWORD}}"
"""
        table = f'topic = "{self.orders}"\ncolumns = {{ city = "STRING" }}'
        sink = f'{shared}names = {{ Totals = "{self.totals}" }}'
        return f"[sources.bus]\n{shared}\n[sources.bus.tables.Orders]\n{table}\n[sinks.bus]\n{sink}"


@pytest.fixture(scope="module")
def secured(bus: Bus) -> Secured:
    """The encrypted listener of the broker, with a user who has a password for each mechanism."""
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    given = UserScramCredentialUpsertion("anna", info, password=b"scram")
    for future in bus.admin.alter_user_scram_credentials([given]).values():
        future.result()
    return Secured(bus, bus.topic(2), bus.topic(1))


def test_messages_come_and_go_by_passwords_of_the_environment(
    secured: Secured, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors.kafka import feed

    monkeypatch.setenv("KAFKA_USER", "anna")
    for number, (mechanism, password) in enumerate((("PLAIN", "plain!1"), ("SCRAM-SHA-512", "scram"))):
        monkeypatch.setenv("KAFKA_PASSWORD", password)
        monkeypatch.setattr(feed, "FEW_MESSAGES", 10 * number)  # the tasks of Spark have the same settings
        (folder := tmp_path / mechanism).mkdir()
        before = len(committed(secured.bus, secured.totals))
        secured.bus.send(secured.orders, *({"city": "Köln"} for _ in range(20)), partition=number)
        loop = Loop(spark, folder, SCRIPT, secured.project(mechanism))
        loop.once()
        assert [(r["city"], r["n"]) for r in loop.rows("Totals")] == [("Köln", 20 * (number + 1))]
        sent = [(k, v["n"]) for k, v, _ in committed(secured.bus, secured.totals)[before:]]
        assert sent == [("Köln", 20 * (number + 1))]


@pytest.mark.parametrize(
    ("user", "password", "mechanism", "other", "code", "detail"),
    [
        ("anna", "wrong", "PLAIN", False, "B6207", "uthentication failed"),
        ("anna", "wrong", "SCRAM-SHA-512", False, "B6207", "uthentication failed"),
        ("nobody", "scram", "SCRAM-SHA-512", False, "B6207", "uthentication failed"),
        ("anna", "scram", "SCRAM-SHA-256", False, "B6207", "mechanism"),
        ("anna", "plain!1", "PLAIN", True, "B6207", "certificate verify failed"),
    ],
)
def test_what_is_refused_is_told(
    secured: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
    password: str,
    mechanism: str,
    other: bool,
    code: str,
    detail: str,
) -> None:
    monkeypatch.setenv("KAFKA_USER", user)
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    ca = str(make_certificate(tmp_path, "other")[1]) if other else None
    (tmp_path / "belvedere.toml").write_text(secured.project(mechanism, ca=ca))
    started = time.monotonic()
    with pytest.raises(BelvedereError) as caught:
        SourceTables().tables(load_project(tmp_path).sources["bus"])
    (reported,) = caught.value.diagnostics
    assert (reported.code, reported.message) == (code, 'the servers of source "bus" reject the connection')
    assert reported.detail is not None
    assert detail in reported.detail, reported.detail
    assert password not in str(reported)
    assert time.monotonic() - started < 30, "it does not hang"


def test_a_sink_that_is_refused(secured: Secured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from belvedere.connectors.connector import Outgoing
    from belvedere.connectors.kafka.sink import KafkaOutlet

    monkeypatch.setenv("KAFKA_USER", "anna")
    monkeypatch.setenv("KAFKA_PASSWORD", "wrong")
    (tmp_path / "belvedere.toml").write_text(secured.project())
    outlet = KafkaOutlet([Outgoing(load_project(tmp_path).sinks["bus"], "Totals", "s")])
    with pytest.raises(BelvedereError, match="B6207"):
        outlet.reached()
