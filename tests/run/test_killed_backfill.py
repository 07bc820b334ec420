"""kill -9 during the fill of a view from files, next to a running view: it is filled again, with each row once."""

from __future__ import annotations

import contextlib
import json
import random
import time
from pathlib import Path

import pytest

from tests.run.processes import drain, first_line, graphql, kill, linux, run_once, start_run, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.nightly, linux]

SCRIPT = """
IMPORT s.Rides AS _Rides;
Sums := SELECT k, sum(fare) AS fare, count(*) AS n FROM _Rides GROUP BY k;
"""
AGAIN = "Again := SELECT k, sum(fare) AS fare, count(*) AS n, max(fare) AS most FROM _Rides GROUP BY k;\n"
FILES, ROWS, KILLS = 12, 40_000, 3


def put(folder: Path, number: int, rows: int) -> None:
    part = folder / f".{number}"
    part.write_text("".join(json.dumps({"k": f"k{n % 7}", "fare": n % 11}) + "\n" for n in range(rows)))
    part.rename(folder / f"{number}.json")


def is_filled(url: str, rows: int) -> bool:
    with contextlib.suppress(Exception):
        found = graphql(url, "{ sums(limit: 10) { k fare n } again(limit: 10) { k fare n } }")
        return bool(found["again"] == found["sums"] and sum(r["n"] for r in found["sums"]) == rows)
    return False


def test_a_killed_fill_begins_anew(tmp_path: Path) -> None:
    data, script = tmp_path / "data" / "Rides", tmp_path / "s.sqrl"
    data.mkdir(parents=True)
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text("[sources.s]\npath = 'data'\n[spark]\nmemory = '1g'\n")
    for number in range(FILES):
        put(data, number, ROWS)
    run_once(script)
    script.write_text(SCRIPT + AGAIN)
    for attempt in range(KILLS):
        process = start_run(script)
        url, lines = first_line(process), drain(process)
        wait_for(
            lambda lines=lines: any("will be available after" in line for line in lines), "it never began to read again"
        )
        put(data, FILES + attempt, 100)
        time.sleep(random.random() * 4 * attempt)
        kill(process, url)
    process = start_run(script)
    url, _ = first_line(process), drain(process)
    wait_for(lambda: is_filled(url, FILES * ROWS + KILLS * 100), "it was never filled as the view that ran")
    kill(process, url)
