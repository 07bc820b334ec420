"""What `why` names for rows of small scripts, from the Workbench and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.cli import run
from belvedere.errors import BelvedereError

SCRIPT = """
CREATE TABLE Customer (id INT, city STRING, PRIMARY KEY (id));
CREATE STREAM Sale (customer INT, amount INT);
_Big := SELECT customer, amount FROM Sale WHERE amount >= 10;
ByCustomer := SELECT customer, sum(amount) AS total, count(*) AS n FROM _Big GROUP BY customer;
ByCity := SELECT c.city, sum(b.total) AS total FROM ByCustomer b JOIN Customer c ON c.id = b.customer GROUP BY c.city;
Best := SELECT DISTINCT ON (customer) customer, amount FROM Sale ORDER BY customer, amount DESC;
Quiet := SELECT c.id, s.amount FROM Customer c LEFT JOIN Sale s ON s.customer = c.id;
"""
CUSTOMERS = [(1, "Zürich"), (2, "Zürich"), (3, "Bern"), (4, None)]
SALES = [(1, 10), (1, 20), (1, 5), (2, 30), (3, 40)]


def filled(store: str, spark: Any) -> Workbench:
    wb = Workbench(SCRIPT, store, spark=spark)
    wb.insert("Customer", [{"id": i, "city": c} for i, c in CUSTOMERS])
    wb.insert("Sale", [{"customer": c, "amount": a} for c, a in SALES])
    wb.step()
    return wb


def shown(rows: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r[n] for n in names) for r in rows)


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_rows_are_told_view_by_view_and_in_all(spark: Any) -> None:
    wb = filled("sqlite://", spark)
    found = wb.why("ByCity", {"city": "Zürich"}, depth=2)
    assert {r.relation: r.count for r in found.reads} == {"ByCustomer": 2, "Customer": 2}
    assert {r.relation: shown(r.rows, *n) for r, n in zip(found.inputs, (("customer", "amount"), ("id",)), strict=True)} == {
        "Sale": [(1, 10), (1, 20), (2, 30)],
        "Customer": [(1,), (2,)],
    }
    below = next(r for r in found.reads if r.relation == "ByCustomer").below
    assert {w.row["customer"]: w.reads[0].count for w in below} == {1: 2, 2: 1}
    wb.close()


@pytest.mark.spark
def test_a_first_row_has_its_partition_and_a_row_without_a_partner_is_alone(spark: Any) -> None:
    wb = filled("sqlite://", spark)
    found = wb.why("Best", {"customer": 1})
    assert [(r.words, r.count) for r in found.reads] == [("the row itself", 1), ("its partition by Sale.customer", 3)]
    assert shown(found.reads[0].rows, "amount") == [(20,)]
    private = wb.why("ByCustomer", {"customer": 1})
    assert [(r.relation, r.words, r.count) for r in private.reads] == [("_Big", "its group by customer", 2)]
    assert shown(private.inputs[0].rows, "customer", "amount") == [(1, 10), (1, 20)]
    alone = wb.why("Quiet", {"id": 4})
    assert [(r.relation, r.count) for r in alone.inputs] == [("Customer", 1)]
    wb.close()


@pytest.mark.spark
def test_a_row_that_is_not_there_and_one_that_is_not_alone(spark: Any) -> None:
    wb = filled("sqlite://", spark)
    for key, code in (({"city": "Basel"}, "B8111"), ({}, "B8112"), ({"total": "many"}, "B8113"), ({"town": "Bern"}, "B2002")):
        with pytest.raises(BelvedereError) as raised:
            wb.why("ByCity", key)
        assert [d.code for d in raised.value.diagnostics] == [code]
    wb.close()


@pytest.mark.spark
def test_from_the_command_line(tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, store = tmp_path / "shop.sqrl", f"sqlite:///{tmp_path / 'shop.db'}"
    script.write_text(SCRIPT)
    filled(store, spark).close()
    asked = ["why", str(script), "ByCity", "city = 'Bern'", "--store", store]
    assert run([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["row"] == {"city": "Bern", "total": 40}
    assert {r["relation"]: r["rows"] for r in told["inputs"]} == {
        "Sale": [{"customer": 3, "amount": 40}],
        "Customer": [{"id": 3, "city": "Bern"}],
    }
    assert run(asked) == 0
    text = capsys.readouterr().out
    assert "Sale: 1 row" in text
    assert "customer = 3, total = 40" in text
    for condition, code in (("city = 'Basel'", "B8111"), ("city IN (SELECT city FROM Customer)", "B8114")):
        assert run(["why", str(script), "ByCity", condition, "--store", store]) == 1
        assert code in capsys.readouterr().err


@pytest.mark.spark
def test_rows_that_are_not_stored_are_told_by_name(spark: Any) -> None:
    wb = Workbench("CREATE STREAM _Hit (page STRING); Hits := SELECT page, count(*) AS n FROM _Hit GROUP BY page;", spark=spark)
    wb.insert("_Hit", [{"page": "a"}, {"page": None}])
    wb.step()
    (read,) = wb.why("Hits", {"page": None}).inputs
    assert (read.relation, read.untold) == ("_Hit", "the rows of `_Hit` are not stored: it is private")
    with pytest.raises(BelvedereError, match="B8110"):
        wb.why("_Hit", {"page": "a"})
    wb.close()
