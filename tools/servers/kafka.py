"""A Kafka broker for tests, benches and examples, on Java. PySpark's Ivy downloads its jars once into the user's cache.

In: a folder for its data. Out: a broker (KRaft, one node, no encryption) on a free port of 127.0.0.1. Tests that need
the jars are skipped if they cannot be downloaded. As a program it prints its address and runs until it is ended:
`python -m tools.servers.kafka FOLDER`.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path

import pyspark

from belvedere.spark.jvm.java import find_java

VERSION = "4.1.0"
MODULES = (("org.apache.kafka", "kafka_2.13", VERSION), ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"))
FOLDER = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "belvedere-tests" / f"kafka-{VERSION}"
OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOG = """rootLogger.level = WARN
rootLogger.appenderRef.all.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c %m%n
"""
SETTINGS = """process.roles=broker,controller
node.id=1
log.dirs={folder}/data
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.backoff.ms=500
"""


PORT = re.compile(r"PLAINTEXT://127\.0\.0\.1:(\d+)")
PATIENCE = 180.0
"""Maximum seconds to wait for a broker's answer, also on a busy machine."""


class NoPrograms(Exception):
    """Raised if the broker's jars cannot be downloaded."""


class NotStarted(Exception):
    """Raised if the broker ended, or did not answer in time; the text is the end of its log."""


@cache
def programs() -> Path:
    """Return the folder with the broker's jars. Raises NoPrograms."""
    if FOLDER.exists():
        return FOLDER
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent, ignore_cleanup_errors=True) as made:
        for module in MODULES:
            fetch(module, Path(made))
        (Path(made) / "log4j2.properties").write_text(LOG)
        shutil.rmtree(Path(made) / "ivy", ignore_errors=True)
        os.chmod(made, 0o755)
        try:
            os.rename(made, FOLDER)
        except OSError:  # another run was first
            assert FOLDER.exists()
    return FOLDER


def fetch(module: tuple[str, str, str], folder: Path) -> None:
    """Download a module and its dependencies with the Ivy of PySpark."""
    jars = Path(pyspark.__file__).parent / "jars"
    ivy = next(jars.glob("ivy-*.jar"))
    given = ["-cache", f"{folder}/ivy", "-dependency", *module, "-confs", "default", "-types", "jar", "bundle"]
    command = [*java(), "-cp", str(ivy), "org.apache.ivy.Main", *given]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode or not any(folder.glob(f"{module[1]}-*.jar")):
        raise NoPrograms(f"{module[1]} {module[2]} could not be fetched: {(done.stdout + done.stderr)[-500:]}")


def java() -> tuple[str, ...]:
    """Return the command that starts Java."""
    return (str(find_java() / "bin" / "java"),)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def new_identity() -> str:
    """Return the id of a cluster, in Kafka's form."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a")


class Broker:
    """A broker over a folder; it can be ended or killed, and started again on its port."""

    def __init__(
        self, folder: Path, port: int | None = None, more: str = "", cluster: str | None = None, leads: bool = True
    ):
        """`more` settings may contain `{folder}`, `{port}` and `{controller}`.

        `cluster` is the cluster's id; with `leads` the broker is also the controller.
        """
        self.folder, self.settings = folder, folder / "server.properties"
        self.port = port or self._port_before() or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        if not self.settings.exists():
            folder.mkdir(parents=True, exist_ok=True)
            named = {"folder": folder, "port": self.port, "controller": free_port()}
            self.settings.write_text((SETTINGS + more).format(**named))
            given = ["-t", cluster or new_identity(), "-c", str(self.settings), *(["--standalone"] if leads else [])]
            self._java("kafka.tools.StorageTool", "format", *given).wait(PATIENCE)

    def _port_before(self) -> int | None:
        """Return the port of its last run over this folder, which it uses again."""
        found = PORT.search(self.settings.read_text()) if self.settings.exists() else None
        return None if found is None else int(found[1])

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        options = (*OPTIONS, f"-Dlog4j2.configurationFile={programs()}/log4j2.properties")
        log = (self.folder / "server.log").open("ab")
        command = [*java(), *options, "-cp", f"{programs()}/*", *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self) -> Broker:
        """Start the broker and wait until it answers. Raises NotStarted, and then leaves no process."""
        self.launch()
        try:
            self.wait()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        return self

    def launch(self) -> None:
        """Start its process without waiting."""
        self.process = self._java("kafka.Kafka", str(self.settings))

    def wait(self, brokers: int = 1) -> None:
        """Wait until it answers and knows `brokers` brokers. Raises NotStarted."""
        from confluent_kafka.admin import AdminClient

        assert self.process is not None
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if len(admin.list_topics(timeout=1).brokers) >= brokers:
                    return
            except Exception:  # it does not answer yet
                time.sleep(0.1)
        raise NotStarted((self.folder / "server.log").read_text()[-2_000:])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the broker; SIGKILL simulates a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None


def main() -> None:
    """Run a broker until this process is ended."""
    broker = Broker(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else None).start()
    print(broker.address, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        signal.pause()
    finally:
        broker.stop()


if __name__ == "__main__":
    main()
