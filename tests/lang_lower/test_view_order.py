"""A view's ORDER BY is its order: which columns it is by, and what reads it in that order."""

from __future__ import annotations

import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.optimize.indexes import read_indexes
from belvedere.plan.operators.nodes import TopK
from belvedere.plan.plan_text import plan_text
from belvedere.store.read.plans import plan_order

BASE = """
CREATE TABLE T (id INT, name STRING, price INT, PRIMARY KEY (id));
CREATE TABLE U (id INT, t INT, PRIMARY KEY (id));
Dear := SELECT id, name FROM T WHERE price > 3 ORDER BY price DESC, name;
"""


def catalog(text: str) -> Catalog:
    compiled = compile_script(BASE + text)
    assert compiled.ok, compiled.diagnostics
    assert "B3060" not in {d.code for d in compiled.diagnostics}
    return compiled.catalog


def order_of(text: str, view: str) -> list[tuple[str, bool]]:
    return [(o.expr.name, o.descending) for o in catalog(text).views[view].order]


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("V := SELECT id, name FROM T ORDER BY name", [("name", False)]),
        ("V := SELECT id, name AS n FROM T ORDER BY n DESC, 1", [("n", True), ("id", False)]),
        ("V := SELECT id FROM T ORDER BY lower(name)", [("_order", False)]),
        ("V := SELECT id, lower(name) AS low FROM T ORDER BY lower(name) LIMIT 3", [("low", False)]),
        ("V := SELECT name, sum(price) AS p FROM T GROUP BY name ORDER BY p DESC", [("p", True)]),
        ("V := SELECT DISTINCT name FROM T ORDER BY name", [("name", False)]),
        ("V := SELECT id FROM T UNION ALL SELECT id FROM U ORDER BY id DESC", [("id", True)]),
        ("V := SELECT id FROM Dear LIMIT 2", [("_order", True), ("_order_2", False)]),
        ("V := SELECT id FROM Dear", []),
    ],
)
def test_the_order_of_a_view(text: str, order: list[tuple[str, bool]]) -> None:
    assert order_of(text, "V") == order


def test_a_limit_without_an_order_takes_the_first_rows_of_the_view() -> None:
    (top,) = (n for n in catalog("V := SELECT id FROM Dear LIMIT 2").views["V"].plan.walk() if isinstance(n, TopK))
    assert [(o.expr.name, o.descending) for o in top.order] == [("Dear._order", True), ("Dear.name", False)]


def test_the_rows_are_not_sorted_to_be_kept() -> None:
    assert "top" not in plan_text(catalog("").views["Dear"].plan)


def test_templates_and_relationships_take_it() -> None:
    found = catalog(
        "Q(x STRING) := SELECT id FROM Dear WHERE name <> :x LIMIT 5;\nU.dear := JOIN Dear d ON d.id > _.t;"
    )
    assert [(s.descending, s.nulls_first) for s in plan_order(found.templates["Q"].plan)] == [
        (True, False),
        (False, True),
    ]
    (relationship,) = (r for r in found.relationships if r.name == "dear")
    assert [o.expr.name for o in relationship.order] == ["_order", "name"]
    own = catalog("Q() := SELECT id FROM Dear ORDER BY id;\nU.dear := JOIN Dear d ON d.id = _.t ORDER BY d.id DESC;")
    assert [s.column for s in plan_order(own.templates["Q"].plan)] == ["id"]
    assert [o.expr.name for r in own.relationships for o in r.order] == ["id"]


def test_a_column_more_leaves_the_order() -> None:
    assert order_of("V := SELECT id, name FROM T ORDER BY name;\nV.low := lower(name);", "V") == [("name", False)]
    later = catalog("V := SELECT id, name FROM T ORDER BY name;\nV.name := 'x';").views["V"]
    assert [o.expr.name for o in later.order] == ["_name"]


def test_an_index_gives_the_order() -> None:
    assert ("_order", "name") in read_indexes(catalog(""), "Dear")


def test_events_and_the_clock_give_no_order() -> None:
    compiled = compile_script(BASE + "CREATE SUBSCRIPTION S ON ADD AS SELECT id FROM T ORDER BY id;")
    assert [d.code for d in compiled.diagnostics] == ["B3060"]
