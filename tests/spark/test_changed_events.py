"""A corrected script sends only differences to subscriptions and exports, and repairs a view over retained rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.commands.plan import confirm_deployment, deployment_of
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from tests.depth import at_night

BEFORE = """
CREATE TABLE T (id INT NOT NULL, price INT, PRIMARY KEY (id));
CREATE STREAM S (n INT, x INT) KEEP 30 DAYS;
Latest := SELECT id, coalesce(price, 0) AS price, price AS given FROM T ORDER BY given;
ByPrice := SELECT price, count(*) AS n FROM Latest GROUP BY price;
Halves := SELECT n, x / 2.0 AS half FROM S;
CREATE SUBSCRIPTION Dear ON ADD AS SELECT id, price FROM Latest WHERE price > 100;
CREATE SUBSCRIPTION Cheap ON DELETE AS SELECT id, price FROM Latest WHERE price > 100;
CREATE SUBSCRIPTION Moved ON CHANGE AS SELECT id, price FROM Latest;
CREATE SUBSCRIPTION Half ON ADD AS SELECT n, half FROM Halves WHERE half > 1;
CREATE SUBSCRIPTION Keyed ON ADD AS SELECT price, n FROM ByPrice;
EXPORT Latest TO out.Latest;
"""
AFTER = (
    BEFORE.replace("coalesce(price, 0) AS price", "coalesce(price, 500) * IF(id = 2, 0, 1) AS price")
    .replace("x / 2.0 AS half", "IF(n = 1, 9.0, x / 2.0) AS half")
    .replace("SELECT price, n FROM ByPrice", "SELECT price, n, 1 AS added FROM ByPrice")
)
ROWS = {1: 900, 2: 800, 3: None, 4: 5}
PROJECT = '[sinks.out]\nconnector = "files"\npath = "out"\nformat = "json"\n'


def price(id_: int, given: int | None, is_after: bool) -> int:
    """The column `price` of Latest, in Python."""
    return (given if given is not None else 500 if is_after else 0) * (0 if is_after and id_ == 2 else 1)


@pytest.mark.spark
@pytest.mark.parametrize("each_store", ["sqlite", *at_night(["postgres"])], indirect=True)
@pytest.mark.parametrize("new", [{5: 700, 1: None}, *at_night([{}])])
def test_what_differs_is_told(
    spark: Any, tmp_path: Path, each_store: str, new: dict[int, int | None], request: Any
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if each_store == "sqlite" else request.getfixturevalue("postgres_url")
    (tmp_path / "belvedere.toml").write_text(PROJECT)
    project = load_project(tmp_path)
    wb = Workbench(BEFORE, url, spark=spark, project=project)
    wb.insert("T", [{"id": i, "price": p} for i, p in ROWS.items()])
    wb.insert("S", [{"n": 0, "x": 4}, {"n": 1, "x": 0}])
    wb.step()
    reported = {n: len(wb.rows(n)) for n in ("Dear", "Cheap", "Moved", "Half")}
    assert reported == {"Dear": 2, "Cheap": 0, "Moved": 0, "Half": 1}
    numbers = [r["_seq"] for r in wb.rows("Dear")]
    wb.close()

    found = deployment_of(compile_script(AFTER, project=project).catalog, url)
    assert found.resent == {"Keyed": 4}  # it has another column
    assert "sends the differences" in next(c.reason for c in found.changes if c.name == "Dear")
    with pytest.raises(BelvedereError) as caught:
        confirm_deployment(found)
    assert caught.value.diagnostics[0].code == "B7069"
    assert "4 events" in caught.value.diagnostics[0].message

    wb = Workbench(AFTER, url, spark=spark, project=project)
    if new:
        wb.insert("T", [{"id": i, "price": p} for i, p in new.items()])
    wb.step()
    now = ROWS | new
    before = {i: price(i, p, False) for i, p in ROWS.items()}
    after = {i: price(i, p, True) for i, p in now.items()}
    dear = [{i for i, p in side.items() if p > 100} for side in (before, after)]
    events = {n: wb.rows(n)[reported[n] :] for n in reported}
    assert {r["id"] for r in events["Dear"]} == dear[1] - dear[0]
    assert {(r["id"], r["price"]) for r in events["Cheap"]} == {(i, before[i]) for i in dear[0] - dear[1]}
    assert {(r["id"], r["price"]) for r in events["Moved"]} == {(i, after[i]) for i in before if before[i] != after[i]}
    assert [(r["n"], r["half"]) for r in events["Half"]] == [(1, 9.0)]
    assert [r["_seq"] for r in wb.rows("Dear")][: len(numbers)] == numbers
    assert len({r["_seq"] for r in wb.rows("Dear")}) == len(wb.rows("Dear"))
    lines = [
        line for f in sorted((tmp_path / "out").glob("Latest/*000000000002*")) for line in f.read_text().splitlines()
    ]
    changed = {i for i in after if (before.get(i), ROWS.get(i)) != (after[i], now[i])}
    assert len(lines) == len(changed)
    for view in ("Latest", "ByPrice", "Halves"):
        key = str
        assert sorted(map(key, wb.rows(view))) == sorted(map(key, expected(view, now, after)))
    # nothing is told twice afterwards
    wb.restart()
    counts = {n: len(wb.rows(n)) for n in reported}
    wb.step()
    assert {n: len(wb.rows(n)) for n in reported} == counts
    wb.close()


def expected(view: str, now: dict[int, int | None], after: dict[int, int]) -> list[dict[str, Any]]:
    if view == "Latest":
        return [{"id": i, "price": p, "given": now[i]} for i, p in after.items()]
    if view == "ByPrice":
        return [{"price": p, "n": list(after.values()).count(p)} for p in set(after.values())]
    return [{"n": 0, "half": Decimal("2.000000")}, {"n": 1, "half": Decimal("9.000000")}]


FAILING = """
CREATE STREAM S (n INT, x INT) KEEP 1 HOUR;
V := SELECT n, 10 / x AS y FROM S;
Total := SELECT count(*) AS n, sum(10 / x) AS y FROM S;
"""


@pytest.mark.spark
def test_a_failing_row_that_is_there_is_mended_by_a_corrected_script(spark: Any, tmp_path: Path) -> None:
    """No row has left yet, so the corrected view is computed of all rows; once one has left, that is refused."""
    url = f"sqlite:///{tmp_path}/s.db"
    wb = Workbench(FAILING, url, spark=spark)
    wb.clock("2024-01-01 00:00:00")
    wb.insert("S", [{"n": 1, "x": 5}, {"n": 2, "x": None}])
    wb.step()
    wb.insert("S", [{"n": 3, "x": 0}])
    with pytest.raises(BelvedereError, match="divide by zero"):
        wb.step()
    wb.close()

    corrected = FAILING.replace("10 / x", "try_divide(10, x)")
    wb = Workbench(corrected, url, spark=spark)
    wb.clock("2024-01-01 00:10:00")
    wb.insert("S", [{"n": 3, "x": 0}])
    wb.step()
    assert [(r["n"], r["y"]) for r in wb.rows("V")] == [(1, 2.0), (2, None), (3, None)]
    assert wb.rows("Total") == [{"n": 3, "y": 2.0}]
    wb.clock("2024-01-01 01:05:00")  # the first rows leave
    wb.step()
    assert wb.rows("Total") == [{"n": 3, "y": 2.0}]
    wb.close()
    with pytest.raises(BelvedereError, match="B7030"):
        Workbench(corrected.replace("10,", "20,"), url, spark=spark)
