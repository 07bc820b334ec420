"""Epochs of Spark over a store in Postgres, with a restart between them."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere import Workbench

SCRIPT = """
CREATE TABLE Customers (id INT, city STRING, PRIMARY KEY (id));
CREATE STREAM Orders (customer INT, price DECIMAL(8, 2));
Revenue := SELECT c.city, count(*) AS orders, sum(o.price) AS revenue
           FROM Orders o LEFT JOIN Customers c ON c.id = o.customer GROUP BY c.city;
"""


@pytest.mark.smoke("store postgres")
@pytest.mark.spark
@pytest.mark.postgres
def test_a_view_goes_on_after_a_restart(spark: Any, postgres_url: str) -> None:
    wb = Workbench(SCRIPT, store=postgres_url, spark=spark)
    wb.insert("Customers", [{"id": 1, "city": "Łódź"}, {"id": 2, "city": None}])
    wb.insert("Orders", [{"customer": 1, "price": "10.50"}, {"customer": 3, "price": "1"}])
    wb.step()
    wb.restart()
    wb.delete("Customers", [{"id": 1, "city": "Łódź"}])
    wb.insert("Customers", [{"id": 3, "city": "Łódź"}])
    wb.insert("Orders", [{"customer": 2, "price": "0.25"}])
    wb.step()
    found = sorted(((r["city"], r["orders"], str(r["revenue"])) for r in wb.rows("Revenue")), key=str)
    assert found == [("Łódź", 1, "1.00"), (None, 2, "10.75")]
    assert sorted(map(str, wb.rows("Revenue"))) == sorted(map(str, wb.batch("Revenue")))
    wb.close()
