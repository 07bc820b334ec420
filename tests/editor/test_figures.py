"""Figures of a store are told of what the store has computed by the same query, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from belvedere.compiler import compile_script
from belvedere.editor.store_figures import stored_figures
from belvedere.workbench.workbench import Workbench

SCRIPT = """CREATE TABLE `Größe` (id INT, price DOUBLE, city STRING, PRIMARY KEY (id));
Cheap := SELECT id, price FROM `Größe` WHERE price < 10;
Cities := SELECT city, count(*) AS n FROM `Größe` GROUP BY city;
Top := SELECT id, price FROM Cheap ORDER BY price DESC LIMIT 2;
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/shop.db"


def reported(text: str, url: str) -> dict[str, str]:
    """The rows that are told of each relation, by name."""
    found = stored_figures(compile_script(text).catalog, url)
    return {i.partition("~")[0]: t.partition(": ")[2].partition(" rows")[0] for i, t in found.items()}


@pytest.mark.spark
def test_of_the_same_query(spark: SparkSession, url: str) -> None:
    wb = Workbench(SCRIPT, store=url, spark=spark)
    rows: list[dict[str, Any]] = [{"id": n, "price": float(n), "city": "Łódź" if n % 2 else None} for n in range(12)]
    wb.insert("Größe", rows)
    wb.step()
    wb.close()
    assert reported(SCRIPT, url) == {"Größe": "12", "Cheap": "10", "Cities": "2", "Top": "2"}
    assert reported(SCRIPT.replace("price < 10", "price < 5"), url) == {"Größe": "12", "Cities": "2"}
    assert reported(SCRIPT.replace("LIMIT 2", "LIMIT 3"), url) == {"Größe": "12", "Cheap": "10", "Cities": "2"}
    assert reported("-- 😀\n" + SCRIPT.replace("count(*)", "COUNT( * )"), url).keys() == {
        "Größe",
        "Cheap",
        "Cities",
        "Top",
    }
