"""Watermarks through nested tables, two levels deep, and a LEFT JOIN; plain loops over the rows are the oracle."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.plan.operators.nodes import Join
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.event_time.cases import at

START = at("8:00")
ITEMS = "ARRAY<STRUCT<sku STRING, parts ARRAY<STRUCT<p STRING, n INT, bolts ARRAY<STRUCT<b INT>>>>>>"
SCRIPT = f"""
CREATE STREAM _Orders (id INT, ts TIMESTAMP NOT NULL, items {ITEMS},
                       WATERMARK FOR ts);
CREATE TABLE Carts (id INT, owner STRING, items {ITEMS},
                    PRIMARY KEY (id));
Deep := SELECT o.id, i.sku, p.p, p.n FROM _Orders o JOIN o.items i JOIN i.parts p WHERE o.id > 2;
Deeper := SELECT o.id, x.b FROM _Orders o JOIN o.items i JOIN i.parts p JOIN p.bolts x WHERE o.id > 2;
Up := SELECT o.id, i.sku, p.p, p.n FROM _Orders.items.parts p JOIN p.parent i JOIN i.parent o WHERE o.id > 2;
Maybe := SELECT o.id, i.sku FROM _Orders o LEFT JOIN o.items i WHERE o.id > 2;
Hours := SELECT hour(o.ts) AS h, p.p, sum(p.n) AS n FROM _Orders o JOIN o.items i JOIN i.parts p
         GROUP BY h, p.p EMIT STREAM AFTER WATERMARK;
Lines := SELECT hour(o.ts) AS h, count(*) AS n, count(i.sku) AS skus FROM _Orders o LEFT JOIN o.items i GROUP BY h
         EMIT AFTER WATERMARK;
Owned := SELECT c.owner, i.sku, p.p FROM Carts c JOIN c.items i JOIN i.parts p;
Empty := SELECT c.id, c.owner FROM Carts c LEFT JOIN c.items i WHERE i.sku IS NULL;
"""
NAMES = ["Deep", "Deeper", "Up", "Maybe", "Hours", "Lines", "Owned", "Empty"]
Row = dict[str, Any]


def test_no_rows_are_looked_up() -> None:
    compiled = compile_script(SCRIPT)
    assert compiled.ok, compiled.diagnostics
    for name in NAMES:
        assert not any(isinstance(n, Join) for n in compiled.catalog.views[name].plan.walk()), name
    assert {
        s.rule
        for s in maintain(compiled.catalog).stages
        if s.owner in ("Deep", "Deeper", "Up", "Maybe", "Owned", "Empty")
    } == {"linear"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT o.id, i.sku FROM _Orders o LEFT JOIN o.items i ON i.sku = 'x'",  # not every item
        "SELECT o.id, p.n FROM _Orders o LEFT JOIN o.items i LEFT JOIN i.parts p",  # deeper
        "SELECT o.id, i.sku FROM _Orders o JOIN _Orders.items i ON i._uid = o.id",  # by another column
    ],
)
def test_other_joins_stay_joins(text: str) -> None:
    catalog = compile_script(SCRIPT + f"V := {text};").catalog
    assert any(isinstance(n, Join) for n in catalog.views["V"].plan.walk())


def some_items(random: Random) -> list[Row] | None:
    def bolts() -> list[Row] | None:
        return random.choice([None, [], [{"b": 1}, {"b": 2}]])

    def parts() -> list[Row] | None:
        return random.choice(
            [None, [], [{"p": random.choice("ab"), "n": random.randint(0, 9), "bolts": bolts()} for _ in range(2)]]
        )

    return random.choice([None, [], [{"sku": random.choice(["x", "y", None]), "parts": parts()} for _ in range(3)]])


def bag(rows: list[Row], *names: str) -> Counter[str]:
    return Counter(repr([r[n] for n in names]) for r in rows)


def deep(orders: list[Row]) -> list[Row]:
    return [{**o, **i, **p} for o in orders for i in o["items"] or [] for p in i["parts"] or []]


def maybe(orders: list[Row]) -> list[Row]:
    return [{**o, **i} for o in orders for i in o["items"] or [{"sku": None}]]


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, *at_night(range(2, 6))])
def test_rows_are_those_of_plain_loops(spark: Any, seed: int) -> None:
    random, wb = Random(seed), Workbench(SCRIPT, spark=spark)
    orders: list[Row] = []
    carts: dict[int, Row] = {}
    try:
        for epoch in range(4 if seed == 1 else 10):
            low = START + timedelta(minutes=40 * epoch)
            new = [
                {
                    "id": random.randint(1, 9),
                    "ts": low + timedelta(minutes=random.randint(0, 90)),
                    "items": some_items(random),
                }
                for _ in range(random.randint(0, 6))
            ]
            wb.insert("_Orders", new)
            wb.bound("_Orders", low + timedelta(minutes=40))
            orders += new
            for id_ in random.sample(sorted(carts), min(len(carts), 1)):
                wb.delete("Carts", [{"id": id_}])
                del carts[id_]
            changed = {
                n: {"id": n, "owner": random.choice("uv"), "items": some_items(random)}
                for n in random.sample(range(6), 3)
            }
            wb.insert("Carts", changed.values())
            carts |= changed
            wb.step()
            if epoch == 1:
                wb.restart()
            large = [o for o in orders if o["id"] > 2]
            for view in ("Deep", "Up"):
                assert bag(wb.rows(view), "id", "sku", "p", "n") == bag(deep(large), "id", "sku", "p", "n")
            bolts = [{**r, **b} for r in deep(large) for b in r["bolts"] or []]
            assert bag(wb.rows("Deeper"), "id", "b") == bag(bolts, "id", "b")
            assert bag(wb.rows("Maybe"), "id", "sku") == bag(maybe(large), "id", "sku")
            assert bag(wb.rows("Owned"), "owner", "sku", "p") == bag(deep([*carts.values()]), "owner", "sku", "p")
            none = [r for r in maybe([*carts.values()]) if r["sku"] is None]
            assert bag(wb.rows("Empty"), "id", "owner") == bag(none, "id", "owner")
        wb.bound("_Orders", START + timedelta(days=9))
        wb.step()
        sums: Counter[Any] = Counter()
        for row in deep(orders):
            sums[row["ts"].replace(minute=0), row["p"]] += row["n"]
        assert {(r["h"], r["p"]): r["n"] for r in wb.rows("Hours")} == sums
        lines = Counter(r["ts"].replace(minute=0) for r in maybe(orders))
        skus = Counter(r["ts"].replace(minute=0) for r in maybe(orders) if r["sku"] is not None)
        assert {r["h"]: (r["n"], r["skus"]) for r in wb.rows("Lines")} == {h: (n, skus[h]) for h, n in lines.items()}
        answers = wb.batches(NAMES)
        for view in NAMES:
            assert sorted(map(repr, wb.rows(view))) == sorted(map(repr, answers[view])), view
    finally:
        wb.close()
