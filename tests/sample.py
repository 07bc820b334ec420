"""A part of many tests, different each day: files in a seeded order until a time limit.

In: `--sample MINUTES` and perhaps `--seed`, given by `make nightly`. Out: tests that are not begun after that time are
skipped, with the reason. The seed is the date, and is printed: `--seed 2026-11-27` runs the same files again.
"""

from __future__ import annotations

import time
from datetime import date
from random import Random

import pytest


class Sample:
    """Orders files by a seed, and begins no test later than `minutes` after the collection."""

    def __init__(self, minutes: float, seed: str | None):
        self.minutes = minutes
        self.seed = seed or date.today().isoformat()
        self.end = 0.0

    def pytest_report_header(self) -> str:
        return f"sample of {self.minutes:g} minutes: --seed {self.seed}"

    @pytest.hookimpl(trylast=True)  # of what is selected
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files = sorted({item.path for item in items})
        Random(self.seed).shuffle(files)
        place = {path: n for n, path in enumerate(files)}
        items.sort(key=lambda item: place[item.path])  # stable: within a file the order stays
        self.end = time.monotonic() + self.minutes * 60

    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.end:
            pytest.skip(f"its turn is on another day: the {self.minutes:g} minutes are over (--seed {self.seed})")
