"""`python -m bench.compiling`: processor seconds to parse, compile and `belvedere check` many views.

The targets: 200 views compile in less than 2 s, `belvedere check` of 50 takes less than 1 s including the start of the
interpreter.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from belvedere.compiler import compile_script
from belvedere.syntax.parse import parse_script

VIEW = """
V{n} := SELECT s.machineid, minute(r.time) AS time, avg(r.temp) AS temp, max(r.temp) AS max_temp, s.sensorid
FROM Sensors s JOIN V{m} r ON r.sensorid = s.sensorid AND r.time + 24 HOUR >= now()
WHERE s.active AND r.temp BETWEEN 1 AND 100
GROUP BY s.machineid, time, s.sensorid
"""
INPUTS = """CREATE TABLE Sensors (sensorid INT, machineid INT, active BOOLEAN, PRIMARY KEY (sensorid))
CREATE STREAM V0 (sensorid INT, time TIMESTAMP, temp DOUBLE) KEEP 7 DAYS
"""


def script_of(views: int) -> str:
    """Return a script of views that build on each other, each with a join, a filter on the clock and an aggregate."""
    return INPUTS + "".join(VIEW.format(n=n, m=n - 1) for n in range(1, views + 1))


def check(text: str) -> float:
    """Return the processor seconds of the whole command in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "views.sqrl"
        script.write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "belvedere.cli", "check", str(script)], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _here(work: Callable[[str], object]) -> Callable[[str], float]:
    def seconds(text: str) -> float:
        started = time.process_time()
        work(text)
        return time.process_time() - started

    return seconds


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compiling", description="measure the compiler")
    parser.add_argument("--views", type=int, nargs="+", default=[50, 200], help="views of a script")
    parser.add_argument("--times", type=int, default=3, help="number of runs of each; the least time counts")
    options = parser.parse_args()
    works = {"read": _here(parse_script), "compile": _here(compile_script), "belvedere check": check}
    for views in options.views:
        for name, work in works.items():
            print(
                f"{views:>6} views  {name:<16} {min(work(script_of(views)) for _ in range(options.times)):6.2f} s of "
                "the processor"
            )


if __name__ == "__main__":
    main()
