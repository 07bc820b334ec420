"""`python -m bench.editor SCRIPT`: milliseconds from a key to an editor's answers, over edits of a script at random
positions.

At each position some characters are typed, one after another, and removed again. After each the names are completed,
the script is compiled for its diagnostics, and the name is shown. The aim: all below 100 ms on the largest example.
Processor time is reported next to elapsed time, because on a busy machine the same work takes longer.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from belvedere.editor.completion import complete
from belvedere.editor.document import Document
from belvedere.editor.garbage_collection import collect, collect_when_asked
from belvedere.editor.hover import explained, hover
from belvedere.editor.problems import diagnostics

TYPED = (" -- seen", "\n\n", "x", ", 1 AS one", "(", "'", "SELECT ", "X := SELECT 1 AS a;\n")
Times = list[tuple[float, float]]


def measure(path: Path, places: int, seed: int) -> dict[str, Times]:
    """Return milliseconds of elapsed and of processor time, by kind of request."""
    chance, whole = random.Random(seed), path.read_text(encoding="utf-8")
    document = Document(path.resolve(), whole)
    if not document.compile().ok:
        raise SystemExit(f"{path} has errors: are its data prepared?")
    explained(document)
    collect_when_asked()
    found: dict[str, Times] = {"completion": [], "diagnostics": [], "hover": []}
    for at, text in _typed(chance, whole, places):
        document.change(text)
        found["completion"].append(_milliseconds(lambda at=at: complete(document, at)))  # type: ignore[misc]
        found["diagnostics"].append(_milliseconds(lambda: diagnostics(document)))
        explained(document)  # as the server does once diagnostics are published
        collect()
        found["hover"].append(_milliseconds(lambda at=at: hover(document, at)))  # type: ignore[misc]
    return found


def _typed(chance: random.Random, whole: str, places: int) -> Iterator[tuple[int, str]]:
    """Yield texts that differ by one key, each with the position of the key."""
    for _ in range(places):
        at, typed = chance.randrange(len(whole)), chance.choice(TYPED)
        for n in (*range(1, len(typed) + 1), *range(len(typed) - 1, -1, -1)):
            yield at + n, whole[:at] + typed[:n] + whole[at:]


def _milliseconds(work: Callable[[], object]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - clock) * 1000, (time.process_time() - processor) * 1000


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.editor", description="measure what an editor waits for after a key"
    )
    parser.add_argument("script", type=Path, nargs="?", default=Path("examples/nexmark/nexmark.sqrl"))
    parser.add_argument("--places", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name, both in measure(options.script, options.places, options.seed).items():
        for unit, times in zip(("clock", "processor"), zip(*both, strict=True), strict=True):
            ordered = sorted(times)
            p50, p95 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
            print(f"{name:<12} {unit:<9} p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  max {ordered[-1]:6.1f} ms")


if __name__ == "__main__":
    main()
