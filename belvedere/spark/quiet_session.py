"""Spark for the command line: a session whose JVM keeps its chatter to itself, and how it ends.

In: the `[spark]` settings of the project file. Out: a session. What the JVM writes to stderr goes to a file that has no name; its last
lines are told where the JVM dies.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO

from pyspark.sql import SparkSession

from belvedere.spark.session import local_session

OWN_SETTINGS = ("cores", "memory", "trigger", "clock", "retry")
"""Settings of `[spark]` that are not Spark's own."""
LAST_WORDS = 2000
ENDING = 1.5
"""Seconds: a run ends within two of its last epoch, and nothing that Spark holds is needed again."""

_chatter: IO[bytes] | None = None


def quiet_session(settings: Mapping[str, str]) -> SparkSession:
    """A session with the settings of the project file: `cores`, `memory`, and Spark's own by their names."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark warns of the host's name
    extra = {"spark.log.level": "OFF"} | {k: v for k, v in settings.items() if k not in OWN_SETTINGS}
    cores = settings.get("cores")
    with _stderr_aside(), _own_interrupts():
        return local_session(int(cores) if cores else None, settings.get("memory", "4g"), extra)


@contextlib.contextmanager
def batch_session() -> Iterator[SparkSession]:
    """A session for one answer, ended afterwards if it was started here."""
    running = SparkSession.getActiveSession()
    spark = running or quiet_session({})
    try:
        yield spark
    finally:
        if running is None:
            end_spark(spark)


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of Ctrl-C that is there: PySpark's own would cancel the jobs of the epoch under way."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _stderr_aside() -> Iterator[None]:
    """Processes started in the block inherit a file as their stderr."""
    global _chatter  # noqa: PLW0603
    if os.environ.get("BELVEDERE_TRACEBACK"):
        yield
        return
    _chatter = _chatter or tempfile.TemporaryFile()  # noqa: SIM115
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(_chatter.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def last_words() -> str | None:
    """The end of what the JVM has written to stderr."""
    if _chatter is None:
        return None
    _chatter.seek(0, os.SEEK_END)
    _chatter.seek(max(0, _chatter.tell() - LAST_WORDS))
    return _chatter.read().decode(errors="replace").strip() or None


def jvm_of(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The process of the session's JVM, where this process started it."""
    found: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return found


def end_spark(spark: SparkSession) -> None:
    """Stop the session and see its JVM off within `ENDING` seconds; it may be gone already."""
    process = jvm_of(spark)
    end = time.monotonic() + ENDING
    if process is None or process.poll() is None:
        stopping = threading.Thread(target=_stop, args=(spark,), daemon=True)
        stopping.start()
        stopping.join(None if process is None else ENDING * 2 / 3)
    if process is None:
        return
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends when this pipe does
    try:
        process.wait(timeout=max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # py4j has many ways to say that the other side is gone
        spark.stop()
