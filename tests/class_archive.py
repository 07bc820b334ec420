"""An archive of the classes that Spark loads: the JVMs that tests start read them from it, in half the processor time.

In: a folder that outlives the run. Out: the archive's path, and the archive there. The first run of `make test` on a Java and a Spark
makes it beside the tests; until it is there, and where it does not fit, Java loads classes as ever and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from belvedere.errors import BelvedereError
from belvedere.spark import class_archive

SCRIPT = """
CREATE TABLE T (k INT PRIMARY KEY, g INT, s STRING, t TIMESTAMP);
CREATE STREAM S (g INT, d DOUBLE, t TIMESTAMP, WATERMARK FOR t);
Sums := SELECT g, count(*) AS n, sum(k) AS total, median(k) AS middle FROM T GROUP BY g;
Pairs := SELECT T.k, S.d FROM T LEFT JOIN S ON T.g = S.g;
Ranks := SELECT k, rank() OVER (PARTITION BY g ORDER BY t, k) AS place FROM T;
Parts := SELECT wend, max(d) AS most FROM Tumble(data => TABLE(S), timecol => DESCRIPTOR(t), dur => INTERVAL '1' HOUR) GROUP BY wend;
Most := SELECT k, upper(s) AS s FROM T WHERE k > 1 ORDER BY k DESC LIMIT 2;
"""


def archive_in(folder: Path) -> Path | None:
    """Where the archive of this Java and this Spark is, or will be; None where there can be none."""
    try:
        return class_archive.archive_in(folder)
    except BelvedereError:
        return None


def start_making(archive: Path) -> subprocess.Popen[bytes]:
    """Make the archive in a process of its own."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    nothing = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-m", __name__, str(archive)], stdin=nothing, stdout=nothing, stderr=nothing)


def make(archive: Path) -> None:
    """Run some epochs in a JVM that writes down its classes at its end; the archive is whole or not there."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    options = os.environ["PYSPARK_SUBMIT_ARGS"].replace(str(archive), str(unfinished))
    os.environ["PYSPARK_SUBMIT_ARGS"] = options.replace("-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit=")
    try:
        java = _run_epochs()
        java.stdin.close()
        if java.wait() == 0:  # a JVM does not start with half an archive
            unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)


def _run_epochs() -> Any:
    """The process of the JVM, which ends once its input does."""
    from belvedere import Workbench

    wb = Workbench(SCRIPT)
    for epoch in range(3):
        wb.clock(f"2024-05-01 11:0{epoch}:00")
        wb.insert("T", [{"k": n, "g": n % 2, "s": "a", "t": "2024-05-01 10:00:00"} for n in range(epoch, 5)])
        wb.insert("S", [{"g": 1, "d": 0.5, "t": f"2024-05-01 1{epoch}:00:00"}])
        wb.step()
    for view in wb.catalog.views:
        wb.batch(view)
    context = wb.spark.sparkContext
    wb.close()
    wb.spark.stop()
    return context._gateway.proc  # type: ignore[union-attr]


if __name__ == "__main__":
    make(Path(sys.argv[1]))
