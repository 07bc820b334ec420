"""kill -9 while accepted columns are added and while rejected rows are retried: all of it once, or nothing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from belvedere.store import open_store
from tests.run.processes import linux

pytestmark = [pytest.mark.spark, pytest.mark.nightly, linux]

SCRIPT = """
IMPORT trips.Rides;
Fares := SELECT k, sum(fare) AS fare, count(*) AS n FROM Rides GROUP BY k;
Counts := SELECT k, count(*) AS n FROM Rides GROUP BY k;
"""


def killed_until_done(*arguments: str) -> int:
    """Run a command, killed again and again after a while that grows, until it ends by itself; how often it was
    killed."""
    for count in range(20):
        process = subprocess.Popen(
            [sys.executable, "-m", "belvedere.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, err = process.communicate(timeout=5 * 1.2**count + random.random())
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            continue
        assert process.returncode == 0, err
        return count
    raise AssertionError("it never ended")


def rows(url: str, name: str) -> list[dict[str, object]]:
    store = open_store(url)
    reader = store.reader()
    try:
        found: list[dict[str, object]] = reader.rows(next(t for t in store.tables() if t.name == name)).to_pylist()
        return found
    finally:
        reader.close()
        store.close()


def test_growth_and_retries_survive_kills(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    data, script = tmp_path / "data" / "Rides", tmp_path / "s.sqrl"
    data.mkdir(parents=True)
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(
        f"store = '{url}'\n[sources.trips]\npath = 'data'\n[spark]\nmemory = '1g'\n"
    )
    (data / "1.json").write_text("".join(json.dumps({"k": f"k{n % 7}", "fare": n}) + "\n" for n in range(20_000)))
    run_quietly = [str(script), "--port", "0", "--once", "--yes"]
    assert killed_until_done("run", *run_quietly) >= 0
    (data / "2.json").write_text("".join(json.dumps({"k": "k0", "fare": n + 0.5, "w": "x"}) + "\n" for n in range(100)))
    assert killed_until_done("run", *run_quietly) >= 0
    assert len(rows(url, "_belvedere_rejected")) == 100
    accepted = subprocess.run(
        [sys.executable, "-m", "belvedere.cli", "schema", "accept", str(script)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "becomes DOUBLE" in accepted.stdout
    kills = killed_until_done("run", *run_quietly)
    kills += killed_until_done("rejected", "retry", str(script), "--yes")
    assert kills, "nothing was killed"
    found = rows(url, "Rides")
    assert len(found) == len({r["_uid"] for r in found}) == 20_100
    assert sum(r["w"] == "x" for r in found) == 100
    assert rows(url, "_belvedere_rejected") == []
    assert sum(float(str(r["fare"])) for r in rows(url, "Fares")) == sum(range(20_000)) + sum(
        n + 0.5 for n in range(100)
    )
    assert sum(int(str(r["n"])) for r in rows(url, "Counts")) == 20_100
