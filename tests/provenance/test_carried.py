"""Relations below those that a script adds columns to: the stored ones have their rows."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere import Workbench
from belvedere.provenance.findings import PruningKind
from tests.provenance.test_why_not import near

SCRIPT = """
CREATE STREAM Order_ (id INT, customer INT, items ARRAY<STRUCT<price: INT>>) KEEP 30 DAYS;
CREATE STREAM Visit (page STRING, n INT);
CREATE TABLE Customer (id INT, name STRING, PRIMARY KEY (id));
Order_.total := SELECT sum(i.price) FROM _.items i;
Order_.twice := total * 2;
Visit := SELECT page, n FROM Visit WHERE n > 1;
Dear := SELECT o.id, c.name FROM Order_ o JOIN Customer c ON c.id = o.customer WHERE o.total > 10;
CREATE SUBSCRIPTION GotDear ON ADD AS SELECT id, total FROM Order_ WHERE total > 10;
"""


@pytest.mark.usefixtures("each_store")
def test_rows_are_those_of_the_relation_that_has_more_columns(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    orders = [(1, 1, [20, 3]), (2, 1, [4]), (3, None, None), (4, 9, [50])]
    wb.insert("Order_", [{"id": i, "customer": c, "items": p and [{"price": n} for n in p]} for i, c, p in orders])
    wb.insert("Customer", [{"id": 1, "name": "Zoë"}])
    wb.insert("Visit", [{"page": "x", "n": 1}, {"page": "y", "n": 5}])
    wb.step()
    whole = wb.why("Order_", {"id": 1})
    assert whole.row["twice"] == 46
    assert [(r.count, r.rows[0]["id"], "total" in r.rows[0]) for r in whole.inputs] == [(1, 1, False)]
    assert whole.since is not None
    assert whole.since.changed is not None
    (lost,) = wb.why_not("Order_", {"id": 77}).lost
    assert (lost.at, "has no row with" in lost.words) == (PruningKind.INPUT, True)
    (lost,) = wb.why_not("Dear", {"id": 2}).lost
    assert (lost.at, near(lost)) == (PruningKind.FILTER, {"reached it": 1})
    (lost,) = wb.why_not("Dear", {"id": 4}).lost
    assert (lost.at, lost.view) == (PruningKind.JOIN, "Dear")
    (lost,) = wb.why_not("GotDear", {"id": 2}).lost
    assert (lost.at, lost.through[0], near(lost)) == (PruningKind.FILTER, "GotDear", {"reached it": 1})
    # a view that leaves rows out does not speak for them
    (lost,) = wb.why_not("Visit", {"page": "x"}).lost
    assert lost.at in (PruningKind.FILTER, PruningKind.UNTOLD)
    assert "private" not in lost.words
    wb.close()
