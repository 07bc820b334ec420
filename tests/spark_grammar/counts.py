"""Counts of random queries that Spark accepts and `check` rejects, by diagnostic: a file, and a table of
`docs/reference/sql.md`.

In: judged queries. Out: counts; Markdown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.spark_grammar.verdicts import Judged

ALL = 2_000
MAX_REFUSED = 0.05
BAR = r"\|"
FILE = Path(__file__).with_name("counts.json")


@dataclass(frozen=True)
class Counts:
    """`accepted`: queries that Spark takes, and answers alike each time; `refused`: those of them that `check` refuses,
    by diagnostic."""

    queries: int
    accepted: int
    refused: dict[str, int]

    @property
    def refused_share(self) -> float:
        return sum(self.refused.values()) / max(1, self.accepted)


def counted(judged: Iterable[Judged]) -> Counts:
    """The counts of these queries."""
    refused: Counter[str] = Counter()
    queries = accepted = 0
    for j in judged:
        queries += 1
        accepted += j.is_query
        if j.is_query and j.ours.refused:
            refused[f"{j.ours.refused} {general(j.ours.text)}"] += 1
    return Counts(queries, accepted, dict(sorted(refused.items(), key=lambda item: (-item[1], item[0]))))


def general(message: str) -> str:
    """A message without the names in it."""
    text = re.sub(r"`[^`]*`|\"[^\"]*\"|'[^']*'", "...", message)
    return re.sub(r"\b(an? )?(STRUCT|MAP|ARRAY)<.*", "a nested type", text)


def write_counts(counts: Counts) -> None:
    """Write the file."""
    FILE.write_text(json.dumps(asdict(counts), indent=1) + "\n", encoding="utf-8")


def read_counts() -> Counts:
    """What the file says."""
    return Counts(**json.loads(FILE.read_text(encoding="utf-8")))


def counts_section() -> list[str]:
    """The table of the page."""
    counts = read_counts()
    total = sum(counts.refused.values())
    lines = [
        "",
        "## Random queries beside Spark",
        "",
        f"Spark's analyzer accepts {counts.accepted:,} of {counts.queries:,} random queries of its grammar.",
        f"Belvedere rejects {total} of these ({counts.refused_share:.1%}). All other results are Spark's "
        "(`tests/spark_grammar`).",
        "",
        "| refused | queries |",
        "|---|---|",
    ]
    return [*lines, *(f"| {text.replace('|', BAR)} | {n} |" for text, n in counts.refused.items())]
