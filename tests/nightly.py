"""The long tests in separate slices: `make nightly SLICE=kills`.

In: the names of slices, or none for all of them. Out: each slice run by pytest within its minutes, a table at the end,
and exit code 1 if one failed. A slice takes its test files in the order of a seed, the date, until its minutes are
over: what does not fit today has its turn on another day.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Slice:
    """Test files by patterns, and the minutes that they may take on two cores."""

    minutes: float
    patterns: tuple[str, ...]


KILLS = (
    "*kill*",
    "tests/run/test_faults*",
    "tests/kafka/test_long*",
    "tests/kafka/test_rebalanced*",
    "tests/backups/*",
)


def folders(names: str) -> tuple[str, ...]:
    """The files of folders of tests, whose names are separated by spaces."""
    return tuple(f"tests/{name}/*" for name in names.split())


SLICES = {
    "kills": Slice(20, KILLS),
    "language": Slice(
        12,
        folders(
            "lang lang_lower compatibility functions spark_grammar random_sql sqrl plan editor language_server "
            "scenarios"
        ),
    ),
    "rules": Slice(14, folders("rules engine spark state store optimize nexmark")),
    "time": Slice(12, folders("event_time intake")),
    "windows": Slice(14, folders("window_by spl")),
    "answers": Slice(12, folders("api clients console provenance frames")),
    "world": Slice(
        16, folders("connectors feeds kafka postgres sinks run commands cluster deploy docs examples project")
    ),
}
"""A file belongs to the first slice that has a pattern for it."""


def slice_of(file: str) -> str | None:
    """The slice of a test file, a path from the top of the clone."""
    return next((name for name, s in SLICES.items() if any(fnmatch(file, p) for p in s.patterns)), None)


def files_of(name: str) -> list[str]:
    """The test files of a slice."""
    found = (str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests").glob("**/test_*.py")))
    return [f for f in found if slice_of(f) == name]


def run(arguments: list[str], workers: int) -> tuple[bool, float]:
    """Whether the long tests among `arguments`, which are pytest's, passed, and the minutes that they took."""
    started = time.monotonic()
    options = ["-m", "nightly or deep", "-n", str(workers), "--dist", "worksteal", "--timeout=3600", "-q"]
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": "pyspark-shell"}  # Spark as it is in production
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments], cwd=ROOT, env=environment, check=False
    )
    return done.returncode in (0, 5), (time.monotonic() - started) / 60  # 5: nothing was selected


def run_slices(names: list[str], workers: int) -> bool:
    """Run slices one after the other, and print a table of them; whether all passed."""
    results = {}
    seed = date.today().isoformat()  # one for all slices and workers, also where midnight passes
    for name in names:
        print(f"\n=== {name}: up to {SLICES[name].minutes:g} minutes", flush=True)
        results[name] = run(["--sample", str(SLICES[name].minutes), "--seed", seed, *files_of(name)], workers)
    print()
    for name, (passed, minutes) in results.items():
        print(f"{name:9} {minutes:5.1f} of {SLICES[name].minutes:3g} minutes  {'passed' if passed else 'FAILED'}")
    return all(passed for passed, _ in results.values())


def print_slices() -> None:
    for name, found in SLICES.items():
        print(f"{name:9} {found.minutes:3g} minutes, {len(files_of(name))} files")


def main(arguments: list[str]) -> int:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        prog="make nightly", description="the long tests, in slices, or those that pytest's arguments after -- select"
    )
    parser.add_argument("slices", nargs="*", metavar="SLICE", help=f"one of: {', '.join(SLICES)}")
    parser.add_argument("--workers", type=int, default=2)
    given, selected = parser.parse_args(arguments[:cut]), arguments[cut + 1 :]
    if any(name not in SLICES for name in given.slices):
        print_slices()
        return 0 if given.slices == ["?"] else 2
    passed = run(selected, given.workers)[0] if selected else run_slices(given.slices or list(SLICES), given.workers)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
