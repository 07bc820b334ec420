"""What a run of tests may take: the minutes of all, the seconds of one.

In: `--budget MINUTES` and `--nearly-all SECONDS`, given by the Makefile. Out: the slowest tests at the end; a run that
took longer fails, with the names.

A busy machine makes everything slower, so the limits grow with its load. A test without a JVM only computes: the
seconds that such tests take, divided by the processor's seconds, measure the load.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

LONGEST = 20.0
"""Seconds of one test, or of what is made ready for it and the tests beside it."""
NEARLY_ALL = 0.95
"""The part of all tests that ends within the seconds of `--nearly-all`."""
SHOWN = 10
BUSIEST = 4.0
"""Limits grow no further than this."""
NEED_MORE = ("spark", "postgres", "browser", "node", "kafka", "cluster")
"""Tests with these marks wait for other processes."""


class Budget:
    """Adds up what tests take, in the process that reports. Where `minutes` is None, nothing is too long.

    `seconds` are those within which nearly all tests must end, if any. All limits are multiplied by `slower`.
    """

    def __init__(self, minutes: float | None, seconds: float | None = None, slower: float = 1.0):
        self.minutes, self.seconds, self.slower = minutes, seconds, slower
        self.started = time.monotonic()
        self.phases: dict[str, dict[str, float]] = defaultdict(dict)
        self.waited = self.worked = 0.0
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.phases[report.nodeid][report.when] = report.duration
        worked = dict(report.user_properties).get("processor seconds")
        if report.when == "call" and isinstance(worked, float):
            self.waited += report.duration
            self.worked += worked

    @property
    def busy(self) -> float:
        """How much longer than on an idle machine things take; 1 and more."""
        return min(BUSIEST, max(1.0, self.waited / self.worked)) if self.worked > 1 else 1.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.broken = list(self._broken()) if self.phases and self.minutes is not None else []
        if self.broken and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _broken(self) -> Iterator[str]:
        busy, minutes, most = self.busy * self.slower, (time.monotonic() - self.started) / 60, self.minutes or 0.0
        if minutes > most * busy:
            yield f"all took {minutes:.1f} minutes, and may take {most * busy:.1f}"
        for test, phases in self.phases.items():
            for phase, seconds in phases.items():
                if seconds > LONGEST * busy:
                    yield f"{test} ({phase}) took {seconds:.1f} seconds, and may take {LONGEST * busy:.1f}"
        if self.seconds is not None and self._nearly_all > self.seconds * busy:
            yield (
                f"{NEARLY_ALL:.0%} of all took up to {self._nearly_all:.2f} seconds, and may take "
                f"{self.seconds * busy:.2f}"
            )

    @property
    def _nearly_all(self) -> float:
        seconds = sorted(sum(p.values()) for p in self.phases.values())
        return seconds[int(len(seconds) * NEARLY_ALL)] if len(seconds) > 1 else 0.0

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.phases:
            return
        terminalreporter.section(f"slowest {SHOWN} of {len(self.phases)} tests")
        slowest = sorted(self.phases.items(), key=lambda kv: -sum(kv[1].values()))[:SHOWN]
        for test, phases in slowest:
            terminalreporter.write_line(f"{sum(phases.values()):6.1f} s  {test}")
        terminalreporter.write_line(
            f"{NEARLY_ALL:.0%} within {self._nearly_all:.2f} s; the machine makes all {self.busy:.1f} times slower"
        )
        for line in self.broken:
            terminalreporter.write_line(f"over the budget: {line}", red=True)


class ProcessorSeconds:
    """Notes for a test that needs nothing but this process how long the processor worked for it."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        started = time.process_time()
        yield
        if not any(item.get_closest_marker(m) for m in NEED_MORE):
            item.user_properties.append(("processor seconds", time.process_time() - started))
