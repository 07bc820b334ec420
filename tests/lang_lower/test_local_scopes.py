"""Aggregates over paths, paths from subqueries, equal names in `*`: what is accepted, with which columns, and what is
refused where.
"""

from __future__ import annotations

import pytest

from belvedere.compiler import Compiled, compile_script

TABLES = """
CREATE TABLE Customers (id INT, name STRING, city STRING, PRIMARY KEY (id));
CREATE STREAM Orders (id INT NOT NULL, cust INT, at TIMESTAMP, addr STRUCT<city STRING, geo STRUCT<lat DOUBLE>>,
                      items ARRAY<STRUCT<sku INT, price DOUBLE, amount INT>>) KEEP 7 DAYS;
CREATE TABLE Other (id INT, cust INT, PRIMARY KEY (id));
Orders.customer := JOIN Customers c ON c.id = _.cust;
Customers.orders := JOIN Orders o ON o.cust = _.id;
Customers.others := JOIN Other o ON o.cust = _.id;
"""


def compiled(text: str) -> Compiled:
    return compile_script(TABLES + text)


@pytest.mark.parametrize(
    "text",
    [
        "Customers.x := sum(orders.items.price * orders.items.amount + orders.id);",
        "Customers.x := count(DISTINCT orders.items.sku) FILTER (WHERE orders.items.amount > 1);",
        "Customers.x := max_by(orders.id, orders.at);",
        "Orders.x := sum(items.price * cust) / count(items);",
        "Orders.x := sum(items.price * customer.id);",
        "Customers.x := max(sum(orders.items.price) / count(orders.items));",
        "Customers.x := WITH w AS (SELECT i.price FROM _.orders.items i) SELECT max(price) FROM w;",
        "Customers.x := SELECT sum(d.p) FROM (SELECT i.price * i.amount AS p FROM _.orders.items i) d;",
        "Customers.x := SELECT d.sku, sum(d.p) AS p FROM (SELECT i.sku, i.price AS p FROM _.orders.items i) d GROUP "
        "BY d.sku;",
        "V := SELECT c.id, sum(c.orders.items.price * c.orders.items.amount) AS x FROM Customers c ORDER BY "
        "count(c.orders) DESC;",
        "V := SELECT id FROM Customers WHERE count(orders) > 2 AND max(orders.items.price) > 3;",
        "V := SELECT city, sum(count(orders)) AS n FROM Customers GROUP BY city HAVING max(count(orders)) > 1;",
        "V := SELECT o.id FROM Orders o JOIN Customers c ON c.id = o.cust AND count(c.others) > 1;",
        "V := WITH w AS (SELECT name AS id, city FROM Customers) SELECT w.id, o.at FROM w JOIN w.orders o;",
        "V := SELECT w.name, max(w.orders.at) AS at FROM (SELECT name FROM Customers ORDER BY id LIMIT 3) w;",
        "V := SELECT id FROM Customers c WHERE EXISTS (SELECT 1 FROM Other o WHERE EXISTS (SELECT 1 FROM c.orders q "
        "WHERE q.id = o.id));",
        "V := DISTINCT Orders ON addr.city ORDER BY at DESC;\nW := SELECT DISTINCT addr.geo.lat, addr.city FROM "
        "Orders;",
    ],
)  # fmt: skip
def test_accepted(text: str) -> None:
    found = compiled(text)
    assert found.ok, found.diagnostics


@pytest.mark.parametrize(
    ("text", "code", "place", "said"),
    [
        ("Customers.x := sum(orders.id * others.id);", "B4021", "others.id", "`orders` and of `others`"),
        ("Customers.x := max(sum(orders.id));", "B4021", "sum(orders.id)", "two steps"),
        ("V := SELECT id FROM (SELECT id FROM Customers) w JOIN w.nosuch n;", "B4001", "nosuch", "no relationship"),
        ("V := SELECT w.n FROM (SELECT city, count(*) AS n FROM Customers GROUP BY city) w JOIN w.orders o;", "B4001",
         "orders", "w"),
        ("V := SELECT w.id FROM (SELECT name FROM Customers) w JOIN w.orders o;", "B2002", "w.id", "no column"),
        ("V := SELECT c.city, sum(c.orders.id) AS n FROM Customers c GROUP BY c.city;", "B4032", "c.orders.id",
         "more than one row"),
        ("V := SELECT *, 1 AS id FROM Customers;", "B3043", "1 AS id", "`id`"),
        ("V := SELECT o.id, c.id FROM Orders o JOIN Customers c ON c.id = o.cust;", "B3043", "c.id", "`id`"),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, place: str, said: str) -> None:
    (error,) = (d for d in compiled(text).diagnostics if d.severity == "error")
    assert error.code == code
    assert error.span is not None
    assert (TABLES + text)[error.span.start : error.span.end] == place
    assert said in error.message


def test_equal_names_of_a_star_are_numbered() -> None:
    text = "V := SELECT * FROM Customers a JOIN Customers b ON a.id = b.id JOIN Other c ON c.id = a.id;\n"
    text += "W := SELECT id, id1, name0 FROM V;"
    found = compiled(text)
    assert found.ok, found.diagnostics
    columns = [c.name for c in found.catalog.views["V"].schema.visible]
    assert columns == ["id", "name", "city", "id0", "name0", "city0", "id1", "cust"]
    (notice,) = (d for d in found.diagnostics if d.code == "B3050")
    assert "`id` is `id0`" in notice.message


def test_a_statement_is_read_again_as_it_was_written() -> None:
    """Lowering puts local queries into a copy: an editor goes on from the statement as it was parsed."""
    from belvedere.lang.statements.incremental_compile import Progress

    progress, text = Progress(), "V := SELECT id FROM Customers WHERE count(orders) > 2;\n"
    assert compile_script(TABLES + text, progress=progress).ok
    changed = TABLES.replace("Customers.orders :=", "Customers.former :=") + text
    assert [d.code for d in compile_script(changed, progress=progress).diagnostics if d.severity == "error"] == [
        "B3031"
    ]
