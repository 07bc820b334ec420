"""A broker that wants encryption and passwords: settings from the environment; what is refused is told, and holds nothing up."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.registry import SourceTables
from belvedere.errors import BelvedereError
from belvedere.settings import load_project
from belvedere.spark.java import find_java
from tests.kafka.conftest import Bus, running
from tests.kafka.reading import committed
from tests.run.loops import Loop
from tools.servers.kafka import free_port

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SECURED = """
listeners=PLAINTEXT://127.0.0.1:{{port}},SASL_SSL://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{{controller}}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="plain!1";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.location={keys}
ssl.keystore.password=changeit
ssl.keystore.type=PKCS12
"""
SCRIPT = "IMPORT bus.Orders;\nTotals := SELECT city, count(*) AS n FROM Orders GROUP BY city;\nEXPORT Totals TO bus.Totals;"


class Secured:
    """A broker with an encrypted listener besides the plain one."""

    def __init__(self, bus: Bus, port: int, certificate: Path):
        self.bus, self.address, self.certificate = bus, f"127.0.0.1:{port}", certificate

    def project(self, mechanism: str = "PLAIN", protocol: str = "SASL_SSL", ca: str | None = None) -> str:
        shared = f"""connector = "kafka"
servers = "{self.address}"
"security.protocol" = "{protocol}"
"ssl.ca.location" = "{ca or self.certificate}"
"sasl.mechanism" = "{mechanism}"
"sasl.username" = "${{env:KAFKA_USER}}"
"sasl.password" = "${{env:KAFKA_PASSWORD}}"
"""
        columns = 'columns = { city = "STRING" }'
        return f"[sources.bus]\n{shared}\n[sources.bus.tables.Orders]\n{columns}\n[sinks.bus]\n{shared}"


def _keytool(*arguments: str) -> None:
    subprocess.run([str(find_java() / "bin" / "keytool"), *arguments], check=True, capture_output=True, timeout=60)


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A key with its own certificate for 127.0.0.1, and the certificate alone."""
    keys, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
    store = ("-keystore", str(keys), "-storepass", "changeit", "-alias", "broker")
    made = ("-keyalg", "RSA", "-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-validity", "2", "-storetype", "PKCS12")
    _keytool("-genkeypair", *store, *made)
    _keytool("-exportcert", "-rfc", *store, "-file", str(certificate))
    return keys, certificate


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    folder = tmp_path_factory.mktemp("secured")
    keys, certificate = _certificate(folder, "broker")
    port = free_port()
    broker = running(folder / "broker", SECURED.format(secured=port, keys=keys))
    try:
        bus = Bus(broker)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        given = UserScramCredentialUpsertion("anna", info, password=b"scram")
        for future in bus.admin.alter_user_scram_credentials([given]).values():
            future.result()
        bus.topic(2, "Orders")
        bus.topic(1, "Totals")
        yield Secured(bus, port, certificate)
    finally:
        broker.stop()


def test_messages_come_and_go_by_passwords_of_the_environment(
    secured: Secured, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors.kafka import feed

    monkeypatch.setenv("KAFKA_USER", "anna")
    for number, (mechanism, password) in enumerate((("PLAIN", "plain!1"), ("SCRAM-SHA-512", "scram"))):
        monkeypatch.setenv("KAFKA_PASSWORD", password)
        monkeypatch.setattr(feed, "FEW_MESSAGES", 10 * number)  # the tasks of Spark have the same settings
        (folder := tmp_path / mechanism).mkdir()
        before = len(committed(secured.bus, "Totals"))
        secured.bus.send("Orders", *({"city": "Köln"} for _ in range(20)), partition=number)
        loop = Loop(spark, folder, SCRIPT, secured.project(mechanism))
        loop.once()
        assert [(r["city"], r["n"]) for r in loop.rows("Totals")] == [("Köln", 20 * (number + 1))]
        sent = [(k, v["n"]) for k, v, _ in committed(secured.bus, "Totals")[before:]]
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
    ca = str(_certificate(tmp_path, "other")[1]) if other else None
    (tmp_path / "belvedere.toml").write_text(secured.project(mechanism, ca=ca))
    started = time.monotonic()
    with pytest.raises(BelvedereError) as caught:
        SourceTables().tables(load_project(tmp_path).sources["bus"])
    (told,) = caught.value.diagnostics
    assert (told.code, told.message) == (code, 'source "bus" is refused by its servers')
    assert told.detail is not None
    assert detail in told.detail, told.detail
    assert password not in str(told)
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
