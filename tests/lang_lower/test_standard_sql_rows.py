"""What `explain --sql` prints has the rows of the view: each printed query is one more view of the same script."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.shown_names import shown_names
from belvedere.compiler import compile_script
from belvedere.errors import Severity
from belvedere.lang.names.definitions import Definitions
from belvedere.lang.select.standard_sql import expand
from belvedere.lang.statements.lower import lower_statements
from belvedere.syntax.parse import parse_script
from belvedere.workbench.workbench import Workbench
from tests.sqrl.random_scripts import random_script

SCRIPT = """
CREATE TABLE Orders (id INT PRIMARY KEY, customer INT, total INT, items ARRAY<STRUCT<product: INT, n: INT>>,
    twice AS total * 2);
CREATE TABLE Customers (id INT PRIMARY KEY, name STRING, `my city` STRING);
CREATE TABLE Boxes (id INT PRIMARY KEY, items ARRAY<STRUCT<product: INT, n: INT>>);
Orders_1 := SELECT * FROM Orders;
Customers_1 := SELECT * FROM Customers;
Orders.buyer := JOIN Customers c ON c.id = _.customer;
Customers.orders := JOIN Orders o ON o.customer = _.id ORDER BY o.total DESC;
Customers.top := JOIN Orders o ON o.customer = _.id AND o.total > 5 ORDER BY o.total DESC LIMIT 2;
Customers.near := JOIN Orders o ON o.customer <> _.id ORDER BY abs(o.id - _.id), o.id LIMIT 1;
Customers.mates := JOIN Customers customers ON customers.`my city` = _.`my city` AND customers.id <> _.id;
Customers.through := JOIN Orders o ON o.customer = _.id JOIN Customers d ON d.id = o.id;
Customers.best := SELECT o.id AS oid, o.total AS t FROM _.orders o ORDER BY o.total DESC LIMIT 1;
Customers.sums := SELECT o.buyer.name AS who, count(*) AS n FROM _.orders o WHERE total > 1 GROUP BY o.buyer.name;
Customers.whole := SELECT count(*) AS n, max(o.total) AS m FROM _.mates.orders o WHERE o.total > 6;
Customers.counted := SELECT o.total, row_number() OVER (ORDER BY o.total) AS r FROM _.orders o;
Customers.nested := SELECT m.name, (SELECT max(z.total) FROM m.orders z WHERE z.id > _.id) AS z FROM _.mates m;
V_table := SELECT o.id, o.total FROM Customers.orders o;
V_table_path := SELECT o.id, b.name FROM Customers.mates.orders.buyer b JOIN Orders o ON o.id > b.id;
V_joined := SELECT c.id, o.total, b.name FROM Customers c LEFT JOIN c.orders o LEFT JOIN o.buyer b;
V_unnamed := SELECT orders.total, c.id FROM Customers c JOIN c.orders;
V_deep := SELECT c.id, o.total FROM Customers c, c.mates m LEFT JOIN m.top o ON o.total > 6;
V_star := SELECT * FROM Customers.top.buyer;
V_star_top := SELECT * FROM (SELECT 1 AS one) x JOIN Customers.top t;
V_near := SELECT c.id, n.id AS nid FROM Customers c LEFT JOIN c.near n;
V_max_near := SELECT c.id, (SELECT max(n.total) FROM c.near n) AS m FROM Customers c;
V_name := SELECT id, buyer.name, buyer.`my city` FROM Orders WHERE buyer.id > 0 ORDER BY buyer.name LIMIT 9;
V_group := SELECT buyer.name, sum(total) AS s FROM Orders GROUP BY buyer.name HAVING min(buyer.id) > 0;
V_exists := SELECT c.id FROM Customers c WHERE EXISTS (SELECT 1 FROM c.mates.orders z WHERE z.buyer.name <> c.name);
V_with := WITH w AS (SELECT id, buyer.name AS n FROM Orders) SELECT id, x.buyer.name FROM w JOIN Orders x USING (id)
    WHERE x.buyer.name = n;
V_derived := SELECT x.n, x.id FROM (SELECT o.buyer.name AS n, o.id FROM Orders o) x WHERE 1 < (SELECT count(*)
    FROM Customers c, c.orders);
V_unnested := SELECT b.id, i.product FROM Boxes b CROSS JOIN UNNEST(b.items) i;
V_first := SELECT o.*, row_number() OVER (PARTITION BY o.customer ORDER BY o.id) AS r FROM Orders o QUALIFY r <= 2;
V_union := SELECT o.buyer.name FROM Orders o UNION ALL SELECT c.name FROM Customers c JOIN c.orders path;
V_items := SELECT i.product, i.parent.buyer.name AS who FROM Orders.items i;
V_through := SELECT c.id, t.name FROM Customers c JOIN c.through t;
V_last := DISTINCT Orders_1 f ON f.customer ORDER BY f.total DESC;
Customers.spent := sum(orders.total);
Customers.spent2 := Customers.spent + 1;
Customers.kinds := count(DISTINCT mates.orders.buyer.name);
Customers.mates_of := count(mates);
Orders.payer := concat(buyer.name, '!');
Orders.payer2 := concat(_.buyer.name, payer);
Customers.payers := SELECT max(o.payer) FROM Orders o WHERE o.customer = _.id AND o.id IN (SELECT p.id FROM Orders p
    JOIN p.buyer);
