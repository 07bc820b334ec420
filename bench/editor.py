"""`python -m bench.editor SCRIPT`: milliseconds from a key to the answers of an editor, over random edits of a script.

Each edit puts a character in or takes some out; then the names at the place are completed, and the script is compiled for its diagnostics.
The aim: both below 100 ms on the largest example.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path

from belvedere.editor.completion import complete
from belvedere.editor.document import Document
from belvedere.editor.hover import hover
from belvedere.editor.problems import diagnostics

TYPED = ("", ".", "a", "(", ",", " ", "'", "SELECT ")


def measure(path: Path, edits: int, seed: int) -> dict[str, list[float]]:
    """Milliseconds by what was asked."""
    chance, whole = random.Random(seed), path.read_text(encoding="utf-8")
    document = Document(path.resolve(), whole)
    document.compile()
    hover(document, len(whole) // 2)  # plans the views once
    found: dict[str, list[float]] = {"complete": [], "hover": [], "diagnostics": []}
    for _ in range(edits):
        at = chance.randrange(len(whole))
        document.change(whole[:at] + chance.choice(TYPED) + whole[at + chance.choice((0, 0, 1, 5)) :])
        found["complete"].append(_milliseconds(lambda at=at: complete(document, at + 1)))  # type: ignore[misc]
        found["diagnostics"].append(_milliseconds(lambda: diagnostics(document)))
        found["hover"].append(_milliseconds(lambda at=at: hover(document, at)))  # type: ignore[misc]
    return found


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.editor", description="measure what an editor waits for after a key")
    parser.add_argument("script", type=Path, nargs="?", default=Path("examples/nexmark/nexmark.sqrl"))
    parser.add_argument("--edits", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name, times in measure(options.script, options.edits, options.seed).items():
        times.sort()
        p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
        print(f"{name:<12} p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  max {times[-1]:6.1f} ms")


if __name__ == "__main__":
    main()
