"""`python -m bench.one_partition`: the gain of more cores if WINDOW BY cuts one huge partition into blocks.

Each query runs over one partition with one thread, so that tasks do not disturb each other, planned as for `cores`
cores. Spark reports the duration of each task; a list schedule of each stage's tasks over the cores, longest first,
gives the duration of the job there. "One task" is the same with blocks turned off. Memory is the maximum of Python's
workers, in MB.
"""

from __future__ import annotations

import argparse
import gc
import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from belvedere.spark.session import local_session
from belvedere.spark.window_by.long_partitions import find_giant
from bench.window_by import contests, in_any_order, rows, spark_sum

ROW = "{:<22}{:>8}{:>12}{:>12}{:>10}{:>10}"
NAMES = ("11 one week", "12 AVG of 1000", "13 while below 900", "15 blocks of 20", "17 neighbours")


def makespan(durations: Sequence[float], cores: int) -> float:
    """Return the seconds until all tasks are done, each on the first free core."""
    free = [0.0] * cores
    for duration in sorted(durations, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def stages_since(spark: Any, first: int) -> Iterator[list[float]]:
    """Yield the seconds of the tasks of each stage from number `first` on."""
    store = spark.sparkContext._jsc.sc().statusStore()
    number = first
    while True:
        try:
            tasks = store.taskList(number, 0, 100_000)
            done = [tasks.apply(n).duration() for n in range(tasks.size())]
        except Exception:  # a stage that was skipped has no data
            done = []
        known = [d.get() / 1000 for d in done if d.isDefined()]
        if number >= first + 200:
            return
        if known:
            yield known
        number += 1


def peak() -> float:
    """Return the maximum memory of Python workers below this process, in MB (Linux)."""
    most = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            text, command = path.read_text(), (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if b"pyspark" in command and b"daemon" in command:
            most = max(most, int(text.partition("VmHWM:")[2].split()[0]))
    return most / 1024


@contextmanager
def planned_for(cores: int, blocks: bool) -> Iterator[None]:
    """Plan blocks as for a session with `cores` cores, or none."""
    place, given = "belvedere.spark.window_by", find_giant
    with ExitStack() as changed:
        changed.enter_context(
            patch(f"{place}.cuts.find_giant", lambda frame, keys, lead, _: given(frame, keys, lead, cores))
        )
        if not blocks:
            changed.enter_context(patch(f"{place}.windows.cut_giant", lambda frame, node: None))
        yield


def measured(text: str, count: int, cores: int, blocks: bool) -> tuple[float, float, float]:
    """Return the seconds on `cores` cores, memory in MB, and the checksum."""
    spark = local_session(
        1, "6g", {"spark.default.parallelism": str(cores), "spark.sql.shuffle.partitions": str(cores)}
    )
    try:
        frame = rows(spark, count, 1).cache()
        frame.count()
        with planned_for(cores, blocks):
            spark_sum(in_any_order(spark, text, {"ghcn": frame.limit(1000)}))  # starts Python's workers
            first = spark.sparkContext._jsc.sc().dagScheduler().nextStageId()
            answer = spark_sum(in_any_order(spark, text, {"ghcn": frame}))
        return sum(makespan(s, cores) for s in stages_since(spark, first)), peak(), answer
    finally:
        spark.stop()
        gc.collect()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.one_partition", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[4, 8])
    given = parser.parse_args()
    print(ROW.format("query", "cores", "one task", "blocks", "gain", "MB"))
    for contest in contests([1_000], [900]):
        if contest.name not in NAMES:
            continue
        for cores in given.cores:
            one, _, requested = measured(contest.window_by, given.rows, cores, blocks=False)
            many, memory, found = measured(contest.window_by, given.rows, cores, blocks=True)
            assert abs(found - requested) <= 1e-6 * max(1.0, abs(requested)), (found, requested)
            shown = f"{one:.2f}", f"{many:.2f}", f"{one / many:.2f}", f"{memory:.0f}"
            print(ROW.format(contest.name, cores, *shown), flush=True)


if __name__ == "__main__":
    main()
