"""The tests of `make test` that need Spark, Postgres or a browser, and the features that they cover.

A test says by `@pytest.mark.smoke("rule linear", "command run")` what it runs for real; `tests/project/test_smoke.py`
compares that with the registries of rules, connectors, commands and databases. A test that only helps to find faults
soon has the mark without a name.
"""

from __future__ import annotations

import pytest

SHOWN = pytest.StashKey[dict[str, list[str]] | None]()
"""The tests by what they show; None where not all tests were collected."""


def note_smoke_tests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what the marked tests of a whole collection show."""
    shown: dict[str, list[str]] = {}
    for item in items:
        for mark in item.iter_markers("smoke"):
            for name in mark.args:
                shown.setdefault(name, []).append(item.nodeid)
    is_whole = list(config.args) == list(config.getini("testpaths"))
    config.stash[SHOWN] = shown if is_whole else None
