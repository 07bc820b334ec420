"""The benchmarks can be run: `docs/reference/measurements.md` names the commands."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(file.stem for file in (ROOT / "bench").glob("[a-z]*.py")))
def test_every_bench_is_whole(name: str) -> None:
    assert importlib.import_module(f"bench.{name}").__doc__


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_emit_and_bounds_save() -> None:
    command = [sys.executable, "-m", "bench.emit", "--rows", "30", "--keys", "5", "--epochs", "24"]
    lines = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=1700
    ).stdout.splitlines()
    updates = [int(line.split()[-3].replace(",", "")) for line in lines if line.startswith(("EMIT", "..."))]
    assert updates == sorted(updates, reverse=True)
    assert updates[0] > updates[-1]
    none, kept, freed = (
        int(line[30:].split()[0].replace(",", "")) for line in lines if line.startswith(("none ", "sent"))
    )
    assert freed < min(kept, none)
