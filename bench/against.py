"""`python -m bench.against COMMIT MODULE [ARGUMENTS]`: compare a measurement of this tree with one of an older commit.

In: a commit, a module of `bench` that writes its results as JSON, its arguments. Out: a table of each figure then and
now, the medians over the rounds, in which both trees take turns. The commit is checked out into a temporary worktree
and runs in the same environment.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
RESULTS = Path("bench", "results")
Figures = dict[tuple[str, str], list[float]]
"""Measured values: the figure's name -> one value per round."""


def run(tree: Path, module: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the results that a measurement of one tree has written."""
    for old in (tree / RESULTS).glob("*.json"):
        old.unlink()
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    found: list[dict[str, Any]] = []
    for path in sorted((tree / RESULTS).glob("*.json")):
        found += json.loads(path.read_text())
    return found


def add(figures: Figures, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add the decimal figures of each row; its other values are labels."""
    for row in rows:
        what = ", ".join(f"{n} {v:,}" if isinstance(v, int) else str(v) for n, v in row.items() if is_label(n, v))
        for name, value in row.items():
            if isinstance(value, float):
                figures.setdefault((what, name), []).append(value)


def is_label(name: str, value: Any) -> bool:
    """Return whether a value names the measured case, and is not a count of epochs or rows that depends on the time."""
    return isinstance(value, str) or (
        isinstance(value, int) and name in ("rows_per_epoch", "events_per_epoch", "state_events", "events")
    )


def table_of(then: Figures, now: Figures, commit: str) -> Table:
    """Return a table of the figures that both trees have."""
    table = Table("what", "figure", commit, "now", "now / then")
    for what, name in now:
        if (what, name) in then:
            before, after = median(then[what, name]), median(now[what, name])
            ratio = f"{after / before:.2f}" if before else ""
            table.add_row(what, name.replace("_", " "), f"{before:,.2f}", f"{after:,.2f}", ratio)
    return table


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("module", help="bench, bench.nexmark, ...")
    parser.add_argument("--turns", type=int, default=1)
    given, arguments = parser.parse_known_args()
    then: Figures = {}
    now: Figures = {}
    with tempfile.TemporaryDirectory(prefix="belvedere-against-") as folder:
        tree = Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), given.commit], cwd=ROOT, check=True)
        try:
            for _ in range(given.turns):
                add(then, run(tree, given.module, arguments))
                add(now, run(ROOT, given.module, arguments))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False)
    Console().print(table_of(then, now, given.commit))


if __name__ == "__main__":
    main()
