"""Lines are appended to files while runs are killed: each counts once."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import pytest

from tests.run.processes import drain, first_line, kill, linux, run_once, start_run, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.nightly, linux]


@pytest.mark.parametrize("seed", [1, 2])
def test_each_line_counts_once(tmp_path: Path, seed: int) -> None:
    from belvedere.store import open_reader

    r = random.Random(seed)
    (tmp_path / "belvedere.toml").write_text(
        '[spark]\ntrigger = "50 ms"\nmemory = "1g"\n[sources.shop]\npath = "data"\nappends = true\n'
    )
    (tmp_path / "s.sqrl").write_text(
        "IMPORT shop.Orders AS _Orders;\nTotals := SELECT count(*) AS n, sum(id) AS ids, count(DISTINCT id) AS d FROM "
        "_Orders;\n"
    )
    (tmp_path / "data").mkdir()
    path, ended, ids = tmp_path / "data" / "Orders.jsonl", threading.Event(), list[int]()

    def append() -> None:
        with path.open("a") as file:
            while not ended.is_set():
                ids.append(len(ids))
                text = json.dumps({"id": ids[-1]}) + "\n"
                cut = r.randint(0, len(text))
                for part in (text[:cut], text[cut:]):
                    file.write(part)
                    file.flush()
                    time.sleep(0.01)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(3):
            process = start_run(tmp_path / "s.sqrl")
            url = first_line(process)
            lines = drain(process)
            wait_for(
                lambda lines=lines: any("_Orders" in line or "Orders" in line for line in lines), "no epoch came", 300
            )
            time.sleep(r.random() * 3)
            kill(process, url)
    finally:
        ended.set()
        thread.join()
    run_once(tmp_path / "s.sqrl")
    reader = open_reader(f"sqlite:///{tmp_path}/s.db")
    (row,) = reader.execute('SELECT n, ids, d FROM "Totals"')
    reader.close()
    assert tuple(map(int, row)) == (len(ids), sum(ids), len(ids))
