"""A Spark cluster on this machine: a standalone master and its workers, each a process with a folder of its own.

`python -m tests.cluster.standalone FOLDER [WORKERS]` starts one with two workers of one core, prints its address and
ends with its input.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from belvedere.spark.jvm.java import find_java

HOME = Path(pyspark.__file__).parent
CLASS = "org.apache.spark.deploy"
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """Master and workers; `workers[n]` may be killed and started again."""

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g"):
        self.folder, self.memory = folder, memory
        self.port = free_port()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master = self._start("master.Master", "master", "--port", str(self.port))
        try:
            self._wait()
            self.workers += [self.start_worker(n) for n in range(workers)]
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start_worker(self, number: int) -> subprocess.Popen[bytes]:
        folder = self.folder / f"worker-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        sizes = ("--cores", "1", "--memory", self.memory, "--work-dir", str(folder))
        return self._start("worker.Worker", f"worker-{number}", *sizes, self.url)

    def kill_worker(self, number: int) -> None:
        """SIGKILL for a worker and its executors, as if its machine were gone."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()

    def _start(self, what: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            HOME / "bin" / "spark-class",
            f"{CLASS}.{what}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *arguments,
        ]
        environment = {
            k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON")
        }
        environment |= {"SPARK_HOME": str(HOME), "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_DAEMON_JAVA_OPTS": JAVA, "SPARK_DAEMON_MEMORY": "256m"}
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            assert time.monotonic() < deadline, (self.folder / "master.log").read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    with Cluster(Path(sys.argv[1]), *map(int, sys.argv[2:3]), memory="2g") as cluster:
        print(cluster.url, flush=True)
        sys.stdin.read()
