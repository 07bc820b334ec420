"""What the pages tell a newcomer to type exists, and .ci/run is made of it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/reference/measurements.md", ".ci/run"])
def test_every_target_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(), re.MULTILINE))
    assert named
    assert named <= TARGETS


def test_make_alone_lists_the_targets() -> None:
    listed = set(re.findall(r"^make ([a-z-]+) +\S", make().stdout, re.MULTILINE))
    assert listed == TARGETS


def test_run_is_the_sensor_example_on_the_port_that_one_asks_for() -> None:
    planned = make("-n", "run", "PORT=9999", "STORE=sqlite:///x.db").stdout
    assert "belvedere run examples/iot/iot.sqrl --port 9999 --store sqlite:///x.db" in planned


def test_setting_up_again_takes_no_time() -> None:
    ready = ROOT / ".venv" / ".ready"
    if not ready.exists() or ready.stat().st_mtime <= (ROOT / "pyproject.toml").stat().st_mtime:
        pytest.skip("make setup has not been run since pyproject.toml changed")
    started = time.monotonic()
    done = make("setup")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - started < 20


def test_the_check_that_lets_changes_in_is_the_readmes_own_commands() -> None:
    commands = re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert commands == ["make check", "make test SLOWER=4", "make test-rest SLOWER=4"]


def test_each_test_by_day_is_run_once() -> None:
    """`make test` and `make test-rest` part what `make test-all` runs."""
    marks = {t: re.search(r'-m "([^"]*)"', make("-n", t).stdout)[1] for t in ("test", "test-rest", "test-all")}  # type: ignore[index]
    quick = marks["test"].removeprefix("not nightly and ")
    assert marks == {
        "test": f"not nightly and {quick}",
        "test-rest": f"not nightly and not {quick}",
        "test-all": "not nightly",
    }
    assert quick.startswith("(")
    assert quick.endswith(")")


def test_a_part_of_the_tests_has_no_budget_of_minutes() -> None:
    assert "--budget 8" in make("-n", "test").stdout
    assert "--budget" not in make("-n", "test", "TESTS=tests/plan").stdout
