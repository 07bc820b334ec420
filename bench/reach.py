"""`python -m bench.reach`: the cost of a change of few rows for a view with WINDOW BY, by length of the partition.

In: lengths of the partition, kinds of windows. Out: a table on stdout. It measures whole epochs of the engine, the
median of some, that update neighbouring rows in the middle of the only partition. "Around" is the default rule, which
recomputes the windows that the change can reach. "Partition" is `without("windows", "frames", "running")`, which
recomputes the partition. One run measures both.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import chain

import numpy as np
import pyarrow as pa

from belvedere.pipeline.choose import without
from belvedere.rules.options import Options
from bench.running import median, timed

TABLE = "CREATE TABLE T (k INT, n INT NOT NULL, x INT, PRIMARY KEY (k, n));\n"
HEAD = "V := FROM T AS r WINDOW BY w PARTITION BY r.k ORDER BY r.n TYPE "
SELECT = " SELECT s.n, LEN(w) AS size, ARRAY_SUM(w[*].x) AS total;"
KINDS: Mapping[str, str] = {
    "sliding, class a": "SLIDING START AS s WHEN s.x < 50 END NEXT AS e WHEN e.x >= 50",
    "tumbling": "TUMBLING START AS s WHEN s.x < 50 END NEXT AS e WHEN e.x >= 50",
    "tumbling, looking back": "TUMBLING START AS s PREV AS p WHEN s.x < p.x",
    "labels": "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 5 END AT ep WHEN ep - lp = 5",
}


def rows(first: int, last: int, seed: int) -> pa.Table:
    """Return rows `first` to `last` of the partition, with values from 0 to 99."""
    count = last - first
    values = np.random.default_rng(seed).integers(0, 100, count, dtype=np.int32)
    return pa.table({"k": np.zeros(count, np.int32), "n": np.arange(first, last, dtype=np.int32), "x": values})


def epochs(kind: str, length: int, changed: int, count: int, options: Options) -> list[float]:
    """Return the seconds of `count` epochs that change `changed` rows of a partition of this length."""
    middle = length // 2
    changes = (
        rows(middle, middle + changed, n) for n in range(1, count + 3)
    )  # two warm up (and find out where windows end)
    return timed(TABLE + HEAD + KINDS[kind] + SELECT, options, chain((rows(0, length, 0),), changes))[3:]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reach", description="measure changes of views with WINDOW BY"
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000], help="rows of the partition")
    parser.add_argument("--changed", type=int, default=10, help="rows an epoch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=[""], help="kinds whose names begin so")
    given = parser.parse_args()
    print("{:<24}{:>12}{:>12}{:>12}".format("windows", "rows", "around", "partition"))
    for kind in KINDS:
        if not any(kind.startswith(k) for k in given.kinds):
            continue
        for length in given.rows:
            around, partition = (
                median(epochs(kind, length, given.changed, given.epochs, o))
                for o in (Options(), without("windows", "frames", "running"))
            )
            print(f"{kind:<24}{length:>12,}{around:>12.2f}{partition:>12.2f}", flush=True)


if __name__ == "__main__":
    main()
