"""An input whose WITH names a folder: a run reads its files, once each, also after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run.in_process import command, run_once_here

pytestmark = pytest.mark.spark
SCRIPT = """
CREATE TABLE Orders (price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'data/{{folder}}', 'format' = 'json') LIKE 'data/sample.jsonl';
Totals := SELECT city, count(*) AS n, sum(price) AS total FROM Orders GROUP BY city;
"""


def test_a_run_reads_the_folder(spark: Any, tmp_path: Path) -> None:
    script, folder = tmp_path / "shop.sqrl", tmp_path / "data" / "orders"
    folder.mkdir(parents=True)
    script.write_text(SCRIPT)
    (tmp_path / "data" / "sample.jsonl").write_text('{"id": 9, "city": "never read", "price": 1.5}\n')
    (folder / "1.jsonl").write_text('{"id": 1, "city": "Łódź", "price": 1.25}\n{"id": 2, "city": null, "price": "x"}\n')
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    run_once_here(spark, script, "--store", store, "--var", "folder=orders")
    (folder / "2.jsonl").write_text('{"id": 3, "city": "Łódź", "price": 2}\n')
    run_once_here(spark, script, "--store", store, "--var", "folder=orders")
    asked = command(None, "query", "SELECT city, n, total FROM Totals", "--store", store, "--format", "json")
    (row,) = json.loads(asked.stdout)
    assert (row["city"], row["n"], float(row["total"])) == ("Łódź", 2, 3.25)