V_spent := SELECT o.id, o.buyer.name FROM Orders o WHERE o.payer LIKE '%!';
Customers_6 := SELECT * FROM Customers;
Customers := SELECT * FROM Customers WHERE id > 1;
V_again := SELECT c.id, o.buyer.id AS b FROM Customers c, Orders o;
"""
"""`Customers_6` has the rows of the sixth definition of `Customers`."""
CUSTOMERS = [(1, "a", "u"), (2, "b", "u"), (3, "ö", None), (4, "d", "u"), (5, None, "v")]
ORDERS = [(1, 1, 10), (2, 1, 7), (3, 2, 9), (4, None, 8), (5, 4, 3), (6, 4, 20), (7, 1, 6), (8, 9, 5), (9, 3, 30)]


def _version(found: re.Match[str]) -> str:
    """What has the rows of an earlier definition."""
    name = f"{found[1]}_{found[2]}"
    return name if f"{name} :=" in SCRIPT else f"{found[1]}_1"


def _printed(script: str) -> tuple[list[str], str]:
    """Views of a script, and the script with one more view for each: what is printed of it."""
    compiled = compile_script(script)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    catalog = compiled.catalog
    views = [i for i in catalog.views if i.startswith(("V_", "Customers."))] + ["Customers", "Orders"]
    texts = (expand(catalog, id_).partition(" AS\n")[2] for id_ in views)
    again = "".join(f"Again_{n} := {text};\n" for n, text in enumerate(texts))
    return views, script + re.sub(r"`(\w+) \(definition (\d)\)`", _version, again)


def test_the_standard_query_has_the_same_columns() -> None:
    views, script = _printed(SCRIPT)
    compiled = compile_script(script)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    for n, id_ in enumerate(views):
        again = {c.name: c.type for c in compiled.catalog.views[f"Again_{n}"].schema.visible}
        assert {c.name: c.type for c in compiled.catalog.views[id_].schema.visible}.items() <= again.items(), id_


PARTS = [pytest.param(n, marks=[] if n == 0 else [pytest.mark.nightly]) for n in range(8)]


@pytest.mark.parametrize("part", PARTS)
def test_the_standard_query_has_the_same_rows(executor: Any, part: int) -> None:
    lines = SCRIPT.strip().replace("\n    ", " ").split("\n")
    views = [line for line in lines if line.startswith("V_") or " FROM _." in line]
    names, script = _printed("\n".join(line for line in lines if line not in views or line in views[part::8]) + "\n")
    wb = Workbench(script, spark=executor)
    wb.insert("Customers", [{"id": i, "name": n, "my city": c} for i, n, c in CUSTOMERS])
    items = [{"product": 1, "n": 2}, {"product": 3, "n": None}]
    wb.insert("Orders", [{"id": i, "customer": c, "total": t, "items": items[: i % 3]} for i, c, t in ORDERS])
    wb.insert("Boxes", [{"id": 1, "items": items}])
    wb.step()
    for n, id_ in enumerate(names):
        rows, again = wb.rows(id_), wb.rows(f"Again_{n}")
        assert rows, id_
        columns = sorted(rows[0])
        found, expected = (sorted(repr([row[name] for name in columns]) for row in of) for of in (again, rows))
        assert found == expected, (id_, found, expected)
    wb.close()


def _as_tables(catalog: Catalog) -> Definitions:
    """All relations of a catalog as tables, without relationships."""
    known = Definitions()
    for id_ in (*catalog.inputs, *catalog.views, *catalog.subscriptions):
        name = shown_names(id_)
        known.define(Input(known.new_id(name), name, InputKind.TABLE, catalog.schema_of(id_)))
    return known


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 3 else [pytest.mark.nightly]) for n in range(25)])
def test_the_standard_query_needs_tables_alone(seed: int) -> None:
    catalog = compile_script(random_script(Random(seed))).catalog
    known = _as_tables(catalog)
    for id_, view in catalog.views.items():
        text = f"Again := {expand(catalog, id_).partition(' AS' + chr(10))[2]};"
        lowering = lower_statements(parse_script(text, "again"), None, None, (), {}, known.copy())
        assert not [d for d in lowering.diagnostics if d.severity is Severity.ERROR], text
        again = lowering.definitions.get("Again").schema
        assert {c.name: c.type for c in view.schema.visible}.items() <= {
            c.name: c.type for c in again.visible
        }.items(), text
