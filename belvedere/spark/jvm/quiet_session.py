"""Spark for the command line: a session whose JVM prints nothing to the terminal, and its end.

In: the `[spark]` settings of the project file. Out: a session. The JVM's stderr goes to an unnamed file; its last lines
are reported if the JVM dies.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from belvedere.connectors.executor_tasks import is_local
from belvedere.process.activity import NOW
from belvedere.process.temporary_folders import temporary_folder
from belvedere.spark.cluster import cluster_settings, master_of, not_started
from belvedere.spark.jvm.class_archive import LATER, LIGHT, MAX_WRITE_SECONDS, OPTIONS, SHORT, ClassArchive
from belvedere.spark.session import DRIVER_OPTIONS, local_session, make_session

OWN_SETTINGS = ("master", "spark.master", "cores", "memory", "trigger", "clock", "retry", "wait", "start")
"""Settings of `[spark]` that are not Spark's own."""
MIN_RESULT_BYTES = 16 << 20
"""Minimum limit in bytes for a result, for any memory.

Results that are not rows, such as a listing of files, have no other path.
"""
LAST_WORDS = 2000
ENDING = 0.4
"""Seconds that the JVM has to end by itself. A run ends within two seconds of its last epoch."""

_chatter: IO[bytes] | None = None
_folder: str | None = None


def quiet_session(
    settings: Mapping[str, str], driver_memory: int | None = None, options: str | None = None
) -> SparkSession:
    """Return a session with the settings of the project file: `master`, `cores`, `memory`, `start`, and Spark's own by
    their names.

    `options` are those of the JVM; by default it reads its classes from the archive, if there is one. Results of more
    bytes than a quarter of `driver_memory` do not come to the driver: Spark rejects them, and executors write them to
    files.
    """
    largest = (
        {} if driver_memory is None else {"spark.driver.maxResultSize": str(max(MIN_RESULT_BYTES, driver_memory // 4))}
    )
    given = largest | {k: v for k, v in settings.items() if k not in OWN_SETTINGS}
    compiling = LIGHT if settings.get("start") == "quick" else LATER
    java = {OPTIONS: options if options is not None else f"{compiling} {ClassArchive().options()}".strip()}
    folder = _own_folder()
    if DRIVER_OPTIONS in folder and DRIVER_OPTIONS in given:
        given[DRIVER_OPTIONS] = f"{folder[DRIVER_OPTIONS]} {given[DRIVER_OPTIONS]}"
    extra = {"spark.log.level": "OFF", **folder, **{n: o for n, o in java.items() if o}} | given
    master, cores = master_of(settings), settings.get("cores")
    with NOW.meanwhile("starting Spark"), _stderr_aside(), _own_interrupts():
        if master is None:
            return local_session(int(cores) if cores else None, settings.get("memory", "4g"), extra)
        return _session_of(master, settings, extra)


def _session_of(master: str, settings: Mapping[str, str], extra: Mapping[str, str]) -> SparkSession:
    """Return a session on the named master. Raises B7035 if it cannot be reached."""
    own = cluster_settings(master, settings)
    if not is_local(master):
        extra = {
            k: v for k, v in extra.items() if k != "spark.local.dir" or k in settings
        }  # executors have folders of their own
    try:
        return make_session(master, own | dict(extra))
    except (PySparkException, Py4JError) as error:
        raise not_started(master, error) from error


@contextlib.contextmanager
def batch_session(
    settings: Mapping[str, str] | None = None, driver_memory: int | None = None
) -> Iterator[SparkSession]:
    """Open a session for one answer, with settings as in `quiet_session`.

    It is ended afterwards if it was started here.
    """
    running = SparkSession.getActiveSession()
    spark = running or quiet_session(settings or {}, driver_memory)
    try:
        yield spark
    finally:
        if running is None:
            end_spark(spark)


@contextlib.contextmanager
def short_session(notify: Callable[[str], None] = lambda text: None) -> Iterator[SparkSession]:
    """Yield a session for small data, which compiles less.

    The first one writes the archive of Spark's classes at its end, and reports it.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    archive = ClassArchive()
    writing = archive.writing()
    spark = quiet_session({}, options=f"{SHORT} {writing or archive.options()}".strip())
    try:
        yield spark
    finally:
        if writing is not None:
            notify("writing an archive of Spark's classes, once: later starts take a third of the time")
            archive.written(_ends_by_itself(spark))
        end_spark(spark)


def _ends_by_itself(spark: SparkSession) -> bool:
    """Return whether the session's JVM has ended, including its shutdown work."""
    process = jvm_of(spark)
    if process is None:
        return False
    let_spark_go(spark)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=MAX_WRITE_SECONDS) == 0
    return False


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the present handler of Ctrl-C. PySpark's own handler would cancel the jobs of the running epoch."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _stderr_aside() -> Iterator[None]:
    """Redirect the stderr of processes started in the block to a file."""
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
    """Return the end of the JVM's output on stderr."""
    if _chatter is None:
        return None
    _chatter.seek(0, os.SEEK_END)
    _chatter.seek(max(0, _chatter.tell() - LAST_WORDS))
    return _chatter.read().decode(errors="replace").strip() or None


def jvm_of(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """Return the process of the session's JVM if this process started it."""
    found: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return found


def silence_py4j() -> None:
    """Silence py4j, which would print errors as tracebacks: callers report Spark's errors once, and ignore calls to a
    stopped JVM."""
    for name in (None, "py4j", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_is_no_call)  # once, even if it is requested several times


def _is_no_call(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _let_counts_go(spark: SparkSession) -> None:
    """Silence the end of the connection over which the JVM passes on the counts of Python workers."""
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def let_spark_go(spark: SparkSession) -> None:
    """Stop the session's JVM without waiting for it."""
    silence_py4j()
    _let_counts_go(spark)
    process = jvm_of(spark)
    if process is not None and process.stdin is not None:
        process.stdin.close()  # the JVM ends when this pipe does


def end_spark(spark: SparkSession) -> None:
    """Wait up to `ENDING` seconds for the end of the session's JVM, which may have ended already.

    Its data is no longer needed.
    """
    process = jvm_of(spark)
    if process is None:  # another user's
        spark.stop()
        return
    let_spark_go(spark)
    try:
        process.wait(timeout=ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _forget_session()
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)


def _forget_session() -> None:
    """Make the next session start a JVM of its own. PySpark would treat the ended one as running."""
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _own_folder() -> dict[str, str]:
    """Return settings that put the JVM's temporary files into a folder that is deleted with the JVM, even after a
    crash."""
    global _folder  # noqa: PLW0603
    _folder = str(temporary_folder("spark-"))
    settings = {"spark.local.dir": _folder}
    if _folder.split() == [_folder]:
        settings[DRIVER_OPTIONS] = f"-Djava.io.tmpdir={_folder}"
    return settings
